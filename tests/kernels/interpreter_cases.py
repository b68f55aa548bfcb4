"""Run the Triton sources in Triton's interpreter and write what came out as JSON to stdout.

One process has one mode, read from TRITON_INTERPRET at import; `test_triton.py` starts this one with it set.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import cache_ops, paged_attention, recorder, reference
from kernels.layout import LARGEST, CacheLayout, KVPool, Order, Scales
from kernels.metadata import AttentionMetadata
from kernels.tiling import Tiling
from tests.kernels.batches import TOLERANCE, Batch, every_mask, make_batch, mixed_rows
from tests.kernels.records import apart, launches

QUANTISED = [(dtype, scales) for dtype in LARGEST for scales in (Scales.TOKEN_HEAD, Scales.BLOCK)]


def run(batch: Batch, lse: torch.Tensor | None = None, tiling: Tiling | None = None) -> torch.Tensor:
    cache_ops.write_kv(batch.new_key, batch.new_value, batch.layer, batch.meta.slot_mapping)
    return paged_attention.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, lse, tiling)


def difference(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference; NaN if anything is."""
    return float((got.double() - expected.double()).abs().max())


def shapes() -> dict[str, float]:
    """O16: every shape, block size and length, in mixed batches."""
    result = {}
    for shape, block_size, dtype in (
        ((9, 3, 64), 4, torch.float32), ((9, 3, 64), 16, torch.float32), ((9, 3, 64), 16, torch.float16),
        ((6, 2, 80), 2, torch.float32), ((6, 2, 80), 32, torch.float16), ((4, 4, 32), 1, torch.float32),
        ((5, 1, 96), 4, torch.float32), ((5, 1, 96), 16, torch.float16), ((17, 1, 16), 4, torch.float32),
        ((2, 1, 8), 4, torch.float32), ((2, 1, 8), 3, torch.float32), ((2, 1, 8), 48, torch.float32),
        ((2, 1, 8), 128, torch.float32), ((9, 3, 64), 4, torch.bfloat16), ((2, 1, 256), 4, torch.float32),
    ):  # fmt: skip
        batch = make_batch(mixed_rows(block_size), shape, block_size, dtype=dtype)
        result[f"{shape} block {block_size} {dtype}"] = difference(run(batch), batch.expected())
    return result


def poison() -> dict[str, bool]:
    """O15: bs 4, context 6 in 2 blocks with the rest spoiled, then 8; and a mixed batch."""
    result = {}
    for rows in ([(5, 1)], [(7, 1)], [(5, 1), (0, 6), (30, 9)]):
        clean = run(make_batch(rows, (9, 3, 64), 4, poison=0.0))
        for value in (float("nan"), float("inf")):
            result[f"{rows} {value}"] = torch.equal(run(make_batch(rows, (9, 3, 64), 4, poison=value)), clean)
    return result


def alone_equals_batched() -> bool:
    """A request's rows do not depend, to the bit, on who else is in the batch: tiles are fixed and never shared.

    (A chunk against single decodes differs in last bits here: the row moves within the tile, and numpy's matmul, which
    the interpreter uses, rounds by row position.)
    """
    rows = [(7, 5), (40, 1), (0, 13)]
    batch = make_batch(rows, (9, 3, 64), 4)
    together = run(batch)
    starts = batch.meta.query_start_loc.tolist()
    for index, (context, length) in enumerate(rows):
        mine = slice(starts[index], starts[index + 1])
        meta = _row_of(batch.meta, index, mine, context, length)
        alone = paged_attention.paged_attention(batch.query[mine], batch.layer, meta, batch.rule)
        if not torch.equal(alone, together[mine]):
            return False
    return True


def split_decode_alone_equals_batched() -> bool:
    """The same for split decode: where the cuts are depends on the position alone."""
    tiling = Tiling(tile=16, split=32)
    batch = make_batch([(100, 1), (3, 1), (31, 1)], (9, 3, 64), 4)
    together = run(batch, tiling=tiling)
    alone = [
        paged_attention.paged_attention(
            batch.query[row : row + 1], batch.layer, _row_of(batch.meta, row, slice(row, row + 1), context, 1),
            batch.rule, chosen=tiling,
        )
        for row, (context, _) in enumerate(batch.rows)
    ]  # fmt: skip
    return torch.equal(torch.cat(alone), together)


