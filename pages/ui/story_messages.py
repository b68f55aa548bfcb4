"""Words of the life story: what one event meant to one request or block."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "story.title": ("{name}, newest first", "{name}，最新在前"),
    "panel.story": ("Life story", "经历"),
    "story.select": (
        "Click a request or a block in any diagram: every event that touched it is listed here.",
        "在任一图中点击请求或块：所有涉及它的事件都列在这里。",
    ),
    "story.none": ("Nothing has touched {name} so far.", "到目前为止没有事件涉及 {name}。"),
    "story.step.one": ("step {first}", "第 {first} 步"),
    "story.step.many": ("steps {first}–{last}", "第 {first}–{last} 步"),
    "story.jump": ("Go to step {step}", "跳到第 {step} 步"),
    "story.arrived": (
        "Arrives: {prompt} prompt tokens, up to {max} new ones.",
        "到达：提示 {prompt} 个令牌，最多生成 {max} 个。",
    ),
    "story.admitted": ("Admitted; {hit} tokens found in the prefix cache.", "被接纳；前缀缓存命中 {hit} 个令牌。"),
    "story.resumed": ("Resumes; {hit} tokens found in the prefix cache.", "恢复运行；前缀缓存命中 {hit} 个令牌。"),
    "story.prefill": (
        "Prefill of {tokens} tokens: positions {first}–{last}.",
        "预填充 {tokens} 个令牌：位置 {first}–{last}。",
    ),
    "story.recompute": (
        "Computes {tokens} tokens again: positions {first}–{last}.",
        "重算 {tokens} 个令牌：位置 {first}–{last}。",
    ),
    "story.decode": ("Decodes, one token a step.", "解码，每步一个令牌。"),
    "story.waited": ("Waits: {reason}.", "等待：{reason}。"),
    "story.preempted": (
        "Preempted: {other} needed {need} free blocks. The KV of {lost} tokens is lost.",
        "被抢占：{other} 需要 {need} 个空闲块。{lost} 个令牌的 KV 丢失。",
    ),
    "story.preempts": (
        "Makes {other} give way: {need} free blocks needed, {have} left.",
        "使 {other} 让位：需要 {need} 个空闲块，仅剩 {have} 个。",
    ),
    "story.swapped_out": (
        "KV of {tokens} tokens copied to host memory ({blocks} blocks).",
        "{tokens} 个令牌的 KV 复制到主机内存（{blocks} 个块）。",
    ),
    "story.swapped_in": (
        "KV of {tokens} tokens is back from host memory ({blocks} blocks copied).",
        "{tokens} 个令牌的 KV 从主机内存取回（复制 {blocks} 个块）。",
    ),
    "story.swap_refused": (
        "Not swapped: the host pool has {have} of {need} blocks. It will recompute.",
        "未换出：主机池只有 {have} 个块，需要 {need} 个。将重新计算。",
    ),
    "story.copies": ("Copies #{source} to #{target} before it writes.", "写入前把 #{source} 复制到 #{target}。"),
    "story.reserved": ("Reserves blocks #{first}–#{last}.", "预留块 #{first}–#{last}。"),
    "story.forked_from": (
        "Forked from {parent}: {tokens} positions shared.",
        "由 {parent} 分叉而来：共享 {tokens} 个位置。",
    ),
    "story.forked_to": ("{child} forks off: {tokens} positions shared.", "{child} 由此分叉：共享 {tokens} 个位置。"),
    "story.finished.one": ("Ends after {n} token.", "生成 {n} 个令牌后结束。"),
    "story.finished.many": ("Ends after {n} tokens.", "生成 {n} 个令牌后结束。"),
    "story.aborted": ("Aborted.", "被中止。"),
    "story.block.allocated": (
        "Handed out from the head of the free queue: {id}, logical block {position}.",
        "从空闲队列队首分配给 {id}，逻辑块 {position}。",
    ),
    "story.block.revived": (
        "Hit while free: {id} revives it, ref count {ref}.",
        "空闲时被命中：{id} 使其复活，引用计数 {ref}。",
    ),
    "story.block.shared": ("Hit: {id} shares it, ref count {ref}.", "被命中：{id} 共享它，引用计数 {ref}。"),
    "story.block.published": ("Filled by {id} and published as {hash}.", "由 {id} 填满并以 {hash} 发布。"),
    "story.block.withdrawn": ("{id} will not fill it; its hash is withdrawn.", "{id} 不会填满它；其哈希被撤回。"),
    "story.block.evicted": (
        "Cached content {hash} forgotten: {id} needs a block.",
        "丢弃缓存内容 {hash}：{id} 需要块。",
    ),
    "story.block.left": ("{id} lets go; ref count {ref}.", "{id} 放开它；引用计数 {ref}。"),
    "story.block.freed_head": (
        "{id} lets go ({cause}): to the head of the free queue, since nothing is cached in it.",
        "{id} 放开它（{cause}）：未缓存内容，回到空闲队列队首。",
    ),
    "story.block.freed_tail": (
        "{id} lets go ({cause}): to the tail of the free queue, still cached.",
        "{id} 放开它（{cause}）：内容仍有缓存，排到空闲队列队尾。",
    ),
    "story.block.forked": ("{child} shares it with {parent}: fork.", "分叉：{child} 与 {parent} 共享它。"),
    "story.block.copied_from": ("{id} copies it to #{target} and leaves.", "{id} 把它复制到 #{target} 后离开。"),
    "story.block.copied_to": (
        "{filled} positions copied here from #{source} for {id}.",
        "为 {id} 从 #{source} 复制来 {filled} 个位置。",
    ),
    "story.block.swapped_out": ("Content of {id} copied to host block {host}.", "{id} 的内容复制到主机块 {host}。"),
    "story.block.swapped_in": ("Content of {id} back from host block {host}.", "{id} 的内容从主机块 {host} 取回。"),
    "story.block.reserved": ("Reserved for {id}.", "为 {id} 预留。"),
    "story.matched": (
        "Looks up {tokens} tokens: {matched} are in the tree, {usable} of them in whole pages.",
        "查找 {tokens} 个令牌：树中有 {matched} 个，其中 {usable} 个构成整页。",
    ),
    "story.stored": (
        "{tokens} of its tokens join the tree as node {node}.",
        "它的 {tokens} 个令牌进入树中，成为节点 {node}。",
    ),
    "story.evicts": (
        "Needs room: node {node} with {tokens} tokens is evicted.",
        "需要空间：淘汰节点 {node}（{tokens} 个令牌）。",
    ),
    "story.duplicates": (
        "Had computed what the tree held already: takes the tree's pages and gives {pages} back.",
        "算了树中已有的内容：改用树中的页，归还 {pages}。",
    ),
    "story.released": (
        "Lets go: pages kept by the tree {stored}, free {freed}.",
        "放开：树保留的页 {stored}，空闲 {freed}。",
    ),
    "story.block.stored": ("Joins the tree as part of node {node}.", "进入树中，属于节点 {node}。"),
    "story.block.node_evicted": (
        "Node {node} is evicted for {id}: free and empty.",
        "为 {id} 淘汰节点 {node}：空闲且为空。",
    ),
    "story.block.duplicate": (
        "The tree has the same content already: {id} gives it back.",
        "树中已有相同内容：{id} 归还它。",
    ),
    "story.block.stays": ("{id} lets go; the tree keeps it.", "{id} 放开它；由树保留。"),
    "story.block.released": ("{id} lets go; it is free.", "{id} 放开它；变为空闲。"),
    "story.node.matched": (
        "{id}'s match ends here, after {usable} usable tokens.",
        "{id} 的匹配止于此，可用 {usable} 个令牌。",
    ),
    "story.node.inserted": (
        "Joins the tree: {tokens} tokens of {id}, in {pages}.",
        "进入树中：{id} 的 {tokens} 个令牌，位于 {pages}。",
    ),
    "story.node.child": ("Node {node} grows from it.", "从它长出节点 {node}。"),
    "story.node.child_gone": ("Its child, node {node}, is evicted.", "它的子节点 {node} 被淘汰。"),
    "story.node.upper": (
        "The edge of node {lower} is cut: its first {tokens} tokens are this node, with its locks ({locks}).",
        "切开节点 {lower} 的边：前 {tokens} 个令牌成为此节点，并继承其锁（{locks}）。",
    ),
    "story.node.lower": (
        "Its edge is cut: the first {tokens} tokens are now node {upper}.",
        "它的边被切开：前 {tokens} 个令牌现在是节点 {upper}。",
    ),
    "story.node.locked": ("Locked by {id}.", "被 {id} 加锁。"),
    "story.node.unlocked": ("Unlocked by {id}.", "被 {id} 解锁。"),
    "story.node.evicted": ("Evicted for {id}: {pages} free.", "为 {id} 被淘汰：{pages} 空闲。"),
    "cause.finished": ("finished", "已完成"),
    "cause.aborted": ("aborted", "已中止"),
    "cause.preempted": ("preempted", "被抢占"),
    "cause.swapped": ("swapped out", "被换出"),
}
