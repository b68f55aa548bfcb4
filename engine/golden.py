"""Replays a recorded vLLM scenario through this engine and writes the result in the recording's own format.

A scenario with `ops` instead of `requests` is one of SGLang's radix cache, which `golden_radix` replays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine import golden_radix
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import UserError
from engine.events import Admitted, Preempted, RequestAborted, RequestArrived
from engine.prefix_hash import BlockKey
from engine.request import RequestSpec
from engine.runner import ScriptedRunner
from engine.snapshot import RequestView, Snapshot
from engine.timeline import Step

SHORT_DIGITS = 12
MAX_STEPS = 100_000
_CONFIG_FIELDS = (
    "num_blocks", "block_size", "max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill",
    "long_prefill_token_threshold", "policy", "enable_prefix_caching", "watermark", "scheduler_reserve_full_isl",
)  # fmt: skip


def replay(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result of a vLLM golden scenario: `scenario`, `initial`, `steps`, `hash_table`, `summary`."""
    engine = Engine(_config(scenario), ScriptedRunner())
    specs = [_spec(request) for request in scenario["requests"]]
    for spec in specs:
        engine.add(spec)
    keys: dict[str, BlockKey] = {}
    steps: list[dict[str, Any]] = []
    over: list[str] = []  # ended since the last schedule(), which the next one tells the workers
    while not engine.is_done and len(steps) < MAX_STEPS:
        step = engine.step()
        steps.append(_step(step, over, steps))
        over = [*over, *steps[-1]["aborted"]] if "idle" in steps[-1] else steps[-1]["finished"]
        for block in engine.kv.pool.blocks:
            _learn(block.key, keys)
    return {
        "scenario": scenario.get("name"),
        "initial": _snapshot(engine.initial),
        "steps": steps,
        "hash_table": {short: _hash_entry(keys[short]) for short in sorted(keys)},
        "summary": _summary(steps),
    }