def _row_of(meta: AttentionMetadata, row: int, tokens: slice, context: int, length: int) -> AttentionMetadata:
    return replace(
        meta,
        query_start_loc=torch.tensor([0, length], dtype=torch.int32),
        seq_lens=torch.tensor([context + length], dtype=torch.int32),
        block_table=meta.block_table[row : row + 1],
        slot_mapping=meta.slot_mapping[tokens],
        semantics=meta.semantics[row : row + 1],
        max_query_len=length,
        max_seq_len=context + length,
    )


def splits() -> dict[str, float]:
    """Split decode against dense attention, output and log-sum-exp; a row that is shorter than one split included."""
    result = {}
    masks = every_mask([(70, 1), (3, 1), (40, 1), (31, 1)])
    for name, chosen in (("causal", None), ("masks", [replace(m) for m in masks])):
        batch = make_batch([(70, 1), (3, 1), (40, 1), (31, 1)], (6, 2, 80), 4, masks=chosen)
        lse = torch.empty(batch.query.shape[:2])
        output = run(batch, lse, Tiling(tile=16, split=32))
        result[name] = difference(output, batch.expected())
        result[f"{name} lse"] = difference(lse, batch.expected_lse())
    return result


def quantised() -> dict[str, dict[str, float]]:
    """Against the twin on the same cache, against dense attention on what the cache holds, and on what was sent."""
    result = {}
    for dtype, scales in [*QUANTISED, (torch.float8_e4m3fn, Scales.NONE)]:
        options = {"dtype": torch.float32, "kv_dtype": dtype, "scales": scales}
        batch, twin = (make_batch([(13, 5), (30, 1), (0, 9)], (9, 3, 64), 4, **options) for _ in range(2))
        output = run(batch)
        reference.write_kv(twin.new_key, twin.new_value, twin.layer, twin.meta.slot_mapping)
        result[f"{dtype} {scales}"] = {
            "same cache": float(_same_slots(batch, twin)),
            "twin": difference(
                output, reference.paged_attention(twin.query, twin.layer, twin.meta, twin.rule)
            ),
            "stored": difference(output, batch.stored().expected()),
            "sent": difference(output, batch.expected()),
        }  # fmt: skip
    return result


def _same_slots(one: Batch, other: Batch) -> bool:
    tensors = zip(
        (one.layer.key, one.layer.value, one.layer.key_scale, one.layer.value_scale),
        (other.layer.key, other.layer.value, other.layer.key_scale, other.layer.value_scale), strict=True,
    )  # fmt: skip
    return all(
        torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
        for a, b in tensors
        if a is not None and b is not None
    )


def number_formats() -> dict[str, bool]:
    """Every fp8 code and many numbers around the ties, written and read by the kernels, equal torch's own rounding."""
    numbers = torch.cat([
        torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().nan_to_num(0.0),
        torch.linspace(-500.0, 500.0, 1023), torch.linspace(-0.03, 0.03, 2047), 2.0 ** torch.arange(-14, 9),
    ])  # fmt: skip
    numbers = torch.nn.functional.pad(numbers, (0, -len(numbers) % 128)).reshape(-1, 2, 64)
    result = {}
    for dtype in (torch.float8_e4m3fn, torch.float16):
        pools = [CacheLayout(1, 8, 4, 2, 64, dtype).allocate() for _ in range(2)]
        slots = torch.arange(len(numbers))
        cache_ops.write_kv(numbers, numbers, pools[0].layer(0), slots)
        reference.write_kv(numbers, numbers, pools[1].layer(0), slots)
        ours, theirs = (reference.read_kv(pool.layer(0), slots)[0] for pool in pools)
        read = cache_ops.read_kv(pools[0].layer(0), slots)[0]
        result[str(dtype)] = torch.equal(ours, theirs) and torch.equal(read, ours)
    return result


