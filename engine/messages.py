"""The engine room's part of the message catalogue: key → (English, 简体中文). `pages/ui/text.py` merges the rooms."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "config.range": (
        "{field} is {value}, but it must be between {low} and {high}.",
        "{field} 为 {value}，但必须在 {low} 与 {high} 之间。",
    ),
    "config.bool": (
        "{field} is {value}, but it must be true or false.",
        "{field} 为 {value}，但只能是 true 或 false。",
    ),
    "kv_error.tokens": (
        "{count} tokens cannot be looked at; give 1 to {most}.",
        "无法分析 {count} 个令牌；请给出 1 到 {most} 个。",
    ),
    "kv_error.queries": (
        "{count} of the last tokens cannot be queries; give 1 to {most}.",
        "最后 {count} 个令牌不能作为查询；请给出 1 到 {most}。",
    ),
    "config.choice": ("{field} is {value}; choose one of: {choices}.", "{field} 为 {value}；请选择：{choices}。"),
    "config.unknown": (
        "There is no setting called {field}; the settings are: {known}.",
        "没有名为 {field} 的设置；可用的设置有：{known}。",
    ),
    "config.budget": (
        "max_num_batched_tokens is {budget}, but it must be at least max_num_seqs ({seqs}): each running request "
        "needs one token a step.",
        "max_num_batched_tokens 为 {budget}，但必须不小于 max_num_seqs（{seqs}）："
        "每个运行中的请求每步至少需要一个令牌。",
    ),
    "config.swap_pool": (
        "preemption is swap, but swap_blocks is {value}; the host pool needs at least 1 block.",
        "preemption 为 swap，但 swap_blocks 为 {value}；主机池至少需要 1 个块。",
    ),
    "config.never_preempts": (
        "preemption is {value}, but with {field} = {setting} nothing is ever preempted; leave preemption at recompute.",
        "preemption 为 {value}，但 {field} = {setting} 时从不抢占；请将 preemption 保持为 recompute。",
    ),
    "config.needs": (
        "{field} is {value}, which needs {other} to be {needed}, but it is {have}.",
        "{field} 为 {value}，需要 {other} 为 {needed}，但现在为 {have}。",
    ),
    "metrics.target": (
        "{field} is {value}, but a latency target is a number of milliseconds above 0.",
        "{field} 为 {value}，但延迟目标必须是大于 0 的毫秒数。",
    ),
    "clock.unknown": (
        "There is no clock called {clock}; give measured, or MODEL@GPU with a model of {models} and a GPU of {gpus}.",
        "没有名为 {clock} 的时钟；请给出 measured，或 模型@GPU：模型可选 {models}，GPU 可选 {gpus}。",
    ),
    "clock.overhead": (
        "A launch overhead of {value} ms belongs to a modelled clock; give MODEL@GPU as the clock, or no overhead.",
        "启动开销 {value} 毫秒只用于模型时钟；请将时钟设为 模型@GPU，或不要给出开销。",
    ),
    "request.no_id": ("A request needs an id.", "请求必须有 id。"),
    "request.duplicate": (
        "There is already a request called {id}; give the new one another id.",
        "已存在名为 {id} 的请求；请给新请求换一个 id。",
    ),
    "request.empty_prompt": (
        "Request {id} has an empty prompt; it needs at least one token.",
        "请求 {id} 的提示为空；至少需要一个令牌。",
    ),
    "request.negative_token": (
        "Request {id} has a negative token id in its prompt.",
        "请求 {id} 的提示中含有负的令牌 id。",
    ),
    "request.unknown_token": (
        "Request {id} has token id {token}, but the model knows only ids below {vocab}.",
        "请求 {id} 含有令牌 id {token}，但模型只认识小于 {vocab} 的 id。",
    ),
    "request.max_tokens": (
        "Request {id} asks for {value} output tokens, but it must be between 1 and {limit}.",
        "请求 {id} 要求输出 {value} 个令牌，但必须在 1 与 {limit} 之间。",
    ),
    "request.negative_arrival": (
        "Request {id} arrives at step {value}; the first step is 0.",
        "请求 {id} 在第 {value} 步到达；第一步是 0。",
    ),
    "request.short_script": (
        "Request {id} scripts {have} output tokens but asks for {need}.",
        "请求 {id} 脚本化了 {have} 个输出令牌，但要求 {need} 个。",
    ),
    "request.never_fits": (
        "Request {id} needs {need} blocks ({tokens} positions), but the pool has {have}; it could never finish.",
        "请求 {id} 需要 {need} 个块（{tokens} 个位置），但池中只有 {have} 个；它永远无法完成。",
    ),
    "request.too_long": (
        "Request {id} needs {tokens} positions, but the longest sequence here is {limit} (max_model_len, or the "
        "token budget when chunked prefill is off).",
        "请求 {id} 需要 {tokens} 个位置，但此处最长序列为 {limit}（max_model_len；关闭分块预填充时为令牌预算）。",
    ),
    "golden.unreadable": ("{file} cannot be read: {reason}.", "无法读取 {file}：{reason}。"),
    "golden.not_json": ("{file} is not JSON: {reason}.", "{file} 不是 JSON：{reason}。"),
    "golden.not_scenario": (
        "{file} has no list called requests or ops; give a recorded vLLM or SGLang scenario.",
        "{file} 没有名为 requests 或 ops 的列表；请提供录制的 vLLM 或 SGLang 场景。",
    ),
    "golden.bad_field": ("{file} is not a scenario: field {reason}.", "{file} 不是场景文件：字段 {reason}。"),
    "request.unknown": ("There is no request called {id}.", "没有名为 {id} 的请求。"),
    "block.unknown": (
        "Block {block} is not one of this pool's blocks 1–{last}.",
        "块 {block} 不是本池的块（1–{last}）。",
    ),
    "block.double_free": (
        "Block {block} is already free; freeing it again was refused.",
        "块 {block} 已经空闲；拒绝重复释放。",
    ),
    "block.not_free": ("Block {block} has owners; it cannot be taken.", "块 {block} 仍有所有者，不能取用。"),
    "block.unowned": (
        "Block {block} has no owner; it cannot be shared.",
        "块 {block} 没有所有者，不能共享。",
    ),
    "block.not_shared": (
        "Block {block} is not shared; its owner may write in place, so copying it was refused.",
        "块 {block} 未被共享；其所有者可直接写入，因此拒绝复制。",
    ),
    "capture.nothing": (
        "Step {step} launched no kernel; choose a step that scheduled tokens.",
        "第 {step} 步没有启动内核；请选择安排了令牌的步。",
    ),
    "fork.waiting": (
        "Request {id} is waiting and holds no blocks; only a running request can be forked.",
        "请求 {id} 正在等待，不持有任何块；只有运行中的请求才能分叉。",
    ),
    "fork.preempted": (
        "Request {id} is preempted and has lost its blocks; fork it when it runs again.",
        "请求 {id} 已被抢占并失去其块；请在它恢复运行后再分叉。",
    ),
    "fork.over": (
        "Request {id} is over and has given back its blocks; it can no longer be forked.",
        "请求 {id} 已结束并归还了其块；不能再分叉。",
    ),
    "fork.engine": (
        "Request {id} cannot be forked while {field} is {value}; set it to {needed}.",
        "{field} 为 {value} 时不能分叉请求 {id}；请设为 {needed}。",
    ),
    "fork.count": (
        "Request {id} was to be forked into {n} children; it must be at least 1.",
        "请求 {id} 要分叉出 {n} 个子请求；至少应为 1 个。",
    ),
    "fork.seats": (
        "Request {id} cannot get {n} more sequences: {used} are running or expected, and max_num_seqs is {limit}.",
        "请求 {id} 无法再得到 {n} 个序列：已有 {used} 个在运行或待分叉，而 max_num_seqs 为 {limit}。",
    ),
    "fork.lengths": (
        "{field} of the fork of {id} has {have} entries, but there are {need} children.",
        "{id} 分叉的 {field} 有 {have} 项，但子请求有 {need} 个。",
    ),
    "parallel.seeds": (
        "There are {have} seeds for {need} answers; give each answer its own.",
        "{need} 个回答却有 {have} 个种子；请为每个回答各给一个。",
    ),
    "block.exhausted": (
        "{need} blocks were asked for, but only {have} are free; nothing was taken.",
        "请求 {need} 个块，但只有 {have} 个空闲；未取用任何块。",
    ),
    "golden.op": (
        "Operation {index} of the scenario is refused: {reason}",
        "场景的第 {index} 个操作被拒绝：{reason}",
    ),
    "golden.unknown_op": (
        "There is no operation called {op}; the operations are: {known}.",
        "没有名为 {op} 的操作；可用的操作有：{known}。",
    ),
    "golden.unknown_ref": (
        "No earlier operation has the ref {ref}; name one that has.",
        "之前没有操作使用引用名 {ref}；请给出已有的引用名。",
    ),
    "golden.slots": (
        "The slots of an insert cannot be given here; leave slots out, the pool hands them out.",
        "此处不能指定插入的槽位；请去掉 slots，由池来分配。",
    ),
    "radix.token": (
        "A key holds something that is not a token id ({reason}); give whole numbers from 0 to 2⁶³ − 1.",
        "键中含有不是令牌 id 的内容（{reason}）；请给出 0 到 2⁶³ − 1 的整数。",
    ),
    "radix.negative_token": (
        "Token {token} at position {position} of a key is negative; token ids start at 0.",
        "键的第 {position} 个位置上的令牌 {token} 为负；令牌 id 从 0 开始。",
    ),
    "radix.empty_key": (
        "A key without tokens cannot be stored; give at least one token.",
        "不能存储没有令牌的键；请至少给出一个令牌。",
    ),
    "radix.pages": (
        "A key of {need} pages came with {have} pages of KV; give one for each.",
        "一个 {need} 页的键只附带了 {have} 页 KV；请为每页各给一个。",
    ),
    "radix.policy": (
        "There is no eviction policy called {name}; choose one of: {choices}.",
        "没有名为 {name} 的淘汰策略；请选择：{choices}。",
    ),
    "radix.policy_option": (
        "Eviction policy {name} has no option {option}; its options are: {choices}.",
        "淘汰策略 {name} 没有选项 {option}；其选项有：{choices}。",
    ),
    "radix.policy_value": (
        "Option {option} of eviction policy {name} is {value}; it must be a whole number from 0 up.",
        "淘汰策略 {name} 的选项 {option} 为 {value}；必须是不小于 0 的整数。",
    ),
    "radix.double_unlock": (
        "Node {node} is not locked; unlocking it again was refused.",
        "节点 {node} 未被锁定；拒绝再次解锁。",
    ),
    "radix.gone": (
        "Node {node} is not in this tree; it was evicted or belongs to another one.",
        "节点 {node} 不在此树中；它已被淘汰或属于另一棵树。",
    ),
    "radix.pool": (
        "A pool of {pool} tokens cannot be cut into pages of {page}; choose a page size that divides the pool.",
        "{pool} 个令牌的池无法按每页 {page} 个切分；请选择能整除池大小的页大小。",
    ),
    "radix.segment": (
        "A segment that starts at position {start} does not start a page of {page}; nothing was freed.",
        "从位置 {start} 开始的一段不在每页 {page} 个的页边界上；未释放任何内容。",
    ),
    "radix.no_page": (
        "Page {page} is not one of this pool's pages 1–{last}.",
        "页 {page} 不是本池的页（1–{last}）。",
    ),
    "radix.double_free": (
        "Page {page} is already free; freeing it again was refused.",
        "页 {page} 已经空闲；拒绝重复释放。",
    ),
}
