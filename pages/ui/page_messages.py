"""Words of the pages around the stage: menu, models, traces. The stage's own are in `messages.py`."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "page.step": ("Step", "单步"),
    "page.traces": ("Your trace", "你的轨迹"),
    "page.language": ("Language", "语言"),
    "page.scenario": ("Scenario", "场景"),
    "page.your_trace": ("Trace: {name}", "轨迹：{name}"),
    "page.no_scenario": (
        "There is no scenario called {name}; here is the first one instead.",
        "没有名为 {name} 的场景；改为显示第一个场景。",
    ),
    "page.scripted": (
        "Scripted tokens: the output of {requests} is given by the scenario; the model runs, but does not choose.",
        "脚本化令牌：{requests} 的输出由场景给定；模型照常运行，但不参与选择。",
    ),
    "page.step_failed": (
        "Step {step} failed ({reason}). The steps before it are kept; reload the page to start again.",
        "第 {step} 步失败（{reason}）。之前的步骤均已保留；刷新页面可重新开始。",
    ),
    "edit.over": (
        "Request {id} is over already; there is nothing left to abort.",
        "请求 {id} 已经结束，无法再中止。",
    ),
    "page.unexpected": (
        "Something went wrong here ({reason}); reload the page to go on. The server's log has the details.",
        "这里出了问题（{reason}）；请刷新页面继续。详情见服务器日志。",
    ),
    "page.model": ("Model", "模型"),
    "page.model_label": ("Model: {name}", "模型：{name}"),
    "page.model_smollm2": ("SmolLM2-135M", "SmolLM2-135M"),
    "page.model_toy": ("Toy (random weights)", "玩具模型（随机权重）"),
    "page.model_path": (
        "Or a GGUF file or Llama-family folder on this machine",
        "或本机上的 GGUF 文件 / Llama 系列模型文件夹",
    ),
    "page.loading_model": ("Loading {name}. {doing}", "正在加载 {name}。{doing}"),
    "page.toy_banner": (
        "Running on the toy model, whose text means nothing: {reason}",
        "正在使用玩具模型，其文本没有意义：{reason}",
    ),
    "page.toy_reason": (
        "the SmolLM2 weights are not on this machine.",
        "本机没有 SmolLM2 权重。",
    ),
    "page.fetch": ("Fetch the real model (93 MB)", "下载真实模型（93 MB）"),
    "trace.page_title": ("Step through a trace of your own", "单步查看你自己的请求轨迹"),
    "trace.page_intro": (
        "A CSV or JSONL file with arrival times and token counts: Azure LLM 2023–2025, Mooncake, Bailian, BurstGPT, "
        "Vidur, or one prompt a line. The file stays in this server's memory and is forgotten with your visit.",
        "包含到达时间与令牌数的 CSV 或 JSONL 文件：Azure LLM 2023–2025、Mooncake、Bailian、BurstGPT、Vidur，"
        "或每行一个提示。文件只保存在服务器内存中，访问结束即丢弃。",
    ),
    "trace.upload": (
        "Trace file (CSV, JSON or JSONL, plain or gzip)",
        "轨迹文件（CSV、JSON 或 JSONL，可用 gzip 压缩）",
    ),
    "trace.format": ("Format", "格式"),
    "trace.format_any": ("Detect from the columns", "根据列自动识别"),
    "trace.format_azure": ("Azure LLM", "Azure LLM"),
    "trace.format_mooncake": ("Mooncake", "Mooncake"),
    "trace.format_bailian": ("Bailian", "Bailian"),
    "trace.format_burstgpt": ("BurstGPT", "BurstGPT"),
    "trace.format_vidur": ("Vidur", "Vidur"),
    "trace.format_vllm-custom": ("One prompt a line", "每行一个提示"),
    "trace.m_format": ("Format", "格式"),
    "trace.m_requests": ("Requests", "请求数"),
    "trace.m_span": ("Time span", "时间跨度"),
    "trace.m_prompt": ("Prompt tokens", "提示令牌数"),
    "trace.m_output": ("Output tokens", "输出令牌数"),
    "trace.m_hits": ("Hit rate, unlimited cache", "命中率（无限缓存）"),
    "trace.no_data": ("no data", "无数据"),
    "trace.skipped": ("{n} rows are no requests and were left out:", "{n} 行不是请求，已略过："),
    "trace.skipped_line": ("line {line}: {reason}", "第 {line} 行：{reason}"),
    "trace.c_row": ("line", "行"),
    "trace.c_arrival": ("arrival (s)", "到达（秒）"),
    "trace.c_prompt": ("prompt tokens", "提示令牌"),
    "trace.c_output": ("output tokens", "输出令牌"),
    "trace.first": ("Requests to take", "取前几个请求"),
    "trace.scale": ("Lengths times", "长度倍率"),
    "trace.seconds": ("Seconds of the trace per step", "每步对应轨迹的秒数"),
    "trace.seconds_help": (
        "Modelled: arrivals are placed on steps of this length; measured step times do not move them.",
        "建模值：到达时间按此步长归入各步，不随实测步时移动。",
    ),
    "trace.step": ("Step these {n} requests", "单步运行这 {n} 个请求"),
}
