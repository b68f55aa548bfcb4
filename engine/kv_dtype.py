"""What the KV cache keeps its numbers in: from the setting's name to a layout, and how far rounding may reach."""

from __future__ import annotations

import torch

from engine.config import EngineConfig
from engine.model.spec import LlamaSpec
from kernels.layout import CacheLayout, Scales

# Small formats have a scale for each token's head, as vLLM 0.33's `int8_per_token_head` and `fp8_per_token_head` do: a
# token's row is rounded once, alone, and never again, whoever shares its block.
_FORMATS: dict[str, tuple[torch.dtype, Scales]] = {
    "fp32": (torch.float32, Scales.NONE),
    "fp16": (torch.float16, Scales.NONE),
    "bf16": (torch.bfloat16, Scales.NONE),
    "fp8_e4m3": (torch.float8_e4m3fn, Scales.TOKEN_HEAD),
    "int8": (torch.int8, Scales.TOKEN_HEAD),
}
KV_DTYPES = tuple(_FORMATS)

# Distance of two neighbouring numbers of a format at its upper end, over the largest number of the row.
_SPACING = {
    torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float8_e4m3fn: 2.0**-3,
    torch.int8: 1.0 / 127,
}  # fmt: skip


def cache_layout(spec: LlamaSpec, config: EngineConfig, model_dtype: torch.dtype) -> CacheLayout:
    """The layout of `config.kv_dtype`; "auto" is the model's own dtype, as in vLLM."""
    return layout_of(config.kv_dtype, spec, config.num_blocks, config.block_size, model_dtype)


def layout_of(
    kv_dtype: str, spec: LlamaSpec, num_blocks: int, block_size: int, model_dtype: torch.dtype = torch.float32
) -> CacheLayout:
    """A layout for all layers of a model, by the setting's name."""
    dtype, scales = (model_dtype, Scales.NONE) if kv_dtype == "auto" else _FORMATS[kv_dtype]
    return CacheLayout(spec.num_layers, num_blocks, block_size, spec.num_kv_heads, spec.head_dim, dtype, scales)


def bytes_per_token(layout: CacheLayout) -> int:
    """K and V of one position over all layers, scales included."""
    return layout.bytes_per_block // layout.block_size


def rounding_reach(dtype: torch.dtype, largest: float) -> float:
    """How far one number moves that was rounded to the other neighbour: the spacing at `largest`."""
    return _SPACING[dtype] * largest
