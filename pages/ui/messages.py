"""The pages' part of the message catalogue: key → (English, 简体中文). `pages/ui/text.py` merges the rooms."""

from __future__ import annotations

CONTROLS: dict[str, tuple[str, str]] = {
    "control.reset": ("Reset", "重置"),
    "control.back": ("Back", "后退"),
    "control.step": ("Step", "单步"),
    "control.play": ("Play", "播放"),
    "control.end": ("Run to end", "运行到底"),
    "control.stop": ("Stop", "停止"),
    "control.scrub": ("Step shown", "显示的步"),
    "control.scrub_value": ("step {step} of {last}", "第 {step} 步，共到 {last}"),
    "control.scrub_start": ("before step 0", "第 0 步之前"),
    "control.clear": ("Clear selection", "清除选择"),
    "control.selected_request": ("request {id}", "请求 {id}"),
    "control.selected_block": ("block #{id}", "块 #{id}"),
    "control.selected_node": ("node {id}", "节点 {id}"),
    "control.loading": ("Loading the diagrams…", "正在加载图表…"),
    "control.no_plotly": (
        "The diagrams could not be loaded from this server (/vendor/plotly.min.js). Reload the page to try again.",
        "无法从服务器加载图表（/vendor/plotly.min.js）。请刷新页面重试。",
    ),
    "control.offline": (
        "The server does not answer; trying again every second. What has been run can still be stepped through.",
        "服务器没有响应，正在每秒重试。已运行的步骤仍可浏览。",
    ),
    "control.toolbar": ("Stepping", "步进控制"),
}

KPIS: dict[str, tuple[str, str]] = {
    "kpi.step": ("step", "步"),
    "kpi.not_started": ("not started", "尚未开始"),
    "kpi.measured_ms": ("{ms} ms measured", "实测 {ms} ms"),
    "kpi.running": ("running", "运行"),
    "kpi.requests_detail": ("{waiting} waiting · {over} over", "{waiting} 等待 · {over} 结束"),
    "kpi.tokens": ("tokens", "令牌"),
    "kpi.blocks": ("blocks", "块"),
    "kpi.sequences": ("sequences", "序列"),
    "kpi.of": ("of {limit}", "共 {limit}"),
    "kpi.binds": ("binds", "此限制生效"),
    "kpi.pool": ("owned after", "步后占用"),
    "kpi.pool_detail": ("{cached} cached · {empty} empty", "{cached} 缓存 · {empty} 空"),
    "kpi.pool_alt": (
        "{owned} owned + {cached} free with cached content + {empty} free and empty = {total} usable blocks",
        "{owned} 占用 + {cached} 空闲但有缓存 + {empty} 空闲且为空 = {total} 个可用块",
    ),
    "kpi.tokens_alt": (
        "Token budget: {used} of {limit} scheduled in this step",
        "令牌预算：本步调度 {used}，共 {limit}",
    ),
    "kpi.blocks_alt": (
        "Block budget: {used} of {limit} blocks owned while the step ran",
        "块预算：运行本步时占用 {used}，共 {limit} 个块",
    ),
    "kpi.sequences_alt": ("Sequence limit: {used} of {limit} running", "序列上限：{used} 个运行，共 {limit}"),
}

