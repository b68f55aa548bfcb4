"""Words of the help page: keys, the questions people keep asking, and the glossary in both languages."""

from __future__ import annotations

PAGE: dict[str, tuple[str, str]] = {
    "help.keys": ("Keys on the step page", "单步页的按键"),
    "help.questions": ("Twenty questions people keep asking", "人们总在问的二十个问题"),
    "help.questions_intro": (
        "From issue threads of vLLM, SGLang and their neighbours. Each link opens the step that shows the answer.",
        "来自 vLLM、SGLang 及相关项目的讨论。每个链接打开能看到答案的那一步。",
    ),
    "help.asked": ("asked in {where}", "提问于 {where}"),
    "help.see": ("{title}, step {step}", "{title}，第 {step} 步"),
    "help.glossary": ("Glossary", "术语"),
    "help.space": ("Space", "空格"),
    "key.forward": ("One step forward; it is computed if it has not been yet", "前进一步；没算过的就现在算"),
    "key.back": ("One step back", "后退一步"),
    "key.play": ("Play, and stop", "播放与停止"),
    "key.speed": ("Play slowly, normally or fast", "慢速、正常或快速播放"),
    "help.tour": ("Take the tour of the step page again", "再看一遍单步页面的导览"),
    "key.end": ("Run to the end, and stop", "运行到底与停止"),
    "key.home": ("Before the first step", "回到第一步之前"),
    "key.select": ("Click a request or a block: it is selected everywhere", "点击请求或块：在所有图中选中"),
    "key.clear": ("Clear the selection", "取消选择"),
}

