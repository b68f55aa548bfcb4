"""Words of the pages around the stage: menu, models, traces. The stage's own are in `messages.py`."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "page.step": ("Step", "单步"),
    "page.library": ("Library", "场景库"),
    "page.help": ("Help", "帮助"),
    "page.traces": ("Your trace", "你的轨迹"),
    "page.language": ("Language", "语言"),
    "page.projector": ("Projector", "投影"),
    "page.projector_help": ("Larger type and fewer panels, for the back row", "更大的字号、更少的面板，适合后排观看"),
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
    "session.too_big": (
        "{file} is larger than {limit} KB, so it is no session saved by kvscope.",
        "{file} 大于 {limit} KB，不是 kvscope 保存的会话。",
    ),
    "session.not_text": (
        "{file} is not UTF-8 text; choose a file saved by kvscope (.kvscope.json).",
        "{file} 不是 UTF-8 文本；请选择 kvscope 保存的文件（.kvscope.json）。",
    ),
    "session.not_json": (
        "{file} is not JSON (line {line}); choose a file saved by kvscope (.kvscope.json).",
        "{file} 不是 JSON（第 {line} 行）；请选择 kvscope 保存的文件（.kvscope.json）。",
    ),
    "session.other_file": (
        "{file} is JSON, but no kvscope session: it has no field kvscope. Choose a file saved by kvscope.",
        "{file} 是 JSON，但不是 kvscope 会话：缺少 kvscope 字段。请选择 kvscope 保存的文件。",
    ),
    "session.version": (
        "{file} has format {version}, but this kvscope reads format {known}; open it with the version that saved it.",
        "{file} 的格式为 {version}，而此 kvscope 只读格式 {known}；请用保存它的版本打开。",
    ),
    "session.missing_field": (
        "{file} lacks the field {field}; save the session again and open that file.",
        "{file} 缺少字段 {field}；请重新保存会话并打开该文件。",
    ),
    "session.unknown_field": (
        "{file} has a field {field} that kvscope does not know; remove it.",
        "{file} 含有 kvscope 不认识的字段 {field}；请将其删除。",
    ),
    "session.bad_field": (
        "{file} has a wrong value in {field}: {reason}.",
        "{file} 的 {field} 取值有误：{reason}。",
    ),
    "session.model": (
        "This session was saved on the model {model}, but {loaded} is running; choose {model} and open it again.",
        "此会话保存时使用模型 {model}，当前运行的是 {loaded}；请选择 {model} 后再打开。",
    ),
    "session.trace": (
        "This session steps your trace {name}; upload it under Your trace with {first} requests, lengths 1/{scale} and "
        "{step_seconds} s a step, then open the session again.",
        "此会话使用你的轨迹 {name}；请在“你的轨迹”中上传它，取 {first} 个请求、长度 1/{scale}、每步 {step_seconds} 秒，"
        "然后再次打开会话。",
    ),
    "session.scenario": (
        "This session steps the scenario {scenario}, which this kvscope does not have; it has: {known}.",
        "此会话使用场景 {scenario}，而此 kvscope 没有该场景；现有：{known}。",
    ),
    "session.changed": (
        "{name} has changed since this session was saved, so its steps would be others; start it again.",
        "自保存此会话以来 {name} 已改变，其步骤会不同；请重新开始。",
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
    "library.title": ("Library", "场景库"),
    "library.intro": (
        "{n} short stories, in the order in which a class would meet them. Each picture is a step of the real run, and "
        "every number in a caption is checked against the engine.",
        "{n} 个小故事，按课堂顺序排列。每张图都是真实运行中的一步，解说里的每个数字都与引擎核对过。",
    ),
    "library.answers": ("Answers question", "回答问题"),
    "library.exercises": ("What happens if …? ({n})", "如果……会怎样？（{n}）"),
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
