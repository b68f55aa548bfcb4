"""This room's part of the message catalogue: key → (English, 简体中文). `pages/ui/text.py` merges the rooms."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    # scenario files
    "scenario.unknown": (
        "There is no scenario called {name}; the library has: {known}.",
        "没有名为 {name} 的场景；库中有：{known}。",
    ),
    "scenario.unreadable": ("{file} cannot be read: {reason}.", "无法读取 {file}：{reason}。"),
    "scenario.too_big": (
        "{file} is larger than {limit} MB, which no scenario needs; give a smaller file.",
        "{file} 超过 {limit} MB，场景文件不需要这么大；请换一个较小的文件。",
    ),
    "scenario.bad_yaml": (
        "{file}, line {line}: this is not YAML ({reason}); correct that line.",
        "{file} 第 {line} 行：不是合法的 YAML（{reason}）；请更正该行。",
    ),
    "scenario.not_mapping": (
        "{file} must be a list of fields such as title, config and requests; `python -m scenarios schema` shows them.",
        "{file} 应由 title、config、requests 等字段组成；可用 `python -m scenarios schema` 查看。",
    ),
    "scenario.twice": (
        "{file}, line {line}: the field {field} is given twice; keep one of them.",
        "{file} 第 {line} 行：字段 {field} 出现了两次；请只保留一个。",
    ),
    "scenario.missing_field": (
        "{file}, line {line}: the field {field} is missing; add it.",
        "{file} 第 {line} 行：缺少字段 {field}；请补上。",
    ),
    "scenario.unknown_field": (
        "{file}, line {line}: {field} is not a field of a scenario; remove it or correct its name.",
        "{file} 第 {line} 行：{field} 不是场景的字段；请删除或更正其名称。",
    ),
    "scenario.bad_field": (
        "{file}, line {line}: {field} cannot be used ({reason}); correct it.",
        "{file} 第 {line} 行：{field} 无法使用（{reason}）；请更正。",
    ),
    "scenario.prompt_kind": (
        "a prompt is a text, a list of {{role, content}} messages or a list of token ids",
        "提示应为文本、{{role, content}} 消息列表或令牌 id 列表",
    ),
    "scenario.same_id": ("two requests are called {id}", "有两个请求都叫 {id}"),
    # claims
    "claim.syntax": (
        "The claim “{claim}” cannot be read: {reason}.",
        "无法理解断言“{claim}”：{reason}。",
    ),
    "claim.too_long": (
        "The claim “{claim}” is longer than {limit} characters; split it into several claims.",
        "断言“{claim}”超过 {limit} 个字符；请拆成几条。",
    ),
    "claim.not_allowed": (
        "The claim “{claim}” uses {what}, which claims do not have.",
        "断言“{claim}”使用了 {what}，断言语法中没有它。",
    ),
    "claim.unknown_name": (
        "The claim “{claim}” names {name}; claims know: {known}.",
        "断言“{claim}”中的 {name} 未定义；可用的名称有：{known}。",
    ),
    "claim.no_such": (
        "The claim “{claim}” asks for {what}, which is not there at this step.",
        "断言“{claim}”要查 {what}，但这一步没有它。",
    ),
    "claim.types": (
        "The claim “{claim}” compares or adds things that do not go together: {what}.",
        "断言“{claim}”对不相容的值做了比较或运算：{what}。",
    ),
    "claim.not_truth": (
        "The claim “{claim}” is {value}, neither true nor false; compare it with something.",
        "断言“{claim}”的值是 {value}，既非真也非假；请与某个值比较。",
    ),
    # trace files
    "trace.unreadable": ("{file} cannot be read: {reason}.", "无法读取 {file}：{reason}。"),
    "trace.too_big": (
        "{file} is larger than {limit} MB; cut it to its first rows.",
        "{file} 超过 {limit} MB；请只保留开头的若干行。",
    ),
    "trace.unpacks_too_big": (
        "{file} unpacks to more than {limit} MB; cut it to its first rows.",
        "{file} 解压后超过 {limit} MB；请只保留开头的若干行。",
    ),
    "trace.too_many_rows": (
        "{file} has {rows} rows, but at most {limit} can be read; cut it to its first rows.",
        "{file} 有 {rows} 行，最多可读 {limit} 行；请只保留开头的若干行。",
    ),
    "trace.bad_gzip": (
        "{file} begins like a gzip file but cannot be unpacked; it is cut short or damaged, so fetch it again.",
        "{file} 的开头是 gzip 格式，但无法解压；文件不完整或已损坏，请重新下载。",
    ),
    "trace.other_kind": (
        "{file} is a {what} file; a trace is CSV or JSON text, plain or gzip.",
        "{file} 是 {what} 文件；请求轨迹应为 CSV 或 JSON 文本（可用 gzip 压缩）。",
    ),
    "trace.binary": (
        "{file} is a binary file; a trace is CSV or JSON text, plain or gzip.",
        "{file} 是二进制文件；请求轨迹应为 CSV 或 JSON 文本（可用 gzip 压缩）。",
    ),
    "trace.not_utf8": (
        "{file}, line {line}: the text is not UTF-8; save the file as UTF-8.",
        "{file} 第 {line} 行：文本不是 UTF-8 编码；请另存为 UTF-8。",
    ),
    "trace.empty": (
        "{file} is empty; a trace has at least one request.",
        "{file} 是空的；请求轨迹至少要有一个请求。",
    ),
    "trace.no_rows": (
        "{file} has the columns {columns} but no row below them; a trace has at least one request.",
        "{file} 有列 {columns}，但下面没有任何行；请求轨迹至少要有一个请求。",
    ),
    "trace.bad_json": (
        "{file}, line {line}, column {column}: this is not JSON; correct that place or save one object a line.",
        "{file} 第 {line} 行第 {column} 列：不是合法的 JSON；请更正该处，或每行保存一个对象。",
    ),
    "trace.no_json_rows": (
        "{file}, line {line}: this is not JSON, nor is any other line; a JSON trace has one object a line.",
        "{file} 第 {line} 行不是 JSON，其余各行也不是；JSON 轨迹应每行一个对象。",
    ),
    "trace.no_objects": (
        "{file} is a JSON list without objects; each request of a trace is an object with its lengths.",
        "{file} 是 JSON 列表，但其中没有对象；轨迹中的每个请求应是带长度的对象。",
    ),
    "trace.bad_csv": (
        "{file}, line {line}: this is not CSV (a quote is never closed?); correct that line.",
        "{file} 第 {line} 行：不是合法的 CSV（是否有未闭合的引号？）；请更正该行。",
    ),
    "trace.unknown_format": (
        "There is no trace format called {format}; choose one of: {known}.",
        "没有名为 {format} 的轨迹格式；请选择：{known}。",
    ),
    "trace.missing_column": (
        "{file} looks like the {format} format but has no column {missing}; its columns are: {columns}.",
        "{file} 像是 {format} 格式，但缺少列 {missing}；现有的列：{columns}。",
    ),
    "trace.unknown_columns": (
        "{file} has no column of prompt lengths that a known trace has ({prompt_columns}); its columns are: {columns}.",
        "{file} 中没有任何已知轨迹格式的提示长度列（{prompt_columns}）；现有的列：{columns}。",
    ),
    "trace.all_bad": (
        "{file}: none of its {rows} rows is a request; the first fault is in line {line}: {reason}.",
        "{file}：{rows} 行中没有一行是请求；第一处问题在第 {line} 行：{reason}。",
    ),
    "trace.row.not_json": ("the line is not a JSON object", "该行不是 JSON 对象"),
    "trace.row.not_object": ("the item is not a JSON object", "该项不是 JSON 对象"),
    "trace.row.missing": ("{column} is missing", "缺少 {column}"),
    "trace.row.zero_tokens": ("zero tokens: {column} is 0, a failed call", "零令牌：{column} 为 0，是失败的调用"),
    "trace.row.not_whole": ("{column} is {value}, not a whole number", "{column} 为 {value}，不是整数"),
    "trace.row.not_number": ("{column} is {value}, not a number", "{column} 为 {value}，不是数字"),
    "trace.row.range": (
        "{column} is {value}, but it must be between 1 and {limit}",
        "{column} 为 {value}，但必须在 1 与 {limit} 之间",
    ),
    "trace.row.not_time": ("{column} is {value}, not a date and time", "{column} 为 {value}，不是日期时间"),
    "trace.row.not_ids": ("{column} is {value}, not a list of whole numbers", "{column} 为 {value}，不是整数列表"),
    "trace.row.no_text": ("{column} has no text", "{column} 没有文本"),
    "trace.images_ignored": (
        "The column {column} is ignored: only text tokens are replayed.",
        "忽略了列 {column}：只重放文本令牌。",
    ),
    "trace.no_arrival": (
        "There is no column {column}: all requests arrive at once.",
        "没有列 {column}：所有请求同时到达。",
    ),
    "trace.lengths_estimated": (
        "Prompt lengths are estimated from the text (4 bytes a token) until the model's tokenizer counts them.",
        "在模型分词器计数之前，提示长度按文本估算（每个令牌 4 字节）。",
    ),
    "trace.uneven_ids": (
        "In {rows} of {total} rows the block ids do not cover the prompt exactly; tokens without an id are not shared.",
        "{total} 行中有 {rows} 行的块 id 与提示长度不完全对应；没有 id 的令牌不会被共享。",
    ),
    "trace.sorted": (
        "{rows} rows arrived earlier than the row before them; the requests were put in order of time.",
        "有 {rows} 行的到达时间早于前一行；请求已按时间排序。",
    ),
    # fitting a trace to the engine
    "trace.fit.no_room": (
        "The engine holds {room} tokens a request, too few for a prompt and an output; raise num_blocks.",
        "引擎每个请求只能容纳 {room} 个令牌，放不下提示与输出；请增大 num_blocks。",
    ),
    "trace.fit.range": (
        "{field} is {value}, but it must be at least {low}.",
        "{field} 为 {value}，但必须不小于 {low}。",
    ),
    "trace.fit.scale": (
        "scale is {scale}, but blocks of {block} tokens can be divided by {limit} at most and stay apart.",
        "scale 为 {scale}，但 {block} 个令牌的块最多只能除以 {limit}，否则无法区分。",
    ),
    "trace.fit.first": (
        "{kept} of {total} requests are taken: the first to arrive.",
        "共 {total} 个请求，只取最先到达的 {kept} 个。",
    ),
    "trace.fit.scaled": (
        "All lengths are divided by {scale}.",
        "所有长度都除以 {scale}。",
    ),
    "trace.fit.prompt": (
        "{rows} of {total} rows were clipped to {limit} prompt tokens or fewer: a request has room for {room} tokens.",
        "{total} 行中有 {rows} 行的提示被截到 {limit} 个令牌或更少：每个请求可容纳 {room} 个令牌。",
    ),
    "trace.fit.output": (
        "{rows} of {total} rows were clipped to {limit} output tokens or fewer.",
        "{total} 行中有 {rows} 行的输出被截到 {limit} 个令牌或更少。",
    ),
    "trace.fit.text": (
        "The trace has no text: sample passages stand in, with the trace's lengths and shared prefixes.",
        "轨迹中没有文本：提示由示例段落拼成，长度与共享前缀和轨迹一致。",
    ),
    "trace.fit.text_no_ids": (
        "The trace has no text: sample passages stand in, with the trace's lengths; none share a prefix.",
        "轨迹中没有文本：提示由示例段落拼成，长度与轨迹一致，彼此没有共享前缀。",
    ),
    # command line
    "run.bad_set": ("The setting {text} is not of the form name=value.", "设置 {text} 不是 名称=值 的形式。"),
    "run.no_file": (
        "There is neither a scenario nor a file called {name}; the library has: {known}.",
        "没有名为 {name} 的场景或文件；库中有：{known}。",
    ),
    "run.too_long": (
        "The run is not over after {limit} steps; take fewer requests with --first or shorter ones with --scale.",
        "运行 {limit} 步后仍未结束；请用 --first 减少请求，或用 --scale 缩短请求。",
    ),
    "run.not_recorded": (
        "The scenario {name} has no recording; make one with: python -m scenarios record {name}.",
        "场景 {name} 没有录制；请运行 python -m scenarios record {name} 进行录制。",
    ),
    "run.claim": (
        "The claim “{claim}” of the note at step {step} is false.",
        "第 {step} 步注释中的断言“{claim}”不成立。",
    ),
    "run.note_late": (
        "There is a note at step {step}, but the run ends with step {last}.",
        "第 {step} 步有注释，但运行在第 {last} 步就结束了。",
    ),
    "run.law": (
        "Law {law} is broken at step {step} by {culprit}.",
        "第 {step} 步违反了定律 {law}：{culprit}。",
    ),
    # metrics
    "metric.none": ("no data", "没有数据"),
    "metric.value": ("value", "数值"),
    "metric.request": ("request", "请求"),
    "metric.clock_measured": (
        "Milliseconds are measured: wall time of this engine on this machine.",
        "毫秒为实测：本机上此引擎的实际用时。",
    ),
    "metric.clock_modelled": (
        "Milliseconds are modelled: roofline of {name} in bf16, a bound from below.",
        "毫秒为模型估算：{name}（bf16）的屋顶线，是时间的下界。",
    ),
    "metric.queue": ("queue time", "排队时间"),
    "metric.ttft": ("TTFT", "首令牌时间 TTFT"),
    "metric.tpot": ("TPOT", "每令牌时间 TPOT"),
    "metric.itl": ("ITL", "令牌间隔 ITL"),
    "metric.itl_max": ("longest ITL", "最长令牌间隔"),
    "metric.e2e": ("end to end", "端到端时间"),
    "metric.suspended": ("suspended", "被抢占的时间"),
    "metric.wait_steps": ("steps to first compute", "到首次计算的步数"),
    "metric.owned_blocks": ("blocks owned", "占用的块"),
    "metric.written_slots": ("slots written", "已写入的槽位"),
    "metric.internal_waste": ("slots of internal waste", "内部浪费的槽位"),
    "metric.reserved": ("slots reserved", "预留的槽位"),
    "metric.external_waste": ("slots of external waste", "外部浪费的槽位"),
    "metric.steps": ("steps", "步数"),
    "metric.duration": ("duration", "总时长"),
    "metric.computed": ("tokens executed", "执行的令牌"),
    "metric.useful": ("of these newly valid", "其中首次有效"),
    "metric.recomputed": ("of these recomputed", "其中重算"),
    "metric.output": ("tokens output", "输出的令牌"),
    "metric.output_rate": ("output rate", "输出速率"),
    "metric.first_hits": ("tokens hit at first lookup", "首次查找命中的令牌"),
    "metric.hit_rate": ("hit rate at first lookup", "首次查找命中率"),
    "metric.resumed_hits": ("tokens found after preemption", "抢占后找回的令牌"),
    "metric.preemptions": ("preemptions", "抢占次数"),
    "metric.swap_blocks_out": ("blocks swapped out", "换出的块"),
    "metric.swap_blocks_in": ("blocks swapped in", "换入的块"),
    "metric.swap_bytes": ("bytes swapped", "交换的字节"),
    "metric.swap_ms": ("time swapping", "交换用时"),
    "metric.peak_kv": ("peak KV memory", "KV 内存峰值"),
    "metric.idle_row_steps": ("idle row-steps", "空闲行步数"),
    "metric.idle_row_share": ("idle rows", "空闲行占比"),
    "metric.goodput_met": ("requests within targets", "达标的请求"),
    "metric.goodput_share": ("goodput, share of requests", "有效吞吐占比"),
    "metric.goodput_rate": ("goodput, requests", "有效吞吐（请求）"),
    "metric.largest_gap": ("largest gap in steps", "最大间隔步数"),
    "metric.overtaken": ("times overtaken", "被超越次数"),
    "metric.jain_service": ("Jain index of service", "服务量 Jain 指数"),
    "metric.jain_rate": ("Jain index of service rate", "服务速率 Jain 指数"),
    "metric.vtc_difference": ("VTC: service apart, backlogged clients", "VTC：积压客户的服务差"),
    "metric.vtc_bound": ("VTC: bound under its scheduler", "VTC：其调度器下的上界"),
    # comparing two runs; a and b are its sides
    "compare.why": (
        "The first difference is at step {step}, about request {request}. Side A {a}. Side B {b}.",
        "第一处不同在第 {step} 步，关于请求 {request}。A 边{a}。B 边{b}。",
    ),
    "compare.side": ("{did} ({because})", "{did}（{because}）"),
    "compare.same": ("Both decide the same in all {steps} steps.", "两边在全部 {steps} 步中的决定都相同。"),
    "compare.setting": ("{name}: A {a}, B {b}.", "{name}：A 为 {a}，B 为 {b}。"),
    "compare.outputs": ("Both give the same tokens to every request.", "两边给每个请求的令牌都相同。"),
    "compare.outputs_differ": ("The tokens differ for {requests}.", "以下请求得到的令牌不同：{requests}。"),
    "compare.refused": ("On side {side}: {reason}", "{side} 边：{reason}"),
    "compare.did.over": ("has ended before", "此前已经结束"),
    "compare.did.preempted": (
        "preempts it, {lost} computed positions are lost",
        "抢占它，丢失 {lost} 个已计算的位置",
    ),
    "compare.did.swapped_out": ("preempts it, its KV goes to host memory", "抢占它，其 KV 换出到主机内存"),
    "compare.did.admitted": ("admits it", "接纳它"),
    "compare.did.admitted_hit": (
        "admits it with {tokens} of its tokens found in the cache",
        "接纳它，并在缓存中找到它的 {tokens} 个令牌",
    ),
    "compare.did.hit": ("finds {tokens} of its tokens in the cache", "在缓存中找到它的 {tokens} 个令牌"),
    "compare.did.blocks": ("gives it blocks {blocks}", "分给它块 {blocks}"),
    "compare.did.no_block": ("gives it no block", "不分给它块"),
    "compare.did.finished": ("ends it after {tokens} output tokens", "在输出 {tokens} 个令牌后结束它"),
    "compare.did.scheduled": (
        "computes {tokens} of its tokens from position {start} on",
        "从位置 {start} 起计算它的 {tokens} 个令牌",
    ),
    "compare.did.waits": ("lets it wait", "让它等待"),
    "compare.did.nothing": ("does nothing with it", "没有动它"),
    "compare.because.preempted": (
        "{asker} needed {need} free blocks, {have} were free; {victim} gives way by the rule {rule}",
        "{asker} 需要 {need} 个空闲块，只有 {have} 个；按规则 {rule} 由 {victim} 让出",
    ),
    "compare.because.behind": ("behind {behind}, which waits: {reason}", "排在 {behind} 之后，而后者在等待：{reason}"),
    "compare.because.rival": (
        "{rival} is admitted in its place, the order is {policy}; then: {reason}",
        "{rival} 先于它被接纳，顺序为 {policy}；之后：{reason}",
    ),
    "compare.because.order": (
        "number {place} to be admitted in this step; the order is {policy}",
        "本步第 {place} 个被接纳；顺序为 {policy}",
    ),
    "compare.because.no_cache": ("there is no prefix cache on this side", "这一边没有前缀缓存"),
    "compare.because.lookup": (
        "of its {known} tokens at most {most} can be found, in blocks of {size}",
        "它的 {known} 个令牌最多可找到 {most} 个，以 {size} 个为一块",
    ),
    "compare.because.run": (
        "a run of {length} neighbours in a hole of {hole}, {fit} fit",
        "在 {hole} 块的空洞中取 {length} 个相邻块，{fit} 适配",
    ),
    "compare.because.queue": (
        "blocks have {size} slots; {free} of {usable} are free afterwards",
        "每块 {size} 个槽位；之后 {usable} 个块中有 {free} 个空闲",
    ),
    "compare.because.all": ("all {left} that are left of it", "这是它剩下的全部 {left} 个"),
    "compare.because.long": (
        "{left} are left, long_prefill_token_threshold is {threshold}",
        "还剩 {left} 个，long_prefill_token_threshold 为 {threshold}",
    ),
    "compare.because.budget": (
        "{left} are left, but others take {others} of the step's token budget of {budget}",
        "还剩 {left} 个，但本步 {budget} 个令牌的预算中其他请求用了 {others} 个",
    ),
    "compare.because.budget_left": (
        "{used} of the step's token budget of {budget} are used",
        "本步 {budget} 个令牌的预算用了 {used} 个",
    ),
    "compare.because.seats": (
        "{running} run, max_num_seqs is {limit}",
        "有 {running} 个在运行，max_num_seqs 为 {limit}",
    ),
    "compare.because.blocks_left": (
        "{free} of {usable} blocks are free afterwards",
        "之后 {usable} 个块中有 {free} 个空闲",
    ),
    # a radix tree by hand
    "tree.too_many": (
        "{count} operations are too many; keep to {limit}.",
        "{count} 个操作太多；最多 {limit} 个。",
    ),
    "tree.unknown": (
        "Line {line}: there is no operation called {word}; the operations are: {known}.",
        "第 {line} 行：没有名为 {word} 的操作；可用的操作有：{known}。",
    ),
    "tree.no_text": (
        "Line {line}: {kind} needs a text, such as {kind} 1234; each character is a token.",
        "第 {line} 行：{kind} 需要一段文本，例如 {kind} 1234；每个字符是一个令牌。",
    ),
    "tree.too_long": (
        "Line {line}: the text has {count} characters; keep to {limit}, so that the tree can be read.",
        "第 {line} 行：文本有 {count} 个字符；最多 {limit} 个，否则树无法看清。",
    ),
    "tree.count": (
        "Line {line}: evict needs a number of tokens from 1 to {limit}, not {value}.",
        "第 {line} 行：evict 需要 1 到 {limit} 的令牌数，而不是 {value}。",
    ),
    "tree.nothing_to_lock": (
        "Operation {number}: nothing of {text} is in the tree, so there is nothing to lock; insert it first.",
        "第 {number} 个操作：树中没有 {text} 的任何部分，无可加锁；请先插入它。",
    ),
    "tree.not_locked": (
        "Operation {number}: {text} is not locked, so it cannot be unlocked; lock the same text first.",
        "第 {number} 个操作：{text} 没有加锁，不能解锁；请先给同一文本加锁。",
    ),
    "tree.no_room": (
        "Operation {number}: {text} needs {need} tokens, but only {available} are free and the rest is locked; unlock "
        "something or take a larger pool.",
        "第 {number} 个操作：{text} 需要 {need} 个令牌，但只有 {available} 个空闲，其余已加锁；"
        "请先解锁，或换更大的池。",
    ),
    # why a request did not run in a step
    "wait.tokens": (
        "token budget, {need} tokens wanted, {have} left in this step",
        "令牌预算不足，需要 {need} 个，本步剩余 {have} 个",
    ),
    "wait.blocks": ("blocks, {need} needed, {have} free", "块不足，需要 {need} 个，空闲 {have} 个"),
    "wait.estimate": (
        "the estimate: {need} tokens to its end, which is not less than the {have} that are not spoken for",
        "估计：到结束需 {need} 个令牌，不少于尚未被预计占用的 {have} 个",
    ),
    "wait.sequences": ("sequence limit, {have} of {need} running", "序列上限，已有 {have} 个运行，上限 {need}"),
    "wait.preemption": (
        "a request was preempted in this step, so nobody is admitted",
        "本步发生了抢占，因此不接纳新请求",
    ),
    "wait.hole": (
        "no hole is large enough, {need} neighbouring blocks needed, {have} in the largest",
        "没有足够大的空洞，需要 {need} 个相邻块，最大空洞有 {have} 个",
    ),
    "wait.reserved": (
        "blocks to its very end, {need} needed, {have} free and not promised to running requests",
        "直到结束所需的块不足，需要 {need} 个，空闲且未预留给运行请求的有 {have} 个",
    ),
    "wait.delayed": (
        "it keeps its blocks until another gives some back, {need} needed, {have} free",
        "保留已有的块，直到其他请求归还，需要 {need} 个，空闲 {have} 个",
    ),
    "wait.batch": (
        "static batching, {have} of the {need} requests of the present batch go on",
        "静态批处理，当前批次 {need} 个请求中还有 {have} 个未结束",
    ),
    "wait.head_of_line": ("behind {behind}, which could not be admitted", "排在未获准的 {behind} 之后"),
}
