"""The numbers that define a Llama-family model."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.errors import ModelError
from kernels.layout import MAX_HEAD_DIM


@dataclass(frozen=True, slots=True)
class LlamaSpec:
    """Shape of a Llama-family decoder, named as in Hugging Face's `LlamaConfig` where that has a name.

    Raises ModelError "model.spec" naming the first field that cannot be right.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_positions: int
    rope_theta: float
    rms_eps: float
    tied_embeddings: bool

    def __post_init__(self) -> None:
        for field in (
            "num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "intermediate_size", "vocab_size",
            "max_positions",
        ):  # fmt: skip
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ModelError("model.spec", field=field, value=value, need="int >= 1")
        if self.num_heads % self.num_kv_heads:
            need = f"num_heads % num_kv_heads = 0, num_heads = {self.num_heads}"
            raise ModelError("model.spec", field="num_kv_heads", value=self.num_kv_heads, need=need)
        if self.head_dim % 2 or self.head_dim > MAX_HEAD_DIM:
            need = f"head_dim % 2 = 0, <= {MAX_HEAD_DIM}"
            raise ModelError("model.spec", field="head_dim", value=self.head_dim, need=need)
        for field in ("rope_theta", "rms_eps"):
            value = getattr(self, field)
            if not isinstance(value, (int, float)) or not 0.0 < value < float("inf"):
                raise ModelError("model.spec", field=field, value=value, need="> 0")

    @property
    def scale(self) -> float:
        """Softmax scale of attention, 1 / sqrt(head_dim)."""
        return float(self.head_dim**-0.5)

    @property
    def kv_floats_per_token(self) -> int:
        """K and V values one token leaves in the cache, over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name → shape of each weight as kvscope stores it: q, k, v fused into one matrix, gate and up into another."""
        query, kv = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        hidden, inner = self.hidden_size, self.intermediate_size
        shapes: dict[str, tuple[int, ...]] = {"embed": (self.vocab_size, hidden), "norm": (hidden,)}
        if not self.tied_embeddings:
            shapes["lm_head"] = (self.vocab_size, hidden)
        for layer in range(self.num_layers):
            shapes[f"layers.{layer}.attention_norm"] = (hidden,)
            shapes[f"layers.{layer}.qkv"] = (query + 2 * kv, hidden)
            shapes[f"layers.{layer}.attention_out"] = (hidden, query)
            shapes[f"layers.{layer}.mlp_norm"] = (hidden,)
            shapes[f"layers.{layer}.gate_up"] = (2 * inner, hidden)
            shapes[f"layers.{layer}.down"] = (hidden, inner)
        return shapes


def default_head_dim(hidden_size: object, num_heads: object) -> int:
    """Head size of a file that does not state one; 0 when its numbers are not even numbers, for LlamaSpec to refuse."""
    if isinstance(hidden_size, int) and isinstance(num_heads, int) and num_heads > 0:
        return hidden_size // num_heads
    return 0