QUESTIONS: dict[str, tuple[str, str]] = {
    "question.1": (
        "Usage drops to 0 % when my request ends. Is the prefix cache gone?",
        "请求一结束，使用率就降到 0%。前缀缓存没了吗？",
    ),
    "answer.1": (
        "No. Usage counts blocks with an owner. The blocks of ended requests lie in the free queue with their "
        "content and can "
        "be hit until they are handed out again.",
        "没有。使用率只算有所有者的块。已结束请求的块带着内容躺在空闲队列里，再次分出去之前都能命中。",
    ),
    "question.2": (
        "Does the usage percentage mean tokens? Why is it so high with short prompts?",
        "使用率百分比指的是令牌吗？提示很短为什么也这么高？",
    ),
    "answer.2": (
        "It counts blocks. 17 tokens take two blocks of 16, and the second is nearly empty.",
        "它数的是块。17 个令牌占两个 16 槽位的块，第二个几乎是空的。",
    ),
    "question.3": (
        "Can a block in the middle of a chain be evicted and leave the later ones useless, or wrong?",
        "链中间的块会被淘汰，让后面的块失效甚至出错吗？",
    ),
    "answer.3": (
        "Useless perhaps, wrong never: a key covers everything before it. Giving back the last block first "
        "makes chains "
        "lose their ends first.",
        "可能用不上，但绝不会错：键涵盖了之前的一切。归还时末块在前，所以链总是先丢尾部。",
    ),
    "question.4": (
        "If blocks 1 and 3 are cached but 2 is not, is 3 used?",
        "1 号和 3 号块有缓存而 2 号没有，3 号会被复用吗？",
    ),
    "answer.4": (
        "No. The lookup stops at the first miss, since KV depends on everything before it.",
        "不会。查找在第一个未命中处停止，因为 KV 取决于它之前的一切。",
    ),
    "question.5": (
        "The whole prompt is cached. Why compute anything?",
        "整个提示都有缓存，为什么还要计算？",
    ),
    "answer.5": (
        "Keys and values are kept, the output of the last token is not, and without it there is nothing to "
        "sample from.",
        "保存的是键和值，不是最后一个令牌的输出；没有它就无从采样。",
    ),
    "question.6": (
        "Why is my short prompt never a hit, and why do hits come in steps?",
        "我的短提示为什么从不命中？命中为什么成台阶？",
    ),
    "answer.6": (
        "Only full blocks have keys: a hit is at most floor((length - 1) / block size) whole blocks.",
        "只有满块才有键：命中最多为 ⌊(长度 − 1) / 块大小⌋ 个整块。",
    ),
    "question.7": (
        "Are generated tokens cached for the next turn? Exactly how many?",
        "生成的令牌会为下一轮缓存吗？究竟有多少？",
    ),
    "answer.7": (
        "Yes, as far as they were computed: all but the last sampled one, cut down to full blocks.",
        "会，只要算过：除最后采样的一个之外全部，再按满块取整。",
    ),
    "question.8": ("Does prefix caching make decoding faster?", "前缀缓存会让解码更快吗？"),
    "answer.8": (
        "Not a decode step itself. It shortens prefill, and with it the steps in which others wait for that prefill.",
        "解码步本身不会。它缩短预填充，也就缩短了别人等这次预填充的那几步。",
    ),
    "question.9": (
        "A cold and a warm run differ at temperature 0. Is the cache corrupt?",
        "温度为 0 时冷、热两次运行结果不同，是缓存坏了吗？",
    ),
    "answer.9": (
        "Usually other shapes round differently and near-ties flip. Law 10 measures paged against dense attention in "
        "every step; a corrupt cache would break it.",
        "通常是形状不同导致舍入不同，接近的候选发生翻转。定律 10 每步都实测分页与稠密注意力之差；缓存坏了它就不成立。",
    ),
    "question.10": (
        "The hit rate is 30 % on random prompts. How?",
        "随机提示的命中率有 30%，怎么会？",
    ),
    "answer.10": (
        "Preempted requests find their own old blocks. First lookups and those after a preemption must be "
        "counted apart.",
        "被抢占的请求找回了自己的旧块。首次查找与抢占之后的查找要分开计数。",
    ),
    "question.11": (
        "Two identical prompts at the same time did not share. Is that a bug?",
        "两个相同的提示同时到达却没有共享，是缺陷吗？",
    ),
    "answer.11": (
        "It depends on when a block is published. vLLM does it when the filling step is scheduled, so twins "
        "share at once; "
        "engines that wait for the computation do not.",
        "取决于块何时发布。vLLM 在排定填满它的那一步时就发布，双胞胎立刻共享；等计算完才发布的引擎则不能。",
    ),
    "question.12": (
        "Which limit is stopping me: sequences, tokens or blocks?",
        "究竟是哪种上限挡住了我：序列、令牌还是块？",
    ),
    "answer.12": (
        "They are three separate limits. Any one can bind while the other two look idle, so each waiting "
        "request names its own.",
        "这是三种独立的上限。任何一种都可能单独生效而另外两种很空，所以每个等待的请求都写明自己的原因。",
    ),
    "question.13": (
        "How can a prompt of 128k tokens run when a batch takes 32k?",
        "一批只能容纳 32k 个令牌，128k 的提示怎么运行？",
    ),
    "answer.13": (
        "In chunks over several steps; there is no output before the last one.",
        "分成几段，用几步算完；最后一段之前没有输出。",
    ),
    "question.14": (
        "Why does a smaller token budget improve the gaps between tokens?",
        "为什么令牌预算小了，令牌之间的间隔反而改善？",
    ),
    "answer.14": (
        "A step takes longer the more tokens it has, and every running request waits for the whole step. A "
        "larger budget "
        "gives the long prompt its first token earlier.",
        "一步里令牌越多就越久，而每个运行中的请求都要等整步结束。预算大，长提示的首个令牌来得更早。",
    ),
    "question.15": (
        "Why do all streams freeze when someone sends a long prompt?",
        "为什么有人发来长提示，所有输出都停住？",
    ),
    "answer.15": (
        "Under prefill-first scheduling decodes run only when no prompt work is left. Here running requests "
        "go first, and "
        "the long prompt gets what the budget leaves.",
        "在预填充优先的策略下，没有提示可算时才解码。这里运行中的请求先行，长提示只用预算的剩余部分。",
    ),
    "question.16": (
        "Why does the reserve (watermark) apply to new requests but not to growing ones?",
        "为什么水位线只管新请求，不管正在增长的请求？",
    ),
    "answer.16": (
        "It keeps room for the growth of those already running; they may use all of it.",
        "它是为已在运行者的增长留的，它们可以全部用掉。",
    ),
    "question.17": (
        "After a preemption, is KV kept, swapped or dropped? Is output lost?",
        "抢占之后 KV 是保留、换出还是丢弃？输出会丢吗？",
    ),
    "answer.17": (
        "With recompute the blocks are given back, and prompt and output are computed again; no text is lost. "
        "Swap copies "
        "KV to the host instead.",
        "重算模式下归还所有块，提示和输出再算一遍，文本不丢。换出模式则把 KV 复制到主机。",
    ),
    "question.18": (
        "Why is the newest request the victim, even if it did the most work?",
        "为什么牺牲的是最新的请求，哪怕它做得最多？",
    ),
    "answer.18": (
        "First come, first served: who came last gives way. Other choices may waste less; the settings have four.",
        "先来先服务：后来者让位。别的选择可能浪费更少，设置里有四种。",
    ),
    "question.19": (
        "Hash table or radix tree: what is really different, and what does page size do?",
        "哈希表与基数树到底差在哪里？页大小有什么作用？",
    ),
    "answer.19": (
        "The same idea in another unit: blocks of fixed size by key, against edges of any length cut at page edges. A "
        "match is a multiple of the page.",
        "思想相同，单位不同：前者是按键查找的定长块，后者是在页边界切开的任意长的边。匹配长度是页的整数倍。",
    ),
    "question.20": (
        "Where did copy-on-write go? How do n answers share a prompt? Does preferring the longest prefix hurt anyone?",
        "写时复制去哪了？n 个回答怎样共享一个提示？优先最长前缀会伤害谁吗？",
    ),
    "answer.20": (
        "A part-filled block that is shared must be copied before a write. vLLM V1 runs n answers as separate requests "
        "that share full blocks only, so it never copies. Longest prefix first can starve a request that shares "
        "nothing.",
        "没填满的共享块在写入前必须复制。vLLM V1 把 n 个回答当作独立请求，只共享满块，所以从不复制。"
        "最长前缀优先可能饿死与他人没有共同前缀的请求。",
    ),
}