def replay_file(scenario: Path, out: Path) -> None:
    """`python -m engine golden SCENARIO.json --out RESULT.json`."""
    try:
        data = json.loads(scenario.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError("golden.unreadable", file=scenario, reason=error.strerror) from error
    except ValueError as error:
        raise UserError("golden.not_json", file=scenario, reason=error) from error
    kinds = {"requests": replay, "ops": golden_radix.replay}
    replays = [kinds[field] for field in kinds if isinstance(data, dict) and isinstance(data.get(field), list)]
    if not replays:
        raise UserError("golden.not_scenario", file=scenario)
    try:
        result = replays[0](data)
    except (KeyError, TypeError) as error:
        raise UserError("golden.bad_field", file=scenario, reason=error) from error
    out.write_text(json.dumps(result, indent=1), encoding="utf-8")


def _config(scenario: dict[str, Any]) -> EngineConfig:
    settings = {name: scenario[name] for name in _CONFIG_FIELDS if name in scenario}
    config = EngineConfig(**settings)
    length = scenario.get("max_model_len", config.usable_blocks * config.block_size)
    if not config.enable_chunked_prefill:
        length = min(length, config.max_num_batched_tokens)
    return config.with_changes({"max_model_len": length})


def _spec(request: dict[str, Any]) -> RequestSpec:
    output = tuple(request["output_token_ids"])
    return RequestSpec(
        id=request["id"],
        prompt=tuple(request["prompt_token_ids"]),
        max_tokens=len(output),
        output=output,
        arrival_step=request.get("arrival_step", 0),
        priority=request.get("priority", 0),
        salt=request.get("cache_salt"),
        abort_step=request.get("abort_step"),
    )


def _step(step: Step, over: Iterable[str], before: list[dict[str, Any]]) -> dict[str, Any]:
    aborted = [event.request for event in step.events if isinstance(event, RequestAborted)]
    record: dict[str, Any] = {
        "step": step.index,
        "added": [event.request for event in step.events if isinstance(event, RequestArrived)],
        "aborted": aborted,
    }
    in_flight = {view.id: view for view in step.scheduled.requests}
    if not step.scheduled.running and not step.scheduled.waiting:
        return {**record, "idle": True}
    admitted = {event.request: event for event in step.events if isinstance(event, Admitted)}
    order = list(step.scheduled_tokens)
    held = _tables(before)
    tables = {request: list(in_flight[request].block_table) for request in order}
    after = _snapshot(step.snapshot)
    return record | {
        "scheduled": dict(step.scheduled_tokens),
        "scheduled_order": order,
        "new": [request for request, event in admitted.items() if not event.resumed],
        "resumed": [request for request, event in admitted.items() if event.resumed],
        "continued": [request for request in order if request not in admitted],
        "preempted": [event.request for event in step.events if isinstance(event, Preempted)],
        "finished_notified": sorted([*over, *aborted]),
        "hits": {request: event.hit_tokens for request, event in admitted.items()},
        "new_blocks": {
            request: table if request in admitted else table[len(held.get(request, [])) :]
            for request, table in tables.items()
        },
        "kernel": {
            request: {
                "start": in_flight[request].computed_tokens - tokens,
                "num_tokens": tokens,
                "block_table": tables[request],
            }
            for request, tokens in step.scheduled_tokens.items()
        },
        "after_schedule": _snapshot(step.scheduled),
        "sampled": dict(step.sampled),
        "finished": [request for request in order if request not in after["requests"]],
        "after_update": after,
    }


def _tables(before: list[dict[str, Any]]) -> dict[str, list[int]]:
    for record in reversed(before):
        if "after_update" in record:
            return {request: view["block_table"] for request, view in record["after_update"]["requests"].items()}
    return {}


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    pool = snapshot.pool
    hashed = {str(block): short for block, short in enumerate(pool.hashes) if short is not None}
    return {
        "running": list(snapshot.running),
        "waiting": list(snapshot.waiting),
        "requests": {view.id: _request(view, snapshot) for view in snapshot.requests if not view.status.is_over},
        "free_queue": list(pool.free_queue),
        "num_free": len(pool.free_queue),
        "usage": round(1.0 - len(pool.free_queue) / (pool.num_blocks - 1), 6),
        "ref_cnt": {str(block): count for block, count in enumerate(pool.ref_count) if count},
        "hashed": hashed,
        "dup_hash": {short: list(blocks) for short, blocks in pool.duplicates.items()},
    }


def _request(view: RequestView, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "status": view.status.value,
        "num_computed_tokens": view.computed_tokens,
        "num_tokens": view.known_tokens,
        "num_output_tokens": view.output_tokens,
        "num_preemptions": view.preemptions,
        "num_hashed_blocks": sum(1 for block in view.block_table if snapshot.pool.hashes[block] is not None),
        "block_table": list(view.block_table),
    }


def _learn(key: BlockKey | None, keys: dict[str, BlockKey]) -> None:
    while key is not None and key.short not in keys:
        keys[key.short] = key
        key = key.parent


def _hash_entry(key: BlockKey) -> dict[str, Any]:
    length, parent = len(key.tokens), key.parent
    while parent is not None:
        length, parent = length + len(parent.tokens), parent.parent
    return {
        "sha256": key.digest.hex(),
        "parent": None if key.parent is None else key.parent.short,
        "tokens": list(key.tokens),
        "extra": [list(pair) for pair in key.extra] if key.extra else None,
        "prefix_len": length,
    }


def _summary(steps: list[dict[str, Any]]) -> dict[str, Any]:
    busy = [step for step in steps if "idle" not in step]
    return {
        "steps": len(busy),
        "scheduled_tokens": sum(sum(step["scheduled"].values()) for step in busy),
        "sampled_tokens": sum(len(step["sampled"]) for step in busy),
        "preemptions": sum(len(step["preempted"]) for step in busy),
        "hit_tokens": sum(sum(step["hits"].values()) for step in busy),
        "finished": sum(len(step["finished"]) for step in busy),
        "aborted": sum(len(step["aborted"]) for step in steps),
        "max_running": max((len(step["after_schedule"]["running"]) for step in busy), default=0),
        "min_free": min((step["after_schedule"]["num_free"] for step in busy), default=0),
        "stalled": False,
    }