def writes() -> dict[str, bool]:
    result = {}
    kinds = [(torch.float32, Scales.NONE), (torch.bfloat16, Scales.NONE), *QUANTISED]
    for (dtype, scales), order, (heads, head_dim) in zip(
        kinds, [*Order, *Order], [(3, 64), (2, 80), (1, 5), (3, 64), (2, 80), (1, 5)], strict=False
    ):
        layout = CacheLayout(2, 4, 4, heads, head_dim, dtype, scales, order)
        pools = [layout.allocate() for _ in range(2)]
        for tensor in (tensor for pool in pools for tensor in pool.tensors):
            tensor.copy_(torch.zeros(tensor.shape))
        # Block by block, growing: a later token is larger than all before it, so the block's scale must grow.
        for slots, size in (([7, -1, 0, 13], 1.0), ([4, 5, 1, 2], 0.5), ([6, -3, 3, 12], 4.0)):
            fused = torch.randn(4, heads + 2, head_dim) * size  # as cut from a fused projection: rows are strided
            key, value = fused[:, 2:], torch.randn(4, heads, head_dim) * size
            if dtype == torch.bfloat16:  # the interpreter cuts float32 off where a GPU rounds
                key, value = key.to(dtype), value.to(dtype)
            for pool, write in zip(pools, (cache_ops.write_kv, reference.write_kv), strict=True):
                write(key, value, pool.layer(1), torch.tensor(slots))
        read = cache_ops.read_kv(pools[0].layer(1), torch.tensor([3, -1, 13]))
        twin = reference.read_kv(pools[1].layer(1), torch.tensor([3, -1, 13]))
        same = _same(pools[0], pools[1]) and all(torch.equal(a, b) for a, b in zip(read, twin, strict=True))
        result[f"{dtype} {scales} {order} {heads} x {head_dim}"] = same and bool(read[0][0].any())
    return result


def _same(one: KVPool, other: KVPool) -> bool:
    return all(
        torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
        for a, b in zip(one.tensors, other.tensors, strict=True)
    )


def copies() -> dict[str, bool]:
    result = {}
    for layout in (
        CacheLayout(3, 8, 4, 3, 64), CacheLayout(1, 8, 16, 2, 80, order=Order.LBHS),
        CacheLayout(2, 8, 1, 1, 5, torch.int8, Scales.BLOCK, Order.BLSH),
    ):  # fmt: skip
        pool, twin = layout.allocate(), layout.allocate()
        for a, b in zip(pool.tensors, twin.tensors, strict=True):
            a.copy_(torch.randn(a.shape) * 9)
            b.copy_(a)
        before = [tensor.clone() for tensor in pool.tensors]
        pairs = torch.tensor([[7, 0], [2, 5], [2, 1]])
        cache_ops.copy_blocks(pool, pairs)
        reference.copy_blocks(twin, pairs)
        right = all(
            torch.equal(new[:, [0, 5, 1]], old[:, [7, 2, 2]]) for new, old in zip(pool.tensors, before, strict=True)
        )
        result[str(layout.shape)] = _same(pool, twin) and right
    return result


def no_context() -> bool:
    fine = True
    for seq_len, empty in ((0, 2), (1, 1)):
        batch = make_batch([(0, 2), (3, 1)], (4, 2, 8), 4)
        batch.meta.seq_lens[0] = seq_len
        lse = torch.empty(3, 4)
        output = run(batch, lse)
        fine &= torch.equal(output[:empty], torch.zeros(empty, 4, 8)) and bool(torch.isfinite(output).all())
        fine &= bool((lse[:empty] == float("-inf")).all()) and bool(torch.isfinite(lse[empty:]).all())
        fine &= bool(output[empty:].abs().sum(dim=(1, 2)).all())
    return fine