LAWS: dict[str, tuple[str, str]] = {
    "law.title": ("Laws, checked after every step", "每步之后检查的定律"),
    "law.all_hold": ("{n} laws hold", "{n} 条定律成立"),
    "law.some_unchecked": ("{n} laws hold, {m} not checked", "{n} 条成立，{m} 条未检查"),
    "law.broken": ("law {n} broken by {by}", "定律 {n} 被违反：{by}"),
    "law.none": ("laws: nothing run yet", "定律：尚未运行"),
    "law.state.holds": ("holds", "成立"),
    "law.state.broken": ("broken", "被违反"),
    "law.state.unchecked": ("not checked in this step", "本步未检查"),
    "law.by.block": ("block {id}", "块 {id}"),
    "law.by.request": ("request {id}", "请求 {id}"),
    "law.by.blocks": ("{id} blocks", "{id} 个块"),
    "law.by.tokens": ("{id} tokens", "{id} 个令牌"),
    "law.by.sequences": ("{id} sequences", "{id} 个序列"),
    "law.1": (
        "Conservation: blocks in use + free queue = pool; every block is in exactly one of the two.",
        "守恒：使用中的块 + 空闲队列 = 块池；每个块恰好属于其一。",
    ),
    "law.2": (
        "A block's ref count is the number of block tables that list it.",
        "块的引用计数等于列出它的块表数量。",
    ),
    "law.3": (
        "Ref count 0 means in the free queue, once; the null block is never free.",
        "引用计数为 0 当且仅当在空闲队列中出现一次；空块永不空闲。",
    ),
    "law.4": (
        "Scheduled tokens ≤ token budget; new blocks ≤ free blocks; running ≤ sequence limit.",
        "调度的令牌 ≤ 令牌预算；新块 ≤ 空闲块；运行数 ≤ 序列上限。",
    ),
    "law.5": (
        "Written positions ≤ allocated positions; nothing is read beyond a request's length.",
        "写入位置 ≤ 已分配位置；不读取超出请求长度的内容。",
    ),
    "law.6": (
        "A shared or published block is written only by the step that fills it.",
        "共享或已发布的块只由填满它的那一步写入。",
    ),
    "law.7": (
        "Every cached block's chain of parents is as it was hashed.",
        "每个缓存块的父链与其哈希时一致。",
    ),
    "law.8": (
        "Radix tree: child locks ≤ parent locks; evictable + protected = total.",
        "基数树：子锁 ≤ 父锁；可淘汰 + 受保护 = 总数。",
    ),
    "law.9": (
        "A request never ends with blocks; when all are over, every block is free.",
        "请求结束时不再持有块；全部结束时所有块空闲。",
    ),
    "law.10": (
        "Paged attention returned what dense attention returns, within tolerance.",
        "分页注意力与稠密注意力的结果在容差内一致。",
    ),
}

PANELS: dict[str, tuple[str, str]] = {
    "panel.tables": ("Block tables", "块表"),
    "panel.tables_sub": ("logical position → physical block", "逻辑位置 → 物理块"),
    "panel.requests": ("Requests", "请求"),
    "panel.pool": ("Physical blocks", "物理块"),
    "panel.pool_sub": ("{size} slots each", "每块 {size} 个槽位"),
    "panel.schedule": ("Schedule", "调度"),
    "panel.schedule_sub": ("tokens per step above, against the budget", "上方为每步令牌数与预算"),
    "panel.queue": ("Free queue", "空闲队列"),
    "panel.queue_sub": (
        "{owned} owned + {cached} cached + {empty} empty = {total}",
        "占用 {owned} + 缓存 {cached} + 空 {empty} = {total}",
    ),
    "panel.chains": ("Hash chains", "哈希链"),
    "panel.chains_sub": ("each block's hash chains from the block before", "每个块的哈希由前一块链接而来"),
    "panel.tree": ("Radix tree", "基数树"),
    "panel.tree_sub": ("edges are text, numbers are locks", "边为文本，数字为锁"),
    "panel.heap": ("Eviction heap", "淘汰堆"),
    "panel.latency": ("Latency", "延迟"),
    "panel.latency_sub": ("ms from arrival, {clock}", "自到达起的毫秒数，{clock}"),
    "panel.batch": ("Batch", "批次"),
    "panel.batch_sub": ("positions read and computed → slots written", "读取与计算的位置 → 写入的槽位"),
    "panel.why": ("What just happened, and why", "刚才发生了什么，为什么"),
    "panel.kernel": ("Kernel output", "内核输出"),
    "panel.kernel_sub": (
        "attention of {id} by head and block · layer {layer}/{layers}",
        "{id} 各头各块的注意力 · 第 {layer}/{layers} 层",
    ),
    "panel.source": ("in vLLM: {name}", "对应 vLLM：{name}"),
    "legend.owned": ("owned", "占用"),
    "legend.shared": ("shared ×n", "共享 ×n"),
    "legend.cached": ("free, cached", "空闲有缓存"),
    "legend.empty": ("free, empty", "空闲为空"),
    "legend.stranded": ("out of reach", "无法到达"),
    "legend.context": ("read", "读取"),
    "legend.first_token": ("to the first token", "到首令牌"),
    "legend.gap": ("gap between tokens", "令牌间隔"),
    "legend.largest_gap": ("largest gap", "最大间隔"),
    "legend.locked": ("locked", "加锁"),
    "legend.locked_twice": ("locked ×n", "多次加锁"),
    "legend.unlocked": ("unlocked", "未加锁"),
    "legend.matched": ("matched", "匹配"),
    "legend.cut": ("edge cut", "切边"),
    "legend.new": ("new", "新分配"),
    "legend.hit": ("hit", "命中"),
    "legend.copied": ("copied", "复制"),
    "legend.evicted": ("evicted", "淘汰"),
    "legend.freed": ("freed", "释放"),
    "legend.prefill": ("prefill", "预填充"),
    "legend.recompute": ("recompute", "重算"),
    "legend.decode": ("decode", "解码"),
    "legend.preempted": ("preempted", "被抢占"),
    "legend.waiting": ("waiting", "等待"),
    "kernel.none": ("No kernel ran in this step.", "本步没有内核运行。"),
    "kernel.no_model": ("Scripted run: no model, so no kernel output.", "脚本化运行：没有模型，因此无内核输出。"),
    "kernel.not_in_batch": ("{id} was not in this step's batch.", "{id} 不在本步的批次中。"),
    "kernel.next": ("next token", "下一个令牌"),
    "kernel.diff": (
        "max |paged − dense| {diff} {sign} {tolerance} measured",
        "max |分页 − 稠密| {diff} {sign} {tolerance} 实测",
    ),
    "kernel.no_diff": ("paged − dense not checked in this step", "本步未检查分页 − 稠密"),
    "kernel.impl": ("{name} · {heads} query / {kv} KV heads", "{name} · {heads} 查询头 / {kv} KV 头"),
    "kernel.no_text": ("nothing generated yet", "尚未生成"),
}

