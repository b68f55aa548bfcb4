"""One request's launch at one layer as the kernel page sees it: tensors, record, dense result, the difference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from engine.capture import DenseKV
from kernels.dispatch import implementation_name
from kernels.layout import KVLayer
from kernels.lens import row_of
from kernels.metadata import AttentionMetadata, ScoreRule
from kernels.recorder import LaunchPlan, Program, Visit, plan, walk_program
from kernels.reference import dense_attention, paged_attention
from kernels.sanitizer import Rights
from kernels.traffic import Traffic, traffic
from pages.ui.launches import Looked
from pages.ui.text import Lang, t

Place = tuple[int, int, int]


@dataclass(frozen=True)
class Difference:
    """Paged against dense: the largest |Δ| and where it is; per query head the largest, float32."""

    largest: float
    token: int
    head: int
    dim: int
    paged: float
    dense: float
    by_head: tuple[float, ...]


@dataclass(frozen=True)
class LaunchView:
    """`meta`, `query`, `output` are of the one request (row 0); `batch` is the plan of the whole launch."""

    source: str  # names the run
    step: int
    request: str
    requests: tuple[str, ...]
    row: int
    layer_index: int
    num_layers: int
    layer: KVLayer
    meta: AttentionMetadata
    rule: ScoreRule
    query: Tensor
    output: Tensor
    dense: DenseKV
    batch: LaunchPlan
    tolerance: float
    looked: Looked
    place: Place = (0, 0, 0)

    @property
    def semantics(self) -> str:
        return str(self.meta.semantics[0])

    @property
    def implementation(self) -> str:
        return implementation_name(self.layer.key.device)

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.query.shape[1] // self.layer.layout.num_kv_heads

    @property
    def programs(self) -> tuple[Program, ...]:
        return tuple(program for program in self.batch.programs if program.row == self.row)

    @property
    def program(self) -> Program:
        return next(program for program in self.programs if program.place == self.place)

    @property
    def newest(self) -> Place:
        """Of the newest tokens, KV head 0, the part that reads the end."""
        return max(self.programs, key=lambda each: (each.place[0], -each.place[1], each.place[2])).place

    @cached_property
    def visits(self) -> tuple[Visit, ...]:
        """Of the program looked at; walking all of a long prompt takes a second."""
        kept = self.looked.kept
        return tuple(walk_program(self.program, kept.queries[self.layer_index], self.layer, kept.meta, self.rule))

    @property
    def first_token(self) -> int:
        """Number in the batch of the request's first query token."""
        return min(program.first_token for program in self.programs)

    @property
    def others(self) -> frozenset[int]:
        """Blocks that the launch reads for other requests and not for this one."""
        blocks = Rights.of(self.looked.kept.meta).blocks
        return frozenset(block for row in blocks for block in row) - frozenset(blocks[self.row])

    def with_program(self, place: Place) -> LaunchView:
        return replace(self, place=place)

    def program_name(self, place: Place, lang: Lang) -> str:
        program = next(program for program in self.programs if program.place == place)
        key = "kernel.program_split" if self.batch.grid[2] > 1 else "kernel.program_name"
        return t(key, lang, tile=place[0], head=place[1], split=place[2], first=program.first_token,
                 last=program.end_token - 1)  # fmt: skip

    @cached_property
    def work(self) -> Traffic:
        """Of the request's own launch."""
        return self.work_of(self.meta)

    def work_of(self, meta: AttentionMetadata) -> Traffic:
        """What the request's launch would move and compute, told this."""
        planned = plan(self.query, self.layer, meta)
        return traffic(planned, self.layer, meta, self.query.shape[1], self.query.element_size())

    @cached_property
    def dense_output(self) -> Tensor:
        keys, values = self.dense.keys[self.layer_index], self.dense.values[self.layer_index]
        return dense_attention(self.query, keys, values, self.rule.scale)

    @cached_property
    def difference(self) -> Difference:
        return difference(self.output, self.dense_output)

    def rerun(self, layer: KVLayer, meta: AttentionMetadata) -> Tensor:
        """The torch twin over other tables or another cache."""
        return paged_attention(self.query, layer, meta, self.rule)


def difference(got: Tensor, expected: Tensor) -> Difference:
    """got, expected [T, Hq, D]; a NaN counts as the largest difference there is."""
    delta = (got.float() - expected.float()).abs()
    ranked = torch.where(delta.isnan(), float("inf"), delta)
    token, head, dim = (int(index) for index in torch.unravel_index(ranked.argmax(), ranked.shape))
    return Difference(
        float(delta[token, head, dim]), token, head, dim, float(got[token, head, dim]),
        float(expected[token, head, dim]), tuple(ranked.amax((0, 2)).tolist()),
    )  # fmt: skip


def launch_view(looked: Looked, row: int, layer: int) -> LaunchView:
    kept = looked.kept
    query = kept.queries[layer]
    tokens = kept.rows(row)
    record = looked.step.kernel
    assert record is not None
    return LaunchView(
        source=looked.source,
        step=looked.step.index,
        request=kept.requests[row],
        requests=kept.requests,
        row=row,
        layer_index=layer,
        num_layers=len(kept.queries),
        layer=kept.layers[layer],
        meta=row_of(kept.meta, row)[0],
        rule=kept.rule,
        query=query[tokens],
        output=kept.outputs[layer][tokens],
        dense=looked.dense_of(row),
        batch=plan(query, kept.layers[layer], kept.meta),
        tolerance=record.tolerance,
        looked=looked,
    )
