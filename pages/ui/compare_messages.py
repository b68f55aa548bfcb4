"""Words of the compare page."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "page.compare": ("Compare", "对比"),
    "compare.recorded": (
        "Decisions only, with the recorded tokens of SmolLM2-135M: no model runs here.",
        "只重放决策，使用 SmolLM2-135M 录制的令牌：此页不运行模型。",
    ),
    "compare.pairs": ("Telling pairs", "典型对比"),
    "compare.pair_batching": ("static | continuous", "静态 | 连续"),
    "compare.pair_room": ("recompute | swap", "重算 | 换出"),
    "compare.pair_blocks": ("block size 4 | 16", "块大小 4 | 16"),
    "compare.pair_chunks": ("chunking on | off", "分块 开 | 关"),
    "compare.pair_layout": ("contiguous | paged", "连续内存 | 分页"),
    "compare.pair_fairness": ("longest prefix | with ageing", "最长前缀 | 加老化"),
    "compare.pair_priority": ("fcfs | priority", "先来先服务 | 优先级"),
    "compare.first": ("First step", "第一步"),
    "compare.back": ("Back", "后退"),
    "compare.step": ("Step", "单步"),
    "compare.parting": ("Where they part", "分歧处"),
    "compare.cursor": ("Step shown", "显示的步"),
    "compare.over": ("over since step {step}", "已于第 {step} 步结束"),
    "compare.as_written": ("as the scenario has it", "与场景一致"),
    "compare.now": ("At step {step}:", "第 {step} 步："),
    "compare.no_difference": ("no request and no block differs.", "请求与块均无差异。"),
    "compare.requests_differ": (
        "requests {requests} are not equally far;",
        "请求 {requests} 的进度不同；",
    ),
    "compare.blocks_differ.one": ("{n} block differs (ringed).", "{n} 个块不同（带圈）。"),
    "compare.blocks_differ.many": ("{n} blocks differ (ringed).", "{n} 个块不同（带圈）。"),
    "compare.other_pool": (
        "the pools have other shapes, so that block ids are not compared.",
        "两边块池形状不同，块号无法比较。",
    ),
    "compare.progress": (
        "{id}: {status}, {computed}/{known} computed",
        "{id}：{status}，已算 {computed}/{known}",
    ),
    "compare.pool_alt": ("Pool: {owned} of {usable} blocks owned.", "块池：{usable} 个块中占用 {owned} 个。"),
    "compare.metrics": ("What each costs and gives", "代价与收益"),
    "compare.metric": ("metric", "指标"),
    "compare.difference": ("{b} − {a}", "{b} − {a}"),
    "compare.source": ("source", "来源"),
    "compare.counted": ("counted in the run", "由运行计数"),
    "compare.mean": ("mean", "均值"),
    "compare.max": ("max", "最大"),
    "compare.gpu": ("Modelled on", "建模对象"),
    "compare.no_scenario": (
        "There is no recorded scenario called {name}; here is {shown} instead.",
        "没有名为 {name} 的录制场景；改为显示 {shown}。",
    ),
}
