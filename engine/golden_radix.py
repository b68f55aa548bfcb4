"""Replays a recorded SGLang radix scenario through this tree and writes the result in the recording's own format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import UserError
from engine.prefix_radix import RadixNode, RadixTree
from engine.radix_key import RadixKey, radix_key, tokens_of
from engine.radix_view import NodeView, RadixView, radix_view
from engine.slots import NO_IDS, Ids, SlotPool

SGLANG = "0.5.23"


@dataclass(slots=True)
class _Ref:
    """The node an operation ended on, and the pages that led to it then."""

    node: RadixNode
    pages: Ids


class Replay:
    """One scenario: `page_size`, `pool_tokens`, `eviction_policy`, `is_eagle`, `ops`. Formats: the goldens' README."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.pool = SlotPool(scenario["pool_tokens"], scenario["page_size"])
        self.eagle = bool(scenario.get("is_eagle"))
        self.tree = RadixTree(
            self.pool, scenario.get("eviction_policy", "lru"), scenario.get("eviction_policy_config"),
            bigram=self.eagle, log=[],
        )  # fmt: skip
        self.refs: dict[str, _Ref] = {}
        self._operations = {
            "match_prefix": self._match, "insert": self._insert, "inc_lock": self._lock, "dec_lock": self._unlock,
            "evict": self._evict, "reset": self._reset,
        }  # fmt: skip

    def step(self, op: dict[str, Any]) -> dict[str, Any]:
        if op["op"] not in self._operations:
            raise UserError("golden.unknown_op", op=op["op"], known=", ".join(self._operations))
        return self._operations[op["op"]](op)

    def _match(self, op: dict[str, Any]) -> dict[str, Any]:
        match = self.tree.match(self._key(op))
        pages = self._remember(op, match.node)
        return {"matched": match.usable, "node": match.node.id, "slots": self._slots(pages)}

    def _insert(self, op: dict[str, Any]) -> dict[str, Any]:
        """A request's checkpoint: reuse the slots of `from`, allocate the rest, insert, free the duplicates."""
        if op.get("slots") is not None:
            raise UserError("golden.slots")
        key = self._key(op)
        size = self.pool.page_size
        if not op["tokens"]:
            raise UserError("radix.empty_key")
        units = self.tree.usable_units(key)
        out: dict[str, Any] = {"key_len": units}
        held = self._ref(op["from"]).pages[: units // size] if op.get("from") else NO_IDS
        need = units - len(held) * size
        short = need - self.pool.available
        if short > 0 and op.get("auto_evict", True):
            out["auto_evict"] = self._evicted(short)
        fresh = self.pool.take(need // size)
        if fresh is None:
            if op.get("ref") and op.get("from"):
                self.refs[op["ref"]] = self._ref(op["from"])
            return {**out, "error": "no free slots", "need": need, "available": self.pool.available}
        pages = np.concatenate([held, fresh])
        done = self.tree.insert(
            key, pages, op.get("priority", 0), op.get("inserted_len", 0), prompt_tokens=op.get("prompt_len")
        )
        duplicates = pages[len(held) : done.present // size]
        self.pool.free(duplicates)
        self._remember(op, done.node)
        return {
            **out, "alloc": self._slots(fresh), "prefix_len": done.present, "node": done.node.id,
            "duplicates_freed": self._slots(duplicates),
        }  # fmt: skip

    def _lock(self, op: dict[str, Any]) -> dict[str, Any]:
        node = self._ref(op["ref"]).node
        return {"node": node.id, "delta": self.tree.lock(node)}

    def _unlock(self, op: dict[str, Any]) -> dict[str, Any]:
        node = self._ref(op["ref"]).node
        return {"node": node.id, "delta": self.tree.unlock(node)}

    def _evict(self, op: dict[str, Any]) -> dict[str, Any]:
        return self._evicted(op["num_tokens"])

    def _evicted(self, units: int) -> dict[str, Any]:
        nodes = self.tree.evict(units)
        return {
            "asked": units,
            "evicted": sum(node.end - node.start for node in nodes),
            "nodes": [
                {"id": node.id, "tokens": list(tokens_of(node.edge)), "slots": self._slots(node.pages)}
                for node in nodes
            ],
        }

    def _reset(self, op: dict[str, Any]) -> dict[str, Any]:
        self.tree.reset()
        self.refs.clear()
        return {}

    def _key(self, op: dict[str, Any]) -> RadixKey:
        return radix_key(op["tokens"], op.get("extra_key"), op.get("cache_salt"), bigram=self.eagle)

    def _remember(self, op: dict[str, Any], node: RadixNode) -> Ids:
        pages = self.tree.pages_to(node)
        if op.get("ref"):
            self.refs[op["ref"]] = _Ref(node, pages)
        return pages

    def _ref(self, name: str) -> _Ref:
        if name not in self.refs:
            raise UserError("golden.unknown_ref", ref=name)
        return self.refs[name]

    def _slots(self, pages: Ids) -> list[int]:
        return self.pool.slots(pages).tolist()


def replay(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result of an SGLang golden scenario: `scenario`, `impl`, `sglang` (the release it is like), `steps`."""
    run = Replay(scenario)
    every = scenario.get("state_every", 1)
    steps = []
    for index, op in enumerate(scenario["ops"]):
        try:
            result = run.step(op)
        except UserError as error:
            raise UserError("golden.op", index=index, reason=error) from error
        view = radix_view(run.tree)
        rows = _Rows(view, run.pool)
        step = {
            "i": index,
            "op": op["op"],
            "result": result,
            "struct": rows.digest("struct"),
            "full": rows.digest("full"),
        }
        whole = (every and (index + 1) % every == 0) or index == len(scenario["ops"]) - 1
        steps.append({**step, "state": rows.state()} if whole else {**step, "sizes": rows.sizes})
    return {"scenario": scenario.get("name"), "impl": "radix", "sglang": SGLANG, "steps": steps}


class _Rows:
    """A picture as the recordings write it."""

    def __init__(self, view: RadixView, pool: SlotPool) -> None:
        self.view = view
        self.pool = pool
        self.sizes = {
            "evictable_size": view.evictable, "protected_size": view.protected, "available_size": view.available,
        }  # fmt: skip
        self.accessed = view.ranks(lambda node: node.accessed)
        self.created = view.ranks(lambda node: node.created)

    def digest(self, detail: str) -> str:
        """First 16 hex digits of sha256 over the sizes and the nodes in preorder; `struct` leaves out the slots' order."""
        rows = [self._row(depth, node, detail) for depth, node in self._preorder()]
        text = json.dumps([self.sizes, rows], separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def state(self) -> dict[str, Any]:
        parents = self.view.parents()
        return {
            **self.sizes,
            "free_pages": self.view.free_pages.tolist(),
            "evictable_leaves": [list(entry) for entry in self.view.evictable_leaves()],
            "drain_order": self.view.drain_order(),
            "nodes": [self._node(node, parents.get(node.id)) for node in sorted(self.view, key=lambda node: node.id)],
        }

    def _preorder(self) -> Iterable[tuple[int, NodeView]]:
        stack = [(1, node) for node in sorted(self.view.root.children, key=_order, reverse=True)]
        while stack:
            depth, node = stack.pop()
            yield depth, node
            stack.extend((depth + 1, child) for child in sorted(node.children, key=_order, reverse=True))

    def _row(self, depth: int, node: NodeView, detail: str) -> list[Any]:
        row = [depth, node.extra_key, node.cache_salt, node.tokens, node.lock_ref, self.accessed[node.id]]
        if detail == "struct":
            return row
        slots = self.pool.slots(node.pages).tolist()
        return [*row, node.hit_count, node.priority, self.created[node.id], int(node.evictable), slots]

    def _node(self, node: NodeView, parent: NodeView | None) -> dict[str, Any]:
        return {
            "id": node.id,
            "parent": None if parent is None else parent.id,
            "children": [child.id for child in node.children],
            "tokens": list(node.tokens),
            "extra_key": node.extra_key,
            "cache_salt": node.cache_salt,
            "start": node.start,
            "end": node.end,
            "lock_ref": node.lock_ref,
            "last_access": node.accessed,
            "created": node.created,
            "hit_count": node.hit_count,
            "priority": None if parent is None else node.priority,
            "slots": self.pool.slots(node.pages).tolist(),
            "evictable": node.evictable,
            "evict_key": node.evict_key,
            "access_rank": self.accessed.get(node.id),
            "created_rank": self.created.get(node.id),
        }


def _order(node: NodeView) -> tuple[str, str, tuple[int, ...]]:
    return node.extra_key or "", node.cache_salt or "", node.tokens
