"""Words of the why panel: what an event meant, with its numbers."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "list.comma": (", ", "、"),
    "list.semicolon": ("; ", "；"),
    "list.and": ("{items} and {last}", "{items} 和 {last}"),
    "list.more": ("{items} and {n} more", "{items} 等，另 {n} 个"),
    "why.start": (
        "Nothing has run yet: every block is free. Press → for the first step.",
        "尚未运行：所有块都空闲。按 → 执行第一步。",
    ),
    "why.announce": ("Step {step}. {text}", "第 {step} 步。{text}"),
    "why.arrived": (
        "{id} arrives: {prompt} prompt tokens, at most {max} to generate.",
        "{id} 到达：提示 {prompt} 个令牌，最多生成 {max} 个。",
    ),
    "why.arrived_many": ("{ids} arrive with {prompts} prompt tokens.", "{ids} 到达，提示令牌数分别为 {prompts}。"),
    "why.aborted": ("{id} is aborted and gives back its blocks.", "{id} 被中止并归还其块。"),
    "why.preempted.one": (
        "Preempted {id} so that {other} gets a block: {n} needed, {have} free. {id} loses {lost} computed tokens.",
        "抢占 {id}，使 {other} 得到块：需要 {n} 个，空闲 {have} 个。{id} 失去 {lost} 个已算令牌。",
    ),
    "why.preempted.many": (
        "Preempted {id} so that {other} gets blocks: {n} needed, {have} free. {id} loses {lost} computed tokens.",
        "抢占 {id}，使 {other} 得到块：需要 {n} 个，空闲 {have} 个。{id} 失去 {lost} 个已算令牌。",
    ),
    "why.preempted_self.one": (
        "{id} needs {n} block, {have} are free, and it is the one to give way: it preempts itself and loses {lost} "
        "computed tokens.",
        "{id} 需要 {n} 个块，空闲 {have} 个，而应由它让出：它抢占自己，失去 {lost} 个已算令牌。",
    ),
    "why.preempted_self.many": (
        "{id} needs {n} blocks, {have} are free, and it is the one to give way: it preempts itself and loses {lost} "
        "computed tokens.",
        "{id} 需要 {n} 个块，空闲 {have} 个，而应由它让出：它抢占自己，失去 {lost} 个已算令牌。",
    ),
    "why.preempted_swap.one": (
        "Preempted {id} so that {other} gets a block: {n} needed, {have} free. {id} loses no computed token.",
        "抢占 {id}，使 {other} 得到块：需要 {n} 个，空闲 {have} 个。{id} 不丢失已算令牌。",
    ),
    "why.preempted_swap.many": (
        "Preempted {id} so that {other} gets blocks: {n} needed, {have} free. {id} loses no computed token.",
        "抢占 {id}，使 {other} 得到块：需要 {n} 个，空闲 {have} 个。{id} 不丢失已算令牌。",
    ),
    "why.swapped_out.one": (
        "{blocks} of {id} ({tokens} tokens) is copied to host memory{cost}.",
        "{id} 的 {blocks}（{tokens} 个令牌）复制到主机内存{cost}。",
    ),
    "why.swapped_out.many": (
        "{blocks} of {id} ({tokens} tokens) are copied to host memory{cost}.",
        "{id} 的 {blocks}（{tokens} 个令牌）复制到主机内存{cost}。",
    ),
    "why.swapped_in.one": (
        "{id} resumes with {tokens} tokens computed: {n} block copied back from host memory{cost}, {hit} still in the "
        "prefix cache.",
        "{id} 恢复运行，保留 {tokens} 个已算令牌：从主机内存复制回 {n} 个块{cost}，{hit} 个仍在前缀缓存中。",
    ),
    "why.swapped_in.many": (
        "{id} resumes with {tokens} tokens computed: {n} blocks copied back from host memory{cost}, {hit} still in the "
        "prefix cache.",
        "{id} 恢复运行，保留 {tokens} 个已算令牌：从主机内存复制回 {n} 个块{cost}，{hit} 个仍在前缀缓存中。",
    ),
    "why.swap_cost": (" ({bytes} bytes in {ms} ms measured)", "（{bytes} 字节，实测 {ms} 毫秒）"),
    "why.swap_refused": (
        "{id} cannot be swapped out: {need} host blocks needed, {have} free; it will recompute.",
        "{id} 无法换出：需要 {need} 个主机块，空闲 {have} 个；将重新计算。",
    ),
    "why.withdrawn.one": (
        "{blocks} is taken back from the prefix cache: {ids} gave way before filling it.",
        "{blocks} 从前缀缓存撤回：{ids} 在填满之前让出了位置。",
    ),
    "why.withdrawn.many": (
        "{blocks} are taken back from the prefix cache: {ids} gave way before filling them.",
        "{blocks} 从前缀缓存撤回：{ids} 在填满之前让出了位置。",
    ),
    "why.run.first": (
        "{id} reserves blocks #{first}–#{last} ({n}) for its whole life: the first hole large enough had {hole}.",
        "{id} 为整个生命期预留块 #{first}–#{last}（{n} 个）：第一个足够大的空洞有 {hole} 个块。",
    ),
    "why.run.best": (
        "{id} reserves blocks #{first}–#{last} ({n}) for its whole life: the smallest hole large enough had {hole}.",
        "{id} 为整个生命期预留块 #{first}–#{last}（{n} 个）：最小的足够大的空洞有 {hole} 个块。",
    ),
    "why.rows_idle.one": (
        "{n} of {rows} rows of the batch is idle: it has ended and waits for the slowest.",
        "批次 {rows} 行中有 {n} 行空转：已结束，等待最慢者。",
    ),
    "why.rows_idle.many": (
        "{n} of {rows} rows of the batch are idle: they have ended and wait for the slowest.",
        "批次 {rows} 行中有 {n} 行空转：已结束，等待最慢者。",
    ),
    "why.admitted": (
        "{id} is admitted: {tokens} prompt tokens − {hit} found in cache = {left} to compute",
        "{id} 获准运行：提示 {tokens} 个令牌 − 缓存命中 {hit} 个 = 需计算 {left} 个",
    ),
    "why.resumed": (
        "{id} resumes: {tokens} known tokens − {hit} found in cache = {left} to recompute",
        "{id} 恢复运行：已知 {tokens} 个令牌 − 缓存命中 {hit} 个 = 需重算 {left} 个",
    ),
    "why.chunk_now": (", {now} of them in this step (chunked prefill)", "，本步先算 {now} 个（分块预填充）"),
    "why.hit_capped": (
        "; the last token is always computed, since its output is needed",
        "；最后一个令牌总要计算，因为需要它的输出",
    ),
    "why.shared.one": (
        "{id} shares block {blocks} with its owner: ref count now {ref}.",
        "{id} 与其所有者共享块 {blocks}：引用计数现为 {ref}。",
    ),
    "why.shared.many": (
        "{id} shares blocks {blocks} with their owners: ref count now {ref}.",
        "{id} 与其所有者共享块 {blocks}：引用计数现为 {ref}。",
    ),
    "why.revived.one": (
        "{id} revives block {blocks}: free, but still cached. It leaves the free queue from where it lies.",
        "{id} 复活块 {blocks}：虽空闲但内容仍在缓存中，从空闲队列所在位置取出。",
    ),
    "why.revived.many": (
        "{id} revives blocks {blocks}: free, but still cached. They leave the free queue from where they lie.",
        "{id} 复活块 {blocks}：虽空闲但内容仍在缓存中，从空闲队列所在位置取出。",
    ),
    "why.forked.one": (
        "{parent} forks into {ids}: {blocks} shared, {tokens} positions, nothing copied.",
        "{parent} 分叉出 {ids}：共享 {blocks}，{tokens} 个位置，无需复制。",
    ),
    "why.forked.many": (
        "{parent} forks into {n} copies, {ids}: {blocks} shared, {tokens} positions, nothing copied.",
        "{parent} 分叉出 {n} 个副本 {ids}：共享 {blocks}，{tokens} 个位置，无需复制。",
    ),
    "why.copied": (
        "{id} writes into block #{source}, which {owners} requests share and {filled} positions fill: it is copied to "
        "#{target} first (copy-on-write, as in the PagedAttention paper; vLLM V1 never shares a part-filled block for "
        "full attention).",
        "{id} 要写入块 #{source}，该块由 {owners} 个请求共享、已填 {filled} 个位置：先复制到 #{target}（写时复制，"
        "见 PagedAttention 论文；对完整注意力，vLLM V1 从不共享未填满的块）。",
    ),
    "why.chunk": (
        "{id} goes on with its prompt: positions {first}–{last} of {total}.",
        "{id} 继续处理提示：位置 {first}–{last}，共 {total}。",
    ),
    "why.stop": (".", "。"),
    "why.gets": ("{id} gets {blocks}", "{id} 得到 {blocks}"),
    "why.allocated": ("From the head of the free queue: {gets}.", "从空闲队列队首：{gets}。"),
    "why.evicted.one": (
        "The cached content of {blocks} is forgotten: the block was next in the queue and {ids} needed it.",
        "{blocks} 的缓存内容被丢弃：它排在队首，而 {ids} 需要它。",
    ),
    "why.evicted.many": (
        "The cached contents of {blocks} are forgotten: they were next in the queue and {ids} needed them.",
        "{blocks} 的缓存内容被丢弃：它们排在队首，而 {ids} 需要它们。",
    ),
    "why.decode.one": ("{ids} decodes: one token computed, one sampled.", "{ids} 解码：计算一个令牌，采样一个。"),
    "why.decode.many": (
        "{ids} decode: one token each, in one launch.",
        "{ids} 解码：各一个令牌，一次启动完成。",
    ),
    "why.published.one": (
        "Block {blocks} is full and published under its hash: later requests can hit it.",
        "块 {blocks} 已满并以其哈希发布：之后的请求可以命中。",
    ),
    "why.published.many": (
        "Blocks {blocks} are full and published under their hashes: later requests can hit them.",
        "块 {blocks} 已满并以其哈希发布：之后的请求可以命中。",
    ),
    "why.duplicate.one": ("{blocks} duplicates content that is cached already.", "{blocks} 与已缓存的内容重复。"),
    "why.duplicate.many": ("{blocks} duplicate content that is cached already.", "{blocks} 与已缓存的内容重复。"),
    "why.waits": ("{id} waits: {reason}.", "{id} 等待：{reason}。"),
    "why.behind.one": (
        "{ids} waits behind {other}: nobody overtakes the head of the queue.",
        "{ids} 排在 {other} 之后等待：不允许越过队首。",
    ),
    "why.behind.many": (
        "{ids} wait behind {other}: nobody overtakes the head of the queue.",
        "{ids} 排在 {other} 之后等待：不允许越过队首。",
    ),
    "why.finished.one": ("{id} finishes ({reason}) after {n} token", "{id} 完成（{reason}），共 {n} 个令牌"),
    "why.finished.many": ("{id} finishes ({reason}) after {n} tokens", "{id} 完成（{reason}），共 {n} 个令牌"),
    "why.to_tail": (
        "; {blocks} to the tail, still cached",
        "；{blocks} 到队尾，仍有缓存",
    ),
    "why.to_head": (
        "; {blocks} to the head, not cached",
        "；{blocks} 到队首，无缓存",
    ),
    "why.still_shared": ("; {blocks} stay with others", "；{blocks} 仍被他人持有"),
    "why.sorted": ("The waiting queue is put in order ({policy}): {ids}.", "等待队列重新排序（{policy}）：{ids}。"),
    "why.twin": (
        "{id} goes last for now: {cached} of its tokens are cached, but one before it in the queue shares {shared} "
        "and computes them first.",
        "{id} 暂排到最后：它有 {cached} 个令牌已缓存，而队列中在它前面的请求与它共享 {shared} 个，先由后者计算。",
    ),
    "why.ratio": (
        "{ids} stay; from now on they are expected to use {ratio} of their max_tokens.",
        "{ids} 留下；此后估计它们会用掉 max_tokens 的 {ratio}。",
    ),
    "why.matched": (
        "{id}: {matched} tokens match, {usable} of them fill whole pages and can be reused.",
        "{id}：匹配 {matched} 个令牌，其中 {usable} 个填满整页，可以复用。",
    ),
    "why.split": (
        "Node {lower} is split: the new node {upper} takes its first {tokens} tokens and its locks ({locks}).",
        "节点 {lower} 被分裂：新节点 {upper} 得到它的前 {tokens} 个令牌和它的锁（{locks}）。",
    ),
    "why.node_evicted": (
        "Leaf {node} is evicted with its {tokens} tokens, because {id} needs room: {pages} free.",
        "叶子 {node} 连同 {tokens} 个令牌被淘汰，因为 {id} 需要空间：{pages} 空闲。",
    ),
    "why.eviction_ended": (
        "{asked} tokens were to be freed, {evicted} were: {comparisons} comparisons over {leaves} leaves, the bound is "
        "{bound}.",
        "要释放 {asked} 个令牌，实际释放 {evicted} 个：{leaves} 个叶子共比较 {comparisons} 次，上界 {bound}。",
    ),
    "why.node_inserted": (
        "{tokens} tokens of {id} are in the tree now, as node {node}: {pages}.",
        "{id} 的 {tokens} 个令牌进入树中，成为节点 {node}：{pages}。",
    ),
    "why.duplicates_freed": (
        "{id} computed what the tree has already: its table names the tree's pages now. Given back: {pages}.",
        "{id} 算出的内容树中已有：它的块表改指树的页。归还：{pages}。",
    ),
    "why.row_released": (
        "{id} lets go ({cause}); pages that stay in the tree: {stored}, freed: {freed}.",
        "{id} 放手（{cause}）：{stored} 页留在树中，{freed} 页空闲。",
    ),
    "why.idle": ("Nothing to schedule in this step.", "本步没有可调度的内容。"),
    "why.more.one": ("{n} more change.", "另有 {n} 处变化。"),
    "why.more.many": ("{n} more changes.", "另有 {n} 处变化。"),
}
