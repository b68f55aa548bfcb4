"""Words of the memory page."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "page.memory": ("Memory", "内存"),
    "memory.block_size": ("Block size (slots)", "块大小（槽位）"),
    "memory.reserve": ("A run reserves", "连续段预留"),
    "memory.model": ("Model and GPU of the clock", "计时所用模型与 GPU"),
    "memory.note": (
        "{scenario}: the same requests and {slots} slots on both sides. Decisions only, with recorded tokens: no model "
        "runs. Slots are counted in the run.",
        "{scenario}：两边的请求与 {slots} 个槽位相同。只用录制的令牌重放决策，不运行模型。槽位由运行计数。",
    ),
    "memory.paged": ("Paged", "分页"),
    "memory.contiguous": ("Contiguous", "连续"),
    "memory.at_peak": (
        "{share} of the owned slots hold KV, mean over {steps} steps; internal waste {internal} slots on average.",
        "占用的槽位平均有 {share} 存放 KV（{steps} 步）；内部浪费平均 {internal} 个槽位。",
    ),
    "memory.nothing": ("No step ran.", "没有运行任何步。"),
    "memory.written": ("written", "已写入"),
    "memory.reserved": ("reserved for later", "为以后预留"),
    "memory.internal": ("internal waste", "内部浪费"),
    "memory.external": ("external waste", "外部浪费"),
    "memory.free": ("free", "空闲"),
    "memory.use": ("Slots by kind, step by step", "各步的槽位用途"),
    "memory.stairs": ("Prompt length → usable hit", "提示长度 → 可复用命中"),
    "memory.stairs_note": (
        "Only full blocks are keys and one token is always computed: at most ⌊(length − 1) / {size}⌋ × {size}. Dots: "
        "what each request's first lookup found (counted).",
        "只有满块才能作为键，且总要计算一个令牌：最多 ⌊(长度 − 1) / {size}⌋ × {size}。"
        "圆点：每个请求首次查找的命中（计数）。",
    ),
    "memory.latency": ("Latency, goodput and fairness", "延迟、有效吞吐与公平性"),
    "memory.ttft": ("TTFT target (ms)", "TTFT 目标（毫秒）"),
    "memory.tpot": ("TPOT target (ms)", "TPOT 目标（毫秒）"),
    "memory.refused": ("{side}: {reason}", "{side}：{reason}"),
    "memory.bad_link": (
        "The link's {name} is {value}; it must be one of {choices}. The page shows {shown}.",
        "链接中的 {name} 为 {value}；应为 {choices} 之一。页面改用 {shown}。",
    ),
    "hover.slots": ("step {step}: {n} of {total} slots {kind}", "第 {step} 步：{total} 个槽位中 {n} 个{kind}"),
    "hover.stairs": (
        "{id}: {tokens} tokens, hit {hit} of at most {limit}",
        "{id}：{tokens} 个令牌，命中 {hit}，最多 {limit}",
    ),
    "figure.slots": ("{n} slots", "{n} 个槽位"),
    "figure.tokens": ("{n} tokens", "{n} 个令牌"),
    "alt.slots": (
        "Slots by kind over {steps} steps; at the last busy step {written} written, {reserved} reserved, {internal} "
        "internal waste, {external} external waste, {free} free.",
        "{steps} 步的槽位用途；最后一个有运行的步：已写入 {written}，预留 {reserved}，"
        "内部浪费 {internal}，外部浪费 {external}，空闲 {free}。",
    ),
    "alt.stairs": (
        "Stairs: usable hit against prompt length at block size {size}; {n} lookups as dots.",
        "阶梯：块大小 {size} 时提示长度与可复用命中；{n} 次查找为圆点。",
    ),
}