def padded_decode() -> dict[str, bool]:
    """A decode step in a larger bucket, as a CUDA graph has it: the same to the bit, its padding zeros and unwritten.

    Padding rows have length 0 and slot -1; the table is wider, and the launch has splits for a longer context.
    """
    result = {}
    for name, rows in (("one split", [(3, 1), (30, 1), (31, 1)]), ("several", [(32, 1), (100, 1), (7, 1), (63, 1)])):
        for context in (128, 256):
            plain, padded = make_batch(rows, (9, 3, 64), 4), make_batch(rows, (9, 3, 64), 4)
            size, count, meta = 8, len(rows), padded.meta
            table = torch.full((size, context // 4), 2**30, dtype=torch.int32)
            table[:count, : meta.block_table.shape[1]] = meta.block_table
            padded.meta = replace(
                meta, block_table=table, max_seq_len=context, semantics=meta.semantics[:1] * size,
                query_start_loc=torch.arange(size + 1, dtype=torch.int32), seq_lens=_pad(meta.seq_lens, size, 0),
                slot_mapping=_pad(meta.slot_mapping, size, -1),
            )  # fmt: skip
            padded.query, padded.new_key, padded.new_value = (
                _pad(tensor, size, 1) for tensor in (plain.query, plain.new_key, plain.new_value)
            )
            want, got = (run(batch, tiling=Tiling(tile=16, split=32)) for batch in (plain, padded))
            same = torch.equal(got[:count], want) and torch.equal(got[count:], torch.zeros_like(got[count:]))
            pools = zip((plain.layer.key, plain.layer.value), (padded.layer.key, padded.layer.value), strict=True)
            written = all(torch.equal(mine.nan_to_num(7.0), theirs.nan_to_num(7.0)) for mine, theirs in pools)
            result[f"{name}, room for {context}"] = same and written
    return result


def _pad(tensor: torch.Tensor, size: int, value: int) -> torch.Tensor:
    return torch.cat([tensor, tensor.new_full((size - len(tensor), *tensor.shape[1:]), value)])


def far_away() -> bool:
    """A block 3 * 2^30 elements into the pool: offsets that do not fit 32 bits. Memory nobody touches costs nothing."""
    layout = CacheLayout(1, 3 * 2**30 // 1024, 16, 1, 64, torch.float8_e4m3fn)
    layer = layout.allocate().layer(0)
    near = make_batch([(20, 1)], (2, 1, 64), 16, kv_dtype=torch.float8_e4m3fn)
    last = layout.num_blocks - 1
    table = torch.tensor([[last, last - 2]], dtype=torch.int32)
    positions = torch.arange(21)
    slots = table[0].long()[positions // 16] * 16 + positions % 16
    cache_ops.write_kv(near.keys[0], near.values[0], layer, slots)
    meta = replace(near.meta, block_table=table, slot_mapping=slots[-1:])
    output = paged_attention.paged_attention(near.query, layer, meta, near.rule)
    return torch.equal(output, run(near))


@settings(max_examples=20, deadline=None, database=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 1, 2, 7])), min_size=1, max_size=4),
    block_size=st.sampled_from([1, 3, 4, 16, 128]),
    heads=st.sampled_from([(3, 1, 24), (4, 2, 8), (9, 3, 16)]),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    cache=st.sampled_from([(None, Scales.NONE), *QUANTISED]),
    order=st.sampled_from(list(Order)),
    masked=st.booleans(),
    soft_cap=st.sampled_from([None, 1.5]),
    alibi=st.booleans(),
    tile=st.sampled_from([16, 32, 64]),
    seed=st.integers(0, 1000),
)
def any_launch_equals_the_twin(
    rows: list[tuple[int, int]],
    block_size: int,
    heads: tuple[int, int, int],
    dtype: torch.dtype,
    cache: tuple[torch.dtype | None, Scales],
    order: Order,
    masked: bool,
    soft_cap: float | None,
    alibi: bool,
    tile: int,
    seed: int,
) -> None:
    batch = make_batch(
        rows, heads, block_size, dtype=dtype, kv_dtype=cache[0], scales=cache[1], order=order,
        masks=every_mask(rows) if masked else None, soft_cap=soft_cap, alibi=alibi, seed=seed,
    )  # fmt: skip
    lse, twin_lse = torch.empty(batch.query.shape[:2]), torch.empty(batch.query.shape[:2])
    chosen = Tiling(tile=tile, split=64)
    output = run(batch, lse, chosen)
    twin = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, twin_lse)
    assert difference(output, twin) <= TOLERANCE[dtype]
    assert difference(lse, twin_lse) <= 1e-5
    _, record = recorder.record(batch.query, batch.layer, batch.meta, batch.rule, None, chosen)
    assert apart(record, batch, chosen) <= 1e-4


def records() -> dict[str, tuple[float, bool]]:
    """What the kernel writes down against the twin's walk; and does the output stay the same to the bit?"""
    result = {}
    for name, (batch, tiling) in launches().items():
        plain = run(batch, tiling=tiling)
        output, record = recorder.record(batch.query, batch.layer, batch.meta, batch.rule, None, tiling)
        assert record.source == "kernel" and record.visits
        result[name] = apart(record, batch, tiling), torch.equal(output, plain)
    return result


def holds(law: Callable[[], None]) -> str:
    """Empty, or how it failed."""
    try:
        law()
    except Exception:
        return traceback.format_exc()
    return ""


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {
        "shapes": shapes(), "poison": poison(), "alone": alone_equals_batched(), "splits": splits(),
        "split_alone": split_decode_alone_equals_batched(), "quantised": quantised(), "formats": number_formats(),
        "writes": writes(), "copies": copies(), "no_context": no_context(), "padded_decode": padded_decode(),
        "far_away": far_away(), "records": records(), "any_launch": holds(any_launch_equals_the_twin),
    }  # fmt: skip
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
