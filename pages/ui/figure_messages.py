"""Words of the diagrams: labels, hover cards, and each picture in a sentence."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "figure.head": ("HEAD", "队首"),
    "figure.tail": ("TAIL", "队尾"),
    "figure.queue_empty": ("no free block", "没有空闲块"),
    "figure.more_requests": ("+{n} more", "另有 {n} 个"),
    "figure.finished_mark": ("✓ done", "✓ 完成"),
    "figure.aborted_mark": ("× aborted", "× 中止"),
    "state.null": ("null block", "空块"),
    "state.shared": ("shared", "共享"),
    "state.owned": ("owned", "占用"),
    "state.cached": ("free, still cached", "空闲，仍有缓存"),
    "state.empty": ("free, empty", "空闲，为空"),
    "hover.null": (
        "never free, never owned",
        "从不空闲，也从不被占用",
    ),
    "hover.nobody": ("nobody", "无"),
    "hover.block": (
        "<b>Block #{block}</b>: {state}<br>ref count {ref}, owned by {owners}<br>"
        "{fill} of {size} slots filled<br>{extra}",
        "<b>块 #{block}</b>：{state}<br>引用计数 {ref}，所有者：{owners}<br>{size} 个槽位已填 {fill} 个<br>{extra}",
    ),
    "hover.hash": ("published under block hash {hash}", "以块哈希 {hash} 发布"),
    "hover.mark.new": ("taken from the free queue in this step", "本步从空闲队列取出"),
    "hover.mark.evicted": (
        "its cached content was forgotten in this step: handed out again",
        "本步丢弃了它的缓存内容：重新分配",
    ),
    "hover.mark.hit": ("found by a prefix lookup in this step", "本步被前缀查找命中"),
    "hover.mark.copied": ("copied on write from a shared block in this step", "本步由共享块写时复制而来"),
    "hover.mark.freed": ("given back in this step", "本步归还"),
    "hover.run.one": ("<b>Block #{first}</b>: {state}", "<b>块 #{first}</b>：{state}"),
    "hover.run.many": (
        "<b>Blocks #{first}–#{last}</b> ({n}): {state}",
        "<b>块 #{first}–#{last}</b>（{n} 个）：{state}",
    ),
    "hover.table": (
        "<b>{id}</b>: logical block {position} → physical #{block}",
        "<b>{id}</b>：逻辑块 {position} → 物理块 #{block}",
    ),
    "hover.queue": (
        "Block #{block}, place {place} of {n} in the free queue<br>{state}",
        "块 #{block}，空闲队列第 {place} 位，共 {n}<br>{state}",
    ),
    "hover.tokens": (
        "Step {step}: {tokens} tokens scheduled, budget {budget}",
        "第 {step} 步：调度 {tokens} 个令牌，预算 {budget}",
    ),
    "hover.lane.one": (
        "<b>{id}</b>, step {first}–{last}: {work}<br>{tokens} tokens",
        "<b>{id}</b>，第 {first}–{last} 步：{work}<br>{tokens} 个令牌",
    ),
    "hover.lane.many": (
        "<b>{id}</b>, steps {first} to {last}: {work}<br>{tokens} tokens in all",
        "<b>{id}</b>，第 {first} 至 {last} 步：{work}<br>共 {tokens} 个令牌",
    ),
    "hover.attention": (
        "<b>{id}</b>, head {head}: {percent} % of the attention<br>on logical block {position}, physical #{block}",
        "<b>{id}</b>，头 {head}：{percent} % 的注意力<br>在逻辑块 {position}，物理块 #{block}",
    ),
    "alt.pool": (
        "Physical pool: {owned} blocks owned ({shared} shared), {cached} free but cached, {empty} free and empty.",
        "物理块池：占用 {owned} 个块，其中共享 {shared} 个；空闲有缓存 {cached} 个，空闲为空 {empty} 个。",
    ),
    "alt.tables": ("Block tables. {rows}", "块表。{rows}"),
    "alt.table_row": ("{id}: {blocks}.", "{id}：{blocks}。"),
    "alt.queue": (
        "Free queue with {n} blocks. Next to be handed out: {blocks}.",
        "空闲队列共 {n} 个块。接下来分配：{blocks}。",
    ),
    "alt.queue_empty": ("The free queue is empty.", "空闲队列为空。"),
    "alt.schedule": (
        "Schedule up to step {step}: {tokens} of {budget} tokens in this step.",
        "截至第 {step} 步的调度：本步 {tokens} 个令牌，预算 {budget}。",
    ),
    "alt.schedule_empty": ("Nothing has been scheduled yet.", "尚未调度任何内容。"),
    "hover.batch": (
        "<b>{id}</b>: query tokens {first}–{last} of the launch<br>"
        "positions {start}–{end}, reads {context}<br>writes slots {slots}",
        "<b>{id}</b>：本次启动的查询令牌 {first}–{last}<br>位置 {start}–{end}，读取 {context} 个<br>写入槽位 {slots}",
    ),
    "hover.chain": (
        "chained from {parent}<br>blocks with this content: {twins}",
        "由 {parent} 链接而来<br>具有此内容的块数：{twins}",
    ),
    "hover.chain_root": ("the root", "根"),
    "figure.no_chain": ("no block is published yet", "尚无已发布的块"),
    "figure.more_blocks": ("+{n} more blocks", "另有 {n} 个块"),
    "alt.chains": (
        "Published hashes: {hashes}, in chains: {heads}; out of any lookup's reach: {stranded}.",
        "已发布的哈希 {hashes} 个，成链 {heads} 条；查找已无法到达的有 {stranded} 个。",
    ),
    "figure.tree_empty": ("the tree is empty", "树为空"),
    "figure.more_nodes": ("+{n} more nodes", "另有 {n} 个节点"),
    "figure.heap_empty": ("no leaf can be evicted now", "目前没有可淘汰的叶子"),
    "figure.more_leaves": ("+{n} more leaves", "另有 {n} 个叶子"),
    "state.evictable": ("evictable: an unlocked leaf", "可淘汰：未加锁的叶子"),
    "state.protected": ("protected: in use", "受保护：正在使用"),
    "state.inner": ("unlocked, but its children must go first", "未加锁，但必须先淘汰其子节点"),
    "hover.tree_root": (
        "<b>Root</b><br>{evictable} tokens evictable, {protected} protected",
        "<b>根</b><br>可淘汰 {evictable} 个令牌，受保护 {protected} 个",
    ),
    "hover.tree_node": (
        "<b>Node {node}</b>: {tokens} tokens, positions {first}–{last}, {pages} pages<br>“{text}”<br>"
        "lock ref {lock}, hit count {hits}<br>{state}",
        "<b>节点 {node}</b>：{tokens} 个令牌，位置 {first}–{last}，{pages} 页<br>“{text}”<br>"
        "锁引用 {lock}，命中计数 {hits}<br>{state}",
    ),
    "hover.tree_cut": (
        "upper half of an edge cut in this step; it inherits the locks",
        "本步被切开的边的上半部分；它继承锁",
    ),
    "hover.heap_leaf": ("<b>Node {node}</b>, eviction key {rank}", "<b>节点 {node}</b>，淘汰键 {rank}"),
    "hover.heap_popped": (
        "<b>Node {node}</b>, eviction key {rank}<br>taken out as number {turn}",
        "<b>节点 {node}</b>，淘汰键 {rank}<br>第 {turn} 个被取出",
    ),
    "heap.idle": (
        "{leaves} evictable leaves; the smallest key would go first",
        "{leaves} 个可淘汰的叶子；键最小者先走",
    ),
    "heap.cost": (
        "asked {asked} tokens, freed {evicted}: {popped} leaves out, parents in: {pushed}, {comparisons} comparisons "
        "(v + e·log(v + e) = {bound})",
        "要求 {asked} 个令牌，释放 {evicted} 个：取出 {popped}，父节点加入 {pushed}，比较 {comparisons} 次"
        "（v + e·log(v + e) = {bound}）",
    ),
    "alt.tree": (
        "Radix tree: {nodes} nodes, {locked} locked; {evictable} tokens evictable, {protected} protected.",
        "基数树：{nodes} 个节点，其中 {locked} 个加锁；可淘汰 {evictable} 个令牌，受保护 {protected} 个。",
    ),
    "figure.nobody_waits": ("nobody has waited a step", "还没有人等待过一步"),
    "figure.steps": ("{n} steps", "{n} 步"),
    "figure.steps_waited.one": ("{n} step", "{n} 步"),
    "figure.steps_waited.many": ("{n} steps", "{n} 步"),
    "figure.wait": ("{id}: {steps}", "{id}：{steps}"),
    "figure.wait_overtaken": ("{id}: {steps}, overtaken ×{overtaken}", "{id}：{steps}，被超越 ×{overtaken}"),
    "figure.wait_again": ("{id}: {steps}, preempted", "{id}：{steps}，被抢占"),
    "hover.wait": (
        "<b>{id}</b>: came at step {begin}, waited {steps} steps<br>overtaken by {overtaken} that came later",
        "<b>{id}</b>：第 {begin} 步到达，等待 {steps} 步<br>被 {overtaken} 个更晚到的请求超越",
    ),
    "hover.wait_again": (
        "<b>{id}</b>: preempted at step {begin}, waited {steps} steps",
        "<b>{id}</b>：第 {begin} 步被抢占，等待 {steps} 步",
    ),
    "alt.fairness": (
        "Waits: {n} go on. The longest so far is {id} with {steps} steps, overtaken {overtaken} times; all together "
        "were overtaken {all} times.",
        "等待：{n} 个仍在等待。迄今最长的是 {id}，{steps} 步，被超越 {overtaken} 次；总共被超越 {all} 次。",
    ),
    "figure.ms": ("{ms} ms", "{ms} 毫秒"),
    "figure.no_token": ("no token yet", "尚无令牌"),
    "figure.ttft": ("TTFT {ttft}", "首令牌 {ttft}"),
    "figure.latency": ("TTFT {ttft} · TPOT {tpot}", "首令牌 {ttft} · 每令牌 {tpot}"),
    "hover.latency": (
        "<b>{id}</b>: {tokens} tokens out<br>waited {queue}, first token after {ttft} (TTFT)<br>"
        "{tpot} per further token (TPOT), largest gap {worst}<br>end to end {e2e}, suspended {suspended}",
        "<b>{id}</b>：输出 {tokens} 个令牌<br>排队 {queue}，首令牌用时 {ttft}（TTFT）<br>"
        "其后每令牌 {tpot}（TPOT），最大间隔 {worst}<br>端到端 {e2e}，挂起 {suspended}",
    ),
    "metric.none": ("no data", "无数据"),
    "clock.measured": ("measured", "实测"),
    "clock.modelled": ("modelled: {name}", "建模：{name}"),
    "alt.latency": (
        "Latency in ms, {clock}: median TTFT {ttft}, TPOT {tpot}, gap {itl}, largest gap {worst}.",
        "延迟（毫秒，{clock}）：中位 TTFT {ttft}，TPOT {tpot}，间隔 {itl}，最大间隔 {worst}。",
    ),
    "figure.queries": ("queries", "查询"),
    "alt.batch": ("One launch, {n} requests. {rows}", "一次启动，{n} 个请求。{rows}"),
    "alt.batch_row": ("{id}: {query} query tokens over {context}.", "{id}：{query} 个查询令牌，上下文 {context}。"),
    "alt.batch_empty": ("Nothing was launched in this step.", "本步没有启动内核。"),
    "alt.attention": (
        "Attention of {id}: {heads} heads over {n} blocks; on average {percent} % on block #{block}.",
        "{id} 的注意力：{heads} 个头、{n} 个块；平均 {percent} % 在块 #{block}。",
    ),
    "alt.attention_none": ("No attention to show for this step.", "本步没有注意力可显示。"),
}
