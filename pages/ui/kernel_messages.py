"""Words of the kernel page and its figures."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "page.kernel": ("Kernel", "内核"),
    "kernel.mine": ("Your run on the step page", "单步页上您的运行"),
    "kernel.step": ("Step", "步"),
    "kernel.request": ("Request", "请求"),
    "kernel.layer": ("Layer", "层"),
    "kernel.program": ("Program", "程序"),
    "kernel.program_name": (
        "tile {tile} · KV head {head} · tokens {first}–{last}",
        "片 {tile} · KV 头 {head} · 令牌 {first}–{last}",
    ),
    "kernel.program_split": (
        "tile {tile} · KV head {head} · split {split} · tokens {first}–{last}",
        "片 {tile} · KV 头 {head} · 分段 {split} · 令牌 {first}–{last}",
    ),
    "kernel.running": ("Running the engine up to this step …", "正在运行引擎到这一步……"),
    "kernel.over": ("The run is over: its last step is {step}.", "运行已结束：最后一步是第 {step} 步。"),
    "kernel.bad_link": (
        "The link's {name} is {value}, which is not there; the page shows {shown}.",
        "链接中的 {name} 为 {value}，并不存在；页面改用 {shown}。",
    ),
    "kernel.no_step": (
        "This run has no step yet; choose a scenario with requests.",
        "此运行还没有步；请选择有请求的场景。",
    ),
    "kernel.headline.one": (
        "Step {step}, {what} of {id}: its query token at position {last} reads {context} positions in {blocks} blocks "
        "of {size}. Layer {layer} of 0–{layers}, computed by: {by}.",
        "第 {step} 步，{id} 的{what}：位置 {last} 的查询令牌读取 {context} 个位置，"
        "共 {blocks} 个大小为 {size} 的块。第 {layer} 层（0–{layers}），由 {by} 计算。",
    ),
    "kernel.headline.many": (
        "Step {step}, {what} of {id}: {n} query tokens at positions {first}–{last} read {context} positions in "
        "{blocks} blocks of {size}. Layer {layer} of 0–{layers}, computed by: {by}.",
        "第 {step} 步，{id} 的{what}：位置 {first}–{last} 的 {n} 个查询令牌读取 {context} 个位置，"
        "共 {blocks} 个大小为 {size} 的块。第 {layer} 层（0–{layers}），由 {by} 计算。",
    ),
    "kernel.prefill": ("prefill", "预填充"),
    "kernel.decode": ("decode", "解码"),
    "kernel.verify": ("verification", "验证"),
    "kernel.grid": ("Program grid", "程序网格"),
    "kernel.grid_sub": (
        "{tiles} query tiles × {heads} KV heads × {splits} splits",
        "{tiles} 个查询片 × {heads} 个 KV 头 × {splits} 个分段",
    ),
    "kernel.grid_note": (
        "Across: query tiles of the whole batch; down: KV heads. Dark: the chosen request's programs, framed: the "
        "one beside. A program serves {group} query heads that share a KV head. –: no work left, it returns at once.",
        "横向：整个批次的查询片；纵向：KV 头。深色：所选请求的程序，带框：正在查看的程序。"
        "一个程序服务共用一个 KV 头的 {group} 个查询头。–：没有剩余工作，立即返回。",
    ),
    "kernel.walk": ("Walk along the block table", "沿块表行走"),
    "kernel.walk_sub": (
        "query token {token}, KV head {head}; computed by the torch twin",
        "查询令牌 {token}，KV 头 {head}；由 torch 对照实现计算",
    ),
    "kernel.walk_at": ("block {at} of {of}", "第 {at} 块，共 {of} 块"),
    "kernel.walk_note": (
        "m: largest score so far; l: sum of exp(score − m), scaled by exp(m_old − m_new) when m grows. The output so "
        "far is Σ exp(score − m)·v ⁄ l; blue above zero, orange below.",
        "m：目前最大的分数；l：exp(分数 − m) 之和，m 增大时乘以 exp(m_旧 − m_新)。"
        "目前的输出为 Σ exp(分数 − m)·v ⁄ l；蓝色大于零，橙色小于零。",
    ),
    "kernel.no_visit": (
        "This program reads no block: its mask hides everything.",
        "此程序不读任何块：掩码遮住了全部位置。",
    ),
    "kernel.tab_address": ("Address", "地址"),
    "kernel.tab_mask": ("Mask", "掩码"),
    "kernel.tab_traffic": ("Bytes and roofline", "字节与屋顶线"),
    "kernel.tab_dense": ("Paged − dense", "分页 − 稠密"),
    "kernel.tab_wrong": ("What if the table were wrong?", "如果块表错了？"),
    "kernel.tab_lens": ("The real kernel", "真正的内核"),
    "kernel.lens_what": (
        "What is above comes from the torch twin. This runs the same launch (at most the newest {tokens} query "
        "tokens) through the Triton kernel that a GPU gets, in Triton's interpreter, and watches every load and store.",
        "以上内容来自 torch 对照实现。这里在 Triton 解释器中用 GPU 所用的同一个 Triton 内核"
        "重新运行该次启动（最多最新的 {tokens} 个查询令牌），并监视每次读写。",
    ),
    "kernel.lens_run": ("Run through the Triton kernel", "用 Triton 内核运行"),
    "kernel.lens_running": ("Interpreting (the first time Triton is loaded) …", "正在解释执行（首次会加载 Triton）……"),
    "kernel.lens_failed": ("The kernel could not be interpreted: {reason}.", "无法解释执行内核：{reason}。"),
    "kernel.lens_result": (
        "{mark} Query tokens run: {tokens}, in **{ms} ms**, measured (interpreted by Triton {version}; it says "
        "nothing of a GPU). max |Δ| against the twin **{twin}**, against dense **{dense}** (tolerance {tolerance}).",
        "{mark} {tokens} 个查询令牌，实测 **{ms} 毫秒**（由 Triton {version} 解释执行，与 GPU 速度无关）。"
        "与对照实现的最大 |Δ| **{twin}**，与稠密结果 **{dense}**（容差 {tolerance}）。",
    ),
    "kernel.lens_same": (
        "✓ Its own record and the watched loads are the twin's walk: {visits} visits, the same blocks in the same "
        "order; m and l differ by at most {state}.",
        "✓ 内核自己的记录与监视到的读取都与对照实现一致：{visits} 次访问，块与顺序相同；m 与 l 最多相差 {state}。",
    ),
    "kernel.lens_other": (
        "✗ It did not walk as the twin did ({visits} visits); m and l differ by up to {state}.",
        "✗ 它的行走与对照实现（{visits} 次访问）不同；m 与 l 最多相差 {state}。",
    ),
    "kernel.lens_clean": ("✓ No access outside this request's blocks.", "✓ 没有越出此请求块的访问。"),
    "kernel.lens_violations": ("✗ {n} accesses that must not be.", "✗ 有 {n} 次不应发生的访问。"),
    "kernel.lens_table": (
        "All {n} loads and stores, program by program. Lanes: elements not masked off.",
        "全部 {n} 次读写，按程序排列。通道：未被屏蔽的元素数。",
    ),
    "kernel.column_program": ("program", "程序"),
    "kernel.column_order": ("order", "次序"),
    "kernel.column_what": ("what", "操作"),
    "kernel.column_tensor": ("tensor", "张量"),
    "kernel.column_lanes": ("lanes", "通道"),
    "kernel.column_blocks": ("blocks", "块"),
    "kernel.load": ("load", "读"),
    "kernel.store": ("store", "写"),
    "kernel.sanitizer_run": ("Watch the real kernel do it", "监视真正的内核这样做"),
    "kernel.sanitizer_clean": (
        "✓ The watched kernel made no access outside this request's rights.",
        "✓ 被监视的内核没有任何越权访问。",
    ),
    "kernel.sanitizer_found": (
        "✗ The watched kernel made {n} accesses it must not make:",
        "✗ 被监视的内核有 {n} 次越权访问：",
    ),
    "kernel.violation": (
        "program {tile}.{head}.{split} reads {tensor} of #{block} from slot {slot} on ({lanes} lanes): {why}",
        "程序 {tile}.{head}.{split} 从槽位 {slot} 起读取 #{block} 的 {tensor}（{lanes} 个通道）：{why}",
    ),
    "kernel.violation_nowhere": (
        "program {tile}.{head}.{split}, {tensor} ({lanes} lanes): {why}",
        "程序 {tile}.{head}.{split}，{tensor}（{lanes} 个通道）：{why}",
    ),
    "kernel.why_access_free": ("a free block", "空闲块"),
    "kernel.why_access_foreign": ("another request's block", "其他请求的块"),
    "kernel.why_access_order": ("its own block, but not the one for these positions", "自己的块，但不是这些位置的块"),
    "kernel.why_access_beyond": ("a slot beyond its length, which nobody wrote", "超出长度、没人写过的槽位"),
    "kernel.why_access_head": ("another KV head's numbers", "另一个 KV 头的数据"),
    "kernel.why_access_input": ("a store to a tensor that is read only", "写入了只读张量"),
    "kernel.why_access_outside": ("an address outside every tensor", "不在任何张量内的地址"),
    "kernel.tab_listing": ("Compiled", "编译结果"),
    "kernel.listing_kernel": ("Kernel", "内核"),
    "kernel.listing_stage": ("Stage", "阶段"),
    "kernel.listing_compile": ("Compile", "编译"),
    "kernel.listing_what": (
        "Compiles the kernel's Triton source for a GPU that need not be here, and shows it stage by stage beside the "
        "source; choose a source line to see what became of it.",
        "为 GPU（无需在本机）编译内核的 Triton 源码，并在源码旁逐阶段显示；选择一行源码即可看到它变成了什么。",
    ),
    "kernel.listing_running": ("Compiling …", "正在编译……"),
    "kernel.listing_failed": ("The kernel could not be compiled: {reason}.", "无法编译内核：{reason}。"),
    "kernel.listing_facts": (
        "sm_{sm}: **{registers}** registers a thread, **{spilled}** bytes spilled, **{shared}** bytes shared memory a "
        "program, PTX {ptx} bytes, {mma} tensor-core instructions. Read from the compiler's output.",
        "sm_{sm}：每线程 **{registers}** 个寄存器，溢出 **{spilled}** 字节，每程序共享内存 **{shared}** 字节，"
        "PTX {ptx} 字节，{mma} 条张量核心指令。取自编译器输出。",
    ),
    "kernel.listing_no_stage": (
        "No {stage} here: it needs the disassembler that comes with Triton.",
        "此处没有 {stage}：需要 Triton 附带的反汇编器。",
    ),
    "kernel.listing_source": ("Triton source, {file}", "Triton 源码，{file}"),
    "kernel.listing_became": (
        "Source line {line} became {n} lines of {stage}. Arrow keys move in the source; a click works in both panes.",
        "源码第 {line} 行变成 {n} 行 {stage}。方向键在源码中移动；两个窗格都可点击。",
    ),
    "kernel.position": ("Position", "位置"),
    "kernel.address_walk": (
        "Position **{p}** of {id}: logical block ⌊{p} ⁄ {size}⌋ = **{logical}** → block table → physical block "
        "**#{block}**, slot {p} mod {size} = **{slot}**.",
        "{id} 的位置 **{p}**：逻辑块 ⌊{p} ⁄ {size}⌋ = **{logical}** → 块表 → 物理块 **#{block}**，"
        "槽位 {p} mod {size} = **{slot}**。",
    ),
    "kernel.address_names": (
        "offset = layer × stride + block × stride + slot × stride + KV head × stride + d   (K and V alike)",
        "偏移 = 层 × 步长 + 块 × 步长 + 槽位 × 步长 + KV 头 × 步长 + d   （K 与 V 相同）",
    ),
    "kernel.address_note": (
        "Strides of this pool: K and V each lie as {order}, {blocks} blocks. The kernel computes offsets in 64 bits: "
        "block × stride passes 2³¹ in a pool of ordinary size.",
        "此池的步长：K 与 V 各按 {order} 排列，共 {blocks} 块。"
        "内核用 64 位计算偏移：普通大小的池中 块 × 步长 就会超过 2³¹。",
    ),
    "kernel.axis_l": ("layer", "层"),
    "kernel.axis_b": ("block", "块"),
    "kernel.axis_s": ("slot", "槽位"),
    "kernel.axis_h": ("KV head", "KV 头"),
    "kernel.mask_kind": ("Mask", "掩码"),
    "kernel.mask_causal": ("causal (what ran)", "因果（实际运行的）"),
    "kernel.mask_window": ("sliding window", "滑动窗口"),
    "kernel.mask_prefix": ("bidirectional prefix", "双向前缀"),
    "kernel.mask_tree": ("tree of drafted tokens", "草稿令牌树"),
    "kernel.mask_size": ("Window or prefix (positions)", "窗口或前缀（位置数）"),
    "kernel.mask_note": (
        "Lines: query tokens; columns: positions; right of the dotted line lie this step's tokens. {seen} of {total} "
        "pairs are visible; the programs read {kv} of KV ({own} as it ran). Counted.",
        "行：查询令牌；列：位置；虚线右侧是这一步的令牌。{total} 对中有 {seen} 对可见；"
        "程序读取 {kv} 的 KV（实际运行时为 {own}）。为计数结果。",
    ),
    "kernel.gpu": ("GPU of the roofline", "屋顶线所用 GPU"),
    "kernel.traffic": (
        "KV read by the programs: **{kv}**; compulsory minimum **{least}** (× {again}: each tile of queries reads the "
        "context for itself). Queries, output and table: {other}. **{flops}** FLOPs, {intensity} per byte. Counted.",
        "程序读取的 KV：**{kv}**；必需的最小值 **{least}**（× {again}：每个查询片各自读取上下文）。"
        "查询、输出与块表：{other}。**{flops}** 次浮点运算，每字节 {intensity} 次。为计数结果。",
    ),
    "kernel.modelled": (
        "Modelled on {gpu} (published bandwidth and bf16 peak): at least {us} µs, {bound}.",
        "按 {gpu} 建模（公布的带宽与 bf16 峰值）：至少 {us} 微秒，{bound}。",
    ),
    "kernel.bound_memory": ("bound by memory", "受内存带宽限制"),
    "kernel.bound_compute": ("bound by arithmetic", "受算力限制"),
    "kernel.measured": (
        "Measured on this machine ({by}): {ms} ms, median of {runs}.",
        "在本机实测（{by}）：{ms} 毫秒，{runs} 次的中位数。",
    ),
    "kernel.equal": (
        "✓ Paged equals dense: max |Δ| = **{largest}** (tolerance {tolerance}).",
        "✓ 分页与稠密一致：最大 |Δ| = **{largest}**（容差 {tolerance}）。",
    ),
    "kernel.unequal": (
        "✗ Paged differs from dense: max |Δ| = **{largest}** (tolerance {tolerance}).",
        "✗ 分页与稠密不一致：最大 |Δ| = **{largest}**（容差 {tolerance}）。",
    ),
    "kernel.where": (
        "It is at query token {token}, head {head}, d = {dim}: paged {paged}, dense {dense}.",
        "出现在查询令牌 {token}、头 {head}、d = {dim}：分页 {paged}，稠密 {dense}。",
    ),
    "kernel.dense_note": (
        "Dense: K and V of the same tokens, computed in one forward pass of this request alone and never paged; "
        "textbook attention over them. The rest is rounding: batches of other shapes are summed in another order.",
        "稠密：同样的令牌，由只含该请求的一次前向计算得到 K 与 V，从不分页；再做教科书式的注意力。"
        "剩余差异是舍入：形状不同的批次求和顺序不同。",
    ),
    "kernel.delta": ("max |Δ|", "最大 |Δ|"),
    "kernel.tab_dtype": ("KV dtype", "KV 数据类型"),
    "kernel.dtype": ("Keep K and V in", "K 与 V 保存为"),
    "kernel.as_run": ("as it ran ({dtype})", "实际运行的类型（{dtype}）"),
    "kernel.dtype_running": (
        "One forward pass of this request, every layer in every dtype …",
        "对该请求做一次前向，逐层计算每种类型……",
    ),
    "kernel.dtype_error": (
        "**{dtype}**, layer {layer}: |Δ| ⁄ |exact| = **{share}**, max |Δ| = {largest} (head {head}). Worst layer: "
        "{worst} with {most}. **{bytes}** bytes a token over all layers in place of {exact} (× {times}). Measured.",
        "**{dtype}**，第 {layer} 层：|Δ| ⁄ |精确值| = **{share}**，最大 |Δ| = {largest}（头 {head}）。"
        "误差最大的层：{worst}，{most}。每个令牌所有层共 **{bytes}** 字节，原为 {exact}（× {times}）。为实测结果。",
    ),
    "kernel.dtype_note": (
        "Each layer's own error with the queries of this launch: K and V written in the format, read back and attended "
        "by the same kernel. It does not add up over layers as in a whole run; for that set kv_dtype on the step page.",
        "用本次启动的查询得到每层自身的误差：K 与 V 以该类型写入、读回，并由同一内核计算注意力。"
        "它不像整次运行那样逐层累积；要看累积效果，请在单步页设置 kv_dtype。",
    ),
    "hover.layer_error": ("layer %{x}, %{text}: %{y:.2%}", "第 %{x} 层，%{text}：%{y:.2%}"),
    "alt.dtype": (
        "Relative error of attention by layer and KV dtype; {dtype} at layer {layer}: {share}.",
        "各层各 KV 数据类型的注意力相对误差；{dtype} 在第 {layer} 层：{share}。",
    ),
    "kernel.fault": ("Spoil", "破坏"),
    "kernel.fault_swapped": ("two full blocks' entries change places", "两个满块的表项互换"),
    "kernel.fault_swapped_tail": ("the first and the part-filled entry change places", "第一个与未满块的表项互换"),
    "kernel.fault_foreign": ("an entry names another block", "表项指向别的块"),
    "kernel.fault_past_end": ("read one slot past the end", "多读一个槽位"),
    "kernel.fault_poisoned_tail": ("NaN behind the end", "末尾之后填 NaN"),
    "kernel.fault_poisoned_slot": ("NaN in a slot that is read", "读取的槽位填 NaN"),
    "kernel.did_swapped": (
        "Logical blocks {one} and {other} of the table change places: #{first} ⇄ #{second}.",
        "块表中逻辑块 {one} 与 {other} 互换：#{first} ⇄ #{second}。",
    ),
    "kernel.did_swapped_tail": (
        "Logical blocks {one} and {other} change places: #{first} ⇄ #{second}; the slots nobody wrote hold NaN.",
        "逻辑块 {one} 与 {other} 互换：#{first} ⇄ #{second}；没人写过的槽位填 NaN。",
    ),
    "kernel.did_foreign": (
        "Logical block {entry} is looked for in #{block} ({whose}) in place of #{own}.",
        "逻辑块 {entry} 改为在 #{block}（{whose}）中查找，而不是 #{own}。",
    ),
    "kernel.whose_other": ("another request's", "其他请求的"),
    "kernel.whose_free": ("not this request's", "不属于此请求"),
    "kernel.did_past_end": (
        "The length says {length} + 1: slot {slot} of #{block} is read, which nobody wrote; here it holds NaN.",
        "长度变为 {length} + 1：读取 #{block} 的槽位 {slot}，没有人写过它；这里填入 NaN。",
    ),
    "kernel.did_poisoned_tail": (
        "The {slots} unwritten slots of #{block} hold NaN.",
        "#{block} 中 {slots} 个未写入的槽位填入 NaN。",
    ),
    "kernel.did_poisoned_slot": ("Slot {slot} of #{block} holds NaN.", "#{block} 的槽位 {slot} 填入 NaN。"),
    "kernel.came_nan": (
        "**✗ The output is NaN**, first at query token {token}, head {head}.",
        "**✗ 输出为 NaN**，首先出现在查询令牌 {token}、头 {head}。",
    ),
    "kernel.came_same": (
        "**✓ The output is the same**: max |Δ| = {largest}.",
        "**✓ 输出不变**：最大 |Δ| = {largest}。",
    ),
    "kernel.came_other": (
        "**✗ The output changes**: max |Δ| = {largest}, at query token {token}, head {head}.",
        "**✗ 输出改变**：最大 |Δ| = {largest}，在查询令牌 {token}、头 {head}。",
    ),
    "kernel.why_swapped": (
        "Keys carry their positions and softmax sums over a set: a decode step does not mind the order of full "
        "blocks. A prefill does: its causal mask goes by position.",
        "键自带位置信息，softmax 对集合求和：解码步不在乎满块的顺序。预填充则在乎：其因果掩码按位置判断。",
    ),
    "kernel.why_swapped_tail": (
        "The part-filled block now stands where a full one is expected, so slots are read that nobody wrote.",
        "未满的块现在处在应为满块的位置，于是读取了没人写过的槽位。",
    ),
    "kernel.why_foreign": (
        "Attention reads whatever lies there. Nothing crashes and the text goes astray, which is why table entries are "
        "checked by a law after every step.",
        "注意力照读那里的任何内容。不会崩溃，只是文本跑偏；因此每一步之后都有一条定律检查表项。",
    ),
    "kernel.why_past_end": (
        "A fresh block is not cleared. Only the length keeps its unwritten slots out.",
        "新块不会被清零。只有长度能把未写入的槽位挡在外面。",
    ),
    "kernel.why_poisoned_tail": (
        "Slots behind the end are masked on load and never enter a sum, so that what lies there does not matter.",
        "末尾之后的槽位在加载时就被屏蔽，从不进入求和，因此那里的内容无关紧要。",
    ),
    "kernel.why_poisoned_slot": (
        "A weight of 0 times NaN is NaN: rows that may not see the slot are spoilt too, if their program loads it.",
        "权重 0 乘以 NaN 仍是 NaN：即使某行不可见该槽位，只要其程序加载了它，也会被破坏。",
    ),
    "player.first": ("|◀", "|◀"),
    "player.first_label": ("First block", "第一块"),
    "player.back": ("◀", "◀"),
    "player.back_label": ("One block back", "后退一块"),
    "player.next": ("▶", "▶"),
    "player.next_label": ("One block on", "前进一块"),
    "player.play": ("Play", "播放"),
    "player.play_label": ("Play the walk", "播放行走"),
    "player.pause": ("Stop", "停止"),
    "player.pause_label": ("Stop playing", "停止播放"),
    "player.slider_label": ("Block of the walk", "行走到的块"),
    "figure.logical": ("logical block", "逻辑块"),
    "figure.physical": ("physical block", "物理块"),
    "figure.slots_read": ("slots read", "读取槽位"),
    "figure.running_max": ("m", "m（最大值）"),
    "figure.running_sum": ("l", "l（和）"),
    "figure.share": ("share", "份额"),
    "figure.output_so_far": ("output so far, d = 0 …", "目前的输出，d = 0 ……"),
    "figure.this_launch": ("this launch", "本次启动"),
    "figure.intensity": ("FLOPs per byte", "每字节浮点运算数"),
    "figure.tflops": ("TFLOP/s at most", "最高 TFLOP/s"),
    "hover.program": (
        "tile {tile}, KV head {head}, split {split}: tokens {first}–{last} of the batch ({id}); reads positions "
        "{start}–{stop} in {blocks} blocks",
        "片 {tile}，KV 头 {head}，分段 {split}：批次令牌 {first}–{last}（{id}）；"
        "读取位置 {start}–{stop}，共 {blocks} 块",
    ),
    "hover.program_idle": (
        "tile {tile}, KV head {head}, split {split}: nothing to do, returns at once",
        "片 {tile}，KV 头 {head}，分段 {split}：无事可做，立即返回",
    ),
    "hover.visit": (
        "logical block {logical} → physical #{physical}: {lanes} of {size} slots read",
        "逻辑块 {logical} → 物理 #{physical}：读取 {size} 个槽位中的 {lanes} 个",
    ),
    "hover.output": ("d = {dim}: {value} so far, {final} at the end", "d = {dim}：目前 {value}，最终 {final}"),
    "hover.mask": ("query token {token} sees positions {low}–{high}", "查询令牌 {token} 可见位置 {low}–{high}"),
    "hover.launch": (
        "{intensity} FLOPs per byte: at most {tflops} TFLOP/s",
        "每字节 {intensity} 次浮点运算：最高 {tflops} TFLOP/s",
    ),
    "hover.head_error": ("%{x}: %{y:.2e}", "%{x}：%{y:.2e}"),
    "alt.grid": (
        "Program grid: {tiles} query tiles by {heads} KV heads by {splits} splits; {busy} programs have work, {idle} "
        "return at once.",
        "程序网格：{tiles} 个查询片 × {heads} 个 KV 头 × {splits} 个分段；{busy} 个程序有工作，{idle} 个立即返回。",
    ),
    "alt.walk": (
        "Visit {at} of {of}: logical block {logical} is physical block {physical}, {lanes} slots read.",
        "第 {at} 次访问，共 {of} 次：逻辑块 {logical} 为物理块 {physical}，读取 {lanes} 个槽位。",
    ),
    "alt.mask": (
        "Mask of {tokens} query tokens: {seen} of {total} pairs of token and position are visible.",
        "{tokens} 个查询令牌的掩码：{total} 对令牌与位置中有 {seen} 对可见。",
    ),
    "alt.roofline": (
        "Roofline of {gpu}: the launch has {intensity} FLOPs per byte and is {bound}.",
        "{gpu} 的屋顶线：此次启动每字节 {intensity} 次浮点运算，{bound}。",
    ),
    "alt.dense": (
        "Largest difference between paged and dense by query head; overall {largest}, at head {head}.",
        "各查询头分页与稠密的最大差异；总体 {largest}，在头 {head}。",
    ),
}