TERMS: dict[str, tuple[str, str]] = {
    "terms.memory": ("Blocks", "块"),
    "term.block_table": ("block table", "块表"),
    "means.block_table": (
        "A request's list of physical blocks, in the order of its text.",
        "一个请求的物理块清单，按文本顺序。",
    ),
    "term.physical_block": ("physical block", "物理块"),
    "means.physical_block": (
        "A fixed number of slots in KV memory, the unit that is owned, shared and freed.",
        "KV 内存中固定数目的槽位，是占用、共享和归还的单位。",
    ),
    "term.slot": ("slot", "槽位"),
    "means.slot": ("Room for the keys and values of one token.", "存放一个令牌的键和值的位置。"),
    "term.ref_count": ("ref count", "引用计数"),
    "means.ref_count": (
        "How many block tables list a block. At 0 it is free.",
        "有多少块表列着这个块。为 0 即空闲。",
    ),
    "term.free_queue": ("free queue", "空闲队列"),
    "means.free_queue": (
        "Free blocks in the order in which they will be handed out, cached ones included.",
        "空闲块按将被分出去的次序排列，有缓存的也在内。",
    ),
    "term.block_hash": ("block hash", "块哈希"),
    "means.block_hash": (
        "The name of a full block: the hash of its tokens and of everything before them.",
        "满块的名字：由自身令牌和之前的一切算出的哈希。",
    ),
    "term.null_block": ("null block", "空块"),
    "means.null_block": (
        "Block 0, a placeholder: never free, never owned.",
        "0 号块，占位用：既不空闲，也不归任何人。",
    ),
    "term.prefix_cache": ("prefix cache", "前缀缓存"),
    "means.prefix_cache": (
        "KV of earlier requests, found again by equal beginnings.",
        "以前请求的 KV，凭相同的开头找回。",
    ),
    "term.copy_on_write": ("copy-on-write", "写时复制"),
    "means.copy_on_write": (
        "A shared block that is not full is copied before one of its owners writes.",
        "没填满的共享块在某位所有者写入之前先复制。",
    ),
    "terms.radix": ("Radix tree", "基数树"),
    "term.radix_node": ("radix node", "基数树节点"),
    "means.radix_node": ("A point where cached texts part.", "已缓存文本分岔的地方。"),
    "term.edge": ("edge", "边"),
    "means.edge": ("The tokens between two nodes, with their slots.", "两个节点之间的令牌及其槽位。"),
    "term.lock_ref": ("lock ref", "锁引用"),
    "means.lock_ref": (
        "How many requests need the path through a node.",
        "有多少请求需要经过该节点的路径。",
    ),
    "term.evictable": ("evictable", "可淘汰"),
    "means.evictable": (
        "Cached and unlocked: may be thrown away, leaves first.",
        "有缓存且未锁：可以丢弃，先从叶子开始。",
    ),
    "term.protected": ("protected", "受保护"),
    "means.protected": ("Locked by a running request.", "被运行中的请求锁住。"),
    "term.page": ("page", "页"),
    "means.page": ("SGLang's word for the unit that slots are handed out in.", "SGLang 分配槽位的单位。"),
    "term.matched": ("matched / usable length", "匹配长度/可复用长度"),
    "means.matched": (
        "Tokens found in the cache, and those of them a request may take: whole pages, and never the last token.",
        "缓存里找到的令牌数，以及其中可用的：整页，且不含最后一个令牌。",
    ),
    "terms.scheduling": ("Scheduling", "调度"),
    "term.waiting": ("waiting", "等待"),
    "means.waiting": ("Arrived, not admitted; owns no block.", "已到达，未准入；不占任何块。"),
    "term.running": ("running", "运行"),
    "means.running": ("Admitted; owns blocks.", "已准入，占有块。"),
    "term.preempted": ("preempted", "被抢占"),
    "means.preempted": (
        "Sent back to wait so that others get its blocks; its text is kept.",
        "被送回等待，把块让给别人；文本保留。",
    ),
    "term.finished": ("finished", "完成"),
    "means.finished": ("Ended by a stop token or its length.", "因停止令牌或长度而结束。"),
    "term.aborted": ("aborted", "中止"),
    "means.aborted": ("Ended from outside.", "由外部终止。"),
    "term.token_budget": ("token budget", "令牌预算"),
    "means.token_budget": ("Most tokens that a step computes.", "一步最多计算的令牌数。"),
    "term.sequence_limit": ("sequence limit", "序列上限"),
    "means.sequence_limit": ("Most requests that run at a time.", "同时运行的请求数上限。"),
    "term.watermark": ("watermark", "水位线"),
    "means.watermark": (
        "Blocks kept free when somebody new is admitted.",
        "接纳新请求时要留出的空闲块。",
    ),
    "term.lookahead": ("lookahead", "前瞻"),
    "means.lookahead": ("Slots reserved ahead for speculative tokens.", "为投机令牌预先占用的槽位。"),
    "term.chunk": ("chunk", "分块预填充"),
    "means.chunk": (
        "The part of a prompt that fits what the step's budget leaves.",
        "提示中能放进本步剩余预算的一段。",
    ),
    "term.recompute": ("recompute", "重算"),
    "means.recompute": ("Computing positions again after a preemption.", "抢占之后把位置再算一遍。"),
    "term.swap": ("swap", "换出"),
    "means.swap": ("Copying a victim's KV to host memory and back.", "把被抢占者的 KV 复制到主机内存，再取回。"),
    "term.hand_over": ("hand-over", "交接"),
    "means.hand_over": (
        "KV goes from an engine that prefills to one that decodes.",
        "KV 从负责预填充的引擎交给负责解码的引擎。",
    ),
    "terms.launch": ("Kernel launch", "内核启动"),
    "term.query_start_loc": ("query_start_loc", "query_start_loc"),
    "means.query_start_loc": (
        "Where each request's rows begin in the batch, added up.",
        "每个请求的行在批次中的起点（累加）。",
    ),
    "term.seq_lens": ("seq_lens, context length", "seq_lens，上下文长度"),
    "means.seq_lens": (
        "Positions that a request attends to: this step's included, and without it the context.",
        "请求要关注的位置数：含本步；不含本步的即上下文。",
    ),
    "term.slot_mapping": ("slot_mapping", "槽位映射 slot_mapping"),
    "means.slot_mapping": (
        "For each token of the batch the slot its keys and values are written to.",
        "批次中每个令牌的键和值要写入的槽位。",
    ),
    "terms.times": ("Times", "时间"),
    "term.ttft": ("TTFT", "TTFT 首令牌时延"),
    "means.ttft": ("Time to first token, from arrival.", "从到达到首个令牌的时间。"),
    "term.tpot": ("TPOT", "TPOT 每令牌时间"),
    "means.tpot": ("Mean time per output token after the first.", "首个之后每个输出令牌的平均时间。"),
    "term.itl": ("ITL", "ITL 令牌间隔"),
    "means.itl": (
        "Each gap between two tokens; TPOT hides the long ones.",
        "两个令牌之间的每次间隔；TPOT 会掩盖长间隔。",
    ),
    "term.e2e": ("E2E", "E2E 端到端时延"),
    "means.e2e": ("From arrival to the last token.", "从到达到最后一个令牌。"),
    "term.slo": ("SLO", "SLO 服务目标"),
    "means.slo": ("What was promised, such as TTFT below 200 ms.", "承诺的目标，例如 TTFT 低于 200 ms。"),
    "term.goodput": ("goodput", "有效吞吐"),
    "means.goodput": ("Requests per second that met their SLO.", "每秒满足服务目标的请求数。"),
}

MESSAGES: dict[str, tuple[str, str]] = {**PAGE, **QUESTIONS, **TERMS}
