"""Words of the prefix page, its tables and its diagrams."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "page.prefix": ("Prefix", "前缀"),
    "prefix.mode": ("What to look at", "查看内容"),
    "prefix.mode_side": ("Hash | radix", "哈希 | 基数树"),
    "prefix.mode_tree": ("A tree by hand", "手动操作树"),
    "prefix.hash_size": ("Hash: block size", "哈希：块大小"),
    "prefix.radix_size": ("Tree drawn: page size", "所画的树：页大小"),
    "prefix.no_scenario": (
        "{name} cannot be run over both caches: there is no such recording, or it forks. Here is {shown} instead.",
        "{name} 无法在两种缓存上运行：没有这样的录制，或者它会分叉。改为显示 {shown}。",
    ),
    "prefix.no_request": (
        "This scenario has no request called {name}; the page follows the step instead.",
        "此场景没有名为 {name} 的请求；页面改为跟随当前步。",
    ),
    "prefix.hash": ("Hashed blocks of {size}", "哈希块，每块 {size}"),
    "prefix.radix": ("Radix tree, page {size}", "基数树，页大小 {size}"),
    "prefix.hash_short": ("hash {size}", "哈希 {size}"),
    "prefix.radix_short": ("radix {size}", "基数树 {size}"),
    "prefix.pool": (
        "{owned} owned + {cached} cached + {empty} empty",
        "占用 {owned} + 缓存 {cached} + 空 {empty}",
    ),
    "prefix.nothing": ("Nothing is found, stored or evicted in this step.", "本步没有命中、存入或淘汰。"),
    "prefix.request": ("Request", "请求"),
    "prefix.follows": (
        "Request {id}: the last admitted so far. Pick one to stay with it.",
        "请求 {id}：到目前为止最后接纳的。点选一个可固定。",
    ),
    "prefix.pinned": ("Request {id}. Pick it again to follow the step.", "请求 {id}。再点一次则跟随当前步。"),
    "prefix.ruler_note": (
        "What each cache made of this prompt when it was admitted; notches are block or page edges.",
        "接纳时每种缓存对此提示的结果；刻痕为块或页的边界。",
    ),
    "prefix.counted": (
        "Tokens, and blocks × size; all counted in the runs. Usable is the hit; evicted: to make room for it.",
        "令牌数，以及 块 × 大小；均由运行计数。可复用即命中；淘汰：为它腾出空间。",
    ),
    "prefix.sums": ("All requests together", "所有请求合计"),
    "prefix.all_requests": ("Every request", "每个请求"),
    "prefix.cache": ("cache", "缓存"),
    "prefix.matched": ("matched", "匹配"),
    "prefix.usable": ("usable", "可复用"),
    "prefix.computed": ("computed", "计算"),
    "prefix.recomputed": ("recomputed", "重算"),
    "prefix.held": ("blocks held", "持有的块"),
    "prefix.evicted": ("evicted", "淘汰"),
    "ruler.usable": ("usable {n}", "可复用 {n}"),
    "ruler.lost": ("part page {n}", "不足一页 {n}"),
    "ruler.computed": ("not matched {n}", "未匹配 {n}"),
    "ruler.legend_usable": ("usable", "可复用"),
    "ruler.legend_lost": ("matched in a part page: computed again", "已匹配但不足一页：重新计算"),
    "ruler.legend_computed": ("not matched: computed", "未匹配：计算"),
    "ruler.legend_last": ("last token: always computed", "最后一个令牌：总要计算"),
    "hover.ruler": (
        "<b>{name}</b>: matched {matched} of {prompt} tokens<br>usable in whole pages of {size}: {usable}<br>"
        "computed: {computed}",
        "<b>{name}</b>：{prompt} 个令牌中匹配 {matched} 个<br>按每页 {size} 个可复用：{usable}<br>计算：{computed}",
    ),
    "alt.ruler": (
        "{name}: of {prompt} tokens {matched} matched, {usable} usable, {computed} computed.",
        "{name}：{prompt} 个令牌中匹配 {matched}，可复用 {usable}，计算 {computed}。",
    ),
    # the tree by hand
    "prefix.example": ("Worked example", "示例"),
    "prefix.example_fork_page1": ("A fork at page 1", "页大小 1 的分叉"),
    "prefix.example_fork_page4": ("A fork at page 4: whole pages only", "页大小 4 的分叉：只有整页"),
    "prefix.example_page4_lock": ("Page 4: a cut edge keeps its lock", "页大小 4：切开的边保留锁"),
    "prefix.example_inherited_lock": ("Two locks on a cut edge", "切开的边上的两把锁"),
    "prefix.example_locked_ancestor": ("Evict below a locked ancestor", "在被锁的祖先之下淘汰"),
    "prefix.example_in_use": ("What is in use stays", "正在使用的留下"),
    "prefix.example_own": ("Your own", "自己编写"),
    "prefix.no_example": (
        "There is no example called {name}; here is the first one.",
        "没有名为 {name} 的示例；改为显示第一个。",
    ),
    "prefix.tree_size": ("Page size", "页大小"),
    "prefix.tree_pool": ("Pool (tokens)", "池（令牌）"),
    "prefix.tree_policy": ("Evict first", "淘汰策略"),
    "prefix.operation": ("Operation", "操作"),
    "prefix.argument": ("Text or number", "文本或数字"),
    "prefix.do": ("Do it", "执行"),
    "prefix.operations": ("Operations, one a line", "操作，每行一个"),
    "prefix.operations_note": (
        "match, insert, lock or unlock TEXT (a character is a token); evict N tokens. Ctrl+Enter plays what you typed.",
        "match、insert、lock 或 unlock 文本（一个字符是一个令牌）；evict N 个令牌。按 Ctrl+Enter 运行。",
    ),
    "prefix.unchanged": ("The tree stays as it was.", "树保持不变。"),
    "prefix.before": ("Before the first operation", "第一个操作之前"),
    "prefix.sizes": (
        "Tokens: {evictable} evictable + {protected} protected + {free} free = {total}. Nodes in the order in which "
        "they would leave: {order}.",
        "令牌：可淘汰 {evictable} + 受保护 {protected} + 空闲 {free} = {total}。节点离开的顺序：{order}。",
    ),
    "prefix.nobody": ("none", "无"),
    "prefix.array": ("The heap's array", "堆的数组"),
    "prefix.array_sub": ("node (key); framed: the next to go", "节点（键）；带框：下一个离开"),
    "prefix.did_match": (
        "Matched: {matched}. Usable in whole pages: {usable}, up to node {node}.",
        "匹配 {matched} 个。按整页可复用 {usable} 个，止于节点 {node}。",
    ),
    "prefix.did_match_nothing": (
        "Matched: {matched}. No whole page among them: nothing can be used.",
        "匹配 {matched} 个，不满一页：无可复用。",
    ),
    "prefix.did_split": (
        "The edge of node {lower} is cut: new node {upper} takes its beginning (tokens: {tokens}) and inherits its "
        "locks ({locks}).",
        "节点 {lower} 的边被切开：新节点 {upper} 取走开头（令牌：{tokens}）并继承它的锁（{locks}）。",
    ),
    "prefix.did_insert": (
        "What was not there becomes leaf {node} (tokens: {tokens}).",
        "原先没有的部分成为叶子 {node}（令牌：{tokens}）。",
    ),
    "prefix.did_find": (
        "What was there already stays (tokens: {tokens}); the second copy is freed.",
        "树中已有的部分保留（令牌：{tokens}）；第二份被释放。",
    ),
    "prefix.did_lock": (
        "One lock more on each node up to the root: {path}. Tokens that become protected: {tokens}.",
        "直到根的每个节点各加一把锁：{path}。变为受保护的令牌：{tokens}。",
    ),
    "prefix.did_unlock": (
        "One lock less on each node up to the root: {path}. Tokens that can be evicted again: {tokens}.",
        "直到根的每个节点各减一把锁：{path}。可再次淘汰的令牌：{tokens}。",
    ),
    "prefix.did_evict": ("Leaf {node} leaves whole (tokens: {tokens}).", "叶子 {node} 整个离开（令牌：{tokens}）。"),
    "prefix.did_run_out": (
        "Asked for: {asked}, freed: {evicted}; the rest is locked or not there.",
        "要求 {asked} 个，释放 {evicted} 个；其余已加锁或不存在。",
    ),
    "prefix.did_nothing": ("Nothing changes: the text does not fill a page.", "没有变化：文本不足一页。"),
    "figure.no_eviction": ("no eviction in this operation", "此操作没有淘汰"),
    "figure.heap_none_left": ("empty: no leaf is left", "空：没有剩下的叶子"),
    "figure.more_stages": ("+{n} more stages", "另有 {n} 个阶段"),
    "stage.built": ("built", "建堆"),
    "stage.out": ("node {node} out", "取出节点 {node}"),
    "stage.joined": ("parent {node} in", "父节点 {node} 加入"),
}
