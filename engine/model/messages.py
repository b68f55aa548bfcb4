"""The model's part of the message catalogue: key → (English, 简体中文)."""

from __future__ import annotations

MESSAGES: dict[str, tuple[str, str]] = {
    "model.spec": (
        "The model's {field} is {value}, but it must be {need}.",
        "模型的 {field} 为 {value}，但必须满足：{need}。",
    ),
    "model.missing_tensor": (
        "{file} has no tensor {tensor}; use a complete Llama-family model.",
        "{file} 中没有张量 {tensor}；请使用完整的 Llama 系列模型。",
    ),
    "model.tensor_shape": (
        "Tensor {tensor} of {file} has shape {shape}, but the model's settings call for {need}.",
        "{file} 的张量 {tensor} 形状为 {shape}，但按模型设置应为 {need}。",
    ),
    "model.bad_tokenizer": (
        "The tokenizer cannot be read ({reason}); give the model's own tokenizer.json.",
        "无法读取分词器（{reason}）；请使用模型自带的 tokenizer.json。",
    ),
    "model.no_chat_template": (
        "This model has no chat template; write the prompt as plain text.",
        "该模型没有对话模板；请将提示写成纯文本。",
    ),
    "model.chat_template": (
        "The model's chat template refused these messages: {reason}.",
        "模型的对话模板拒绝了这些消息：{reason}。",
    ),
    "model.not_found": (
        "There is no model at {path}; give a .gguf file or a folder with config.json, *.safetensors and "
        "tokenizer.json.",
        "{path} 处没有模型；请给出 .gguf 文件，或包含 config.json、*.safetensors 与 tokenizer.json 的文件夹。",
    ),
    "model.smollm2_missing": (
        "The SmolLM2 weights are not on this machine; fetch them (93 MB), or run `{command}`, or use the toy model.",
        "本机没有 SmolLM2 权重；请下载（93 MB），或运行 `{command}`，或使用玩具模型。",
    ),
    "model.unreadable": (
        "{file} cannot be read as {kind} ({reason}); check that the file is complete.",
        "无法将 {file} 作为 {kind} 读取（{reason}）；请检查文件是否完整。",
    ),
    "model.field": (
        "{file} says {field} = {value}, but kvscope supports only {need}; choose a plain Llama-family model.",
        "{file} 中 {field} = {value}，但 kvscope 只支持 {need}；请选择普通的 Llama 系列模型。",
    ),
    "model.missing_field": (
        "{file} does not say {field}; use the model's original file.",
        "{file} 中缺少 {field}；请使用模型的原始文件。",
    ),
    "model.missing_file": (
        "There is no {file} in {folder}; copy it from the model's download page.",
        "{folder} 中没有 {file}；请从模型的下载页面复制该文件。",
    ),
    "model.extra_tensor": (
        "{file} has tensor {tensor}, which a plain Llama model does not have; choose another model.",
        "{file} 含有张量 {tensor}，普通 Llama 模型没有该张量；请选择其他模型。",
    ),
    "model.digest": (
        "{file} is damaged: its SHA-256 is {got} instead of {need}; download it again.",
        "{file} 已损坏：其 SHA-256 为 {got}，应为 {need}；请重新下载。",
    ),
    "model.cache_write": (
        "The converted model cannot be stored in {folder} ({reason}); free some space (it needs {megabytes} MB) or "
        "point KVSCOPE_HOME at another folder.",
        "无法将转换后的模型存入 {folder}（{reason}）；请释放空间（需要 {megabytes} MB），"
        "或将 KVSCOPE_HOME 指向其他文件夹。",
    ),
    "model.fetch_failed": (
        "The SmolLM2 weights could not be fetched ({reason}); check the network, or use the toy model.",
        "无法下载 SmolLM2 权重（{reason}）；请检查网络，或使用玩具模型。",
    ),
    "model.vocab": (
        "The tokenizer of {file} has {tokens} tokens but the model knows only {vocab}; use files that belong together.",
        "{file} 的分词器有 {tokens} 个令牌，但模型只认识 {vocab} 个；请使用配套的文件。",
    ),
    "model.device": (
        "KVSCOPE_DEVICE is {device}, which torch cannot use on this machine; set it to cpu, or to cuda where there is "
        "a CUDA GPU.",
        "KVSCOPE_DEVICE 为 {device}，本机的 torch 无法使用；请设为 cpu，或在有 CUDA GPU 的机器上设为 cuda。",
    ),
    "model.weights": (
        "The weights are asked for as {value}, but the formats are {choices}; name one of them.",
        "要求的权重格式为 {value}，但可选格式为 {choices}；请选择其中之一。",
    ),
    "model.weights_device": (
        "Weights as {value} are for the CPU; take fp32 on a GPU, or set KVSCOPE_DEVICE to cpu.",
        "{value} 格式的权重仅用于 CPU；在 GPU 上请使用 fp32，或将 KVSCOPE_DEVICE 设为 cpu。",
    ),
    "model.progress.read": ("Reading the model file", "正在读取模型文件"),
    "model.progress.convert": ("Converting the weights (once)", "正在转换权重（仅一次）"),
    "model.progress.write": ("Storing the converted weights", "正在保存转换后的权重"),
    "model.progress.download": ("Downloading SmolLM2 (93 MB)", "正在下载 SmolLM2（93 MB）"),
}