TABLE: dict[str, tuple[str, str]] = {
    "column.id": ("request", "请求"),
    "column.prompt": ("prompt", "提示"),
    "column.computed": ("computed / known", "已算 / 已知"),
    "column.output": ("output / max", "输出 / 上限"),
    "column.cached": ("cache hit", "缓存命中"),
    "column.blocks": ("blocks", "块"),
    "column.preemptions": ("preempted", "被抢占"),
    "status.waiting": ("waiting", "等待"),
    "status.running": ("running", "运行"),
    "status.preempted": ("preempted", "被抢占"),
    "status.finished": ("finished", "已完成"),
    "status.aborted": ("aborted", "已中止"),
    "work.prefill": ("prefill", "预填充"),
    "work.recompute": ("recompute", "重算"),
    "work.decode": ("decode", "解码"),
    "work.preempted": ("preempted", "被抢占"),
    "work.waiting": ("waiting", "等待"),
    "finish.length": ("length reached", "达到长度"),
    "finish.stop": ("stop token", "停止令牌"),
    "table.scheduled.one": ("{n} token in this step ({work})", "本步 {n} 个令牌（{work}）"),
    "table.scheduled.many": ("{n} tokens in this step ({work})", "本步 {n} 个令牌（{work}）"),
    "table.more": ("+{n} more requests", "另有 {n} 个请求"),
    "table.empty": ("No request has arrived yet.", "尚无请求到达。"),
}

FIGURES: dict[str, tuple[str, str]] = {
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
    "figure.tree_empty": ("the tree is empty: nothing has been stored yet", "树为空：尚未存入任何内容"),
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
        "asked {asked} tokens, freed {evicted}: {popped} out, {pushed} parents in, {comparisons} comparisons "
        "(v + e·log(v + e) = {bound})",
        "要求 {asked} 个令牌，释放 {evicted} 个：取出 {popped}，父节点加入 {pushed}，比较 {comparisons} 次"
        "（v + e·log(v + e) = {bound}）",
    ),
    "alt.tree": (
        "Radix tree: {nodes} nodes, {locked} locked; {evictable} tokens evictable, {protected} protected.",
        "基数树：{nodes} 个节点，其中 {locked} 个加锁；可淘汰 {evictable} 个令牌，受保护 {protected} 个。",
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

WHY: dict[str, tuple[str, str]] = {
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
        "{id} computed what the tree has already: its table names the tree's pages now, and {pages} are free.",
        "{id} 算出的内容树中已有：它的块表改指树的页，{pages} 随后空闲。",
    ),
    "why.row_released": (
        "{id} lets go ({cause}); pages that stay in the tree: {stored}, freed: {freed}.",
        "{id} 放手（{cause}）：{stored} 页留在树中，{freed} 页空闲。",
    ),
    "why.idle": ("Nothing to schedule in this step.", "本步没有可调度的内容。"),
    "why.more.one": ("{n} more change.", "另有 {n} 处变化。"),
    "why.more.many": ("{n} more changes.", "另有 {n} 处变化。"),
}

MESSAGES: dict[str, tuple[str, str]] = {
    **CONTROLS,
    **KPIS,
    **LAWS,
    **PANELS,
    **TABLE,
    **FIGURES,
    **WHY,
}
