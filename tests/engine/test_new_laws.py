"""The laws also watch over host blocks and contiguous runs: each rule broken on purpose is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine import laws
from engine.contiguous import Contiguous
from engine.kv_manager import Shortage
from engine.laws import Audit
from engine.request import Request, RequestSpec
from engine.swap import SwapJob, SwapSpace
from tests.engine.replay import AUDITS, engine_of, spec

SWAP = {"preemption": "swap", "block_size": 4, "num_blocks": 8, "max_num_batched_tokens": 64}
RUNS = {"kv_layout": "contiguous", "contiguous_reserve": "known", "block_size": 4, "num_blocks": 8}
STATIC = {"batching": "static", "block_size": 4, "num_blocks": 8, "max_num_batched_tokens": 64}


def broken(config: dict[str, object], audit: Audit) -> list[int]:
    """The laws that a run under pressure breaks, in order; 0 stands for a run without an end."""
    engine = engine_of(audit, **config)  # type: ignore[arg-type]
    for name in "ABCD":
        engine.add(spec(name, 5, 10, abort_step=9 if name == "C" else None))
    found: list[int] = []
    for _ in range(200):
        if engine.is_done:
            return found
        found += [law.law for law in engine.step().laws if not law.holds]
    return [*found, 0]


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize("config", [SWAP, RUNS, STATIC], ids=["swap", "contiguous", "static"])
def test_an_honest_engine_breaks_none(config: dict[str, object], audit: Audit) -> None:
    assert broken(config, audit) == []


_out, _peak = SwapSpace.out, Contiguous.peak_blocks


def _one_host_block_for_all(space: SwapSpace, request: Request) -> SwapJob | Shortage:
    job = _out(space, request)
    space._held[request.id] = (0,) * len(space._held[request.id])
    return job


def _forget_the_last_block(space: SwapSpace, request: Request) -> SwapJob | Shortage:
    job = _out(space, request)
    space._held[request.id] = space._held[request.id][:-1]
    return job


def _drop_nothing(space: SwapSpace, request: Request) -> None:
    return


def _short_runs(kv: Contiguous, request: RequestSpec) -> int:
    return max(1, _peak(kv, request) - 1)


MUTATIONS: list[tuple[type, str, Callable[..., object], dict[str, object], int]] = [
    (SwapSpace, "out", _one_host_block_for_all, SWAP, 1),
    (SwapSpace, "out", _forget_the_last_block, SWAP, 5),
    (SwapSpace, "drop", _drop_nothing, SWAP, 9),
    (Contiguous, "peak_blocks", _short_runs, RUNS, 5),
]


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize(
    ("owner", "name", "mutant", "config", "law"), MUTATIONS, ids=[mutation[2].__name__ for mutation in MUTATIONS]
)
def test_every_mutation_is_caught(
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    mutant: Callable[..., object],
    config: dict[str, object],
    law: int,
    audit: Audit,
) -> None:
    monkeypatch.setattr(laws, "FULL_EVERY", 1000)
    monkeypatch.setattr(owner, name, mutant)
    assert law in broken(config, audit)
