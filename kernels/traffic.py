"""What an attention launch moves and computes, counted from its programs: bytes, the compulsory minimum, FLOPs."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.layout import KVLayer
from kernels.masks import visible_positions
from kernels.metadata import AttentionMetadata
from kernels.recorder import LaunchPlan, blocks_of

_TABLE_ENTRY = 4  # bytes of an int32


@dataclass(frozen=True, slots=True)
class Traffic:
    """`kv_bytes`: K, V and scales as the programs load them, each for itself; `least_kv_bytes`: every position that
    some program reads, once for each KV head. `other_bytes`: queries, output and block table. `flops`: a multiply and
    an add for q · k and for p · v of every pair that the mask lets see each other.
    """

    kv_bytes: int
    least_kv_bytes: int
    other_bytes: int
    flops: int

    @property
    def bytes(self) -> int:
        return self.kv_bytes + self.other_bytes

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved."""
        return self.flops / self.bytes if self.bytes else 0.0


def traffic(planned: LaunchPlan, layer: KVLayer, meta: AttentionMetadata, num_heads: int, query_bytes: int) -> Traffic:
    """Of the launch planned so. `query_bytes` is the size of one number of a query."""
    layout = layer.layout
    scale_bytes = 0 if layer.key_scale is None else 4
    position_bytes = 2 * (layout.head_dim * layout.dtype.itemsize + scale_bytes)
    group = num_heads // layout.num_kv_heads
    loaded = flops = other = 0
    reach: dict[tuple[int, int], tuple[int, int]] = {}
    for program in planned.programs:
        if program.start >= program.stop:
            continue
        loaded += (program.stop - program.start) * position_bytes
        low, high = reach.get((program.row, program.kv_head), (program.start, program.stop))
        reach[program.row, program.kv_head] = min(low, program.start), max(high, program.stop)
        tokens = slice(program.first_token, program.end_token)
        seen, _ = visible_positions(meta, program.row, tokens, slice(program.start, program.stop))
        flops += 4 * layout.head_dim * group * int(seen.sum())
        other += 2 * (program.end_token - program.first_token) * group * layout.head_dim * query_bytes
        other += sum(1 for _ in blocks_of(program, planned.block_size)) * _TABLE_ENTRY
    touched = sum(high - low for low, high in reach.values()) * position_bytes
    return Traffic(loaded, touched, other, flops)
