"""Claims: what a scenario's notes say about a step, written so that a test can check them.

A claim is a Python expression without most of Python: `ref_count[3] == 2 and status['A'] == 'RUNNING'`. It is parsed,
never run: `_Reader` walks the tree and knows only what is listed here. It speaks of the state after the step's commit.
Token counts depend on the tokenizer, so a scenario's claims hold for the model it names.

    pool       ref_count[b]  fill[b]  owners(b)  free_queue  free_queue[i]  owned  free_cached  free_empty
               tree_nodes  evictable  protected  drain_order  lock_ref[n]  tokens_of[n] (radix; n is a node's id, in
               lists -1 where there is none; edges in tokens)
               slots_used  slots_reserved  slots_internal  slots_external (as `engine.contiguous.Waste` splits them)
    lists      running  waiting  len(x)  sum(x)
    requests   status['A']  computed['A']  known['A']  output['A']  cached['A']  blocks['A']  preemptions['A']
               host_blocks['A']  work['A'] ('none' if not in the batch)
               wait['A'] ('none', or what it waits for: 'blocks', 'tokens' …)  need['A']  have['A']
               waited['A'] (steps from its arrival to its first compute, or so far)  overtaken['A'] (by how many)
    step       scheduled['A'] (0 if not in the batch)  tokens (all scheduled)  binding ('none' or the limit that binds)
               allocated  evicted  revived  duplicates  copied (blocks; pairs of source and target)  idle_rows
               split (pairs of upper and lower node)  nodes_evicted (in order)  duplicates_freed (pages)
    run        steps  computed_so_far  recomputed_so_far  output_so_far  preemptions_so_far  idle_rows_so_far
               peak_owned (sums over the steps up to this one)
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from engine.contiguous import Waste, measure_waste
from engine.events import (
    BlockAllocated,
    BlockCopied,
    BlockPublished,
    BlockTouched,
    HashEvicted,
    RowsIdle,
)
from engine.metrics import RunMetrics, measure
from engine.radix_events import DuplicatesFreed, NodeEvicted, NodeSplit
from engine.radix_view import NodeView
from engine.snapshot import RequestView, Snapshot
from engine.timeline import Step
from engine.waits import Wait, waits
from scenarios.errors import ScenarioError

MAX_LENGTH = 300
Value: TypeAlias = bool | int | str | tuple["Value", ...]


def _by_node(snapshot: Snapshot, value: Callable[[NodeView], int]) -> tuple[int, ...]:
    """`value` of each node of the radix tree by its id, -1 where there is no such node; the root has units 0."""
    found = {node.id: value(node) for node in snapshot.radix or ()}
    return tuple(found.get(node, -1) for node in range(max(found, default=-1) + 1))


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Value, Value], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: operator.contains(right, left),  # type: ignore[arg-type]
    ast.NotIn: lambda left, right: not operator.contains(right, left),  # type: ignore[arg-type]
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_REQUEST_FIELDS: Mapping[str, Callable[[RequestView], Value]] = {
    "status": lambda view: view.status.value,
    "computed": lambda view: view.computed_tokens,
    "known": lambda view: view.known_tokens,
    "output": lambda view: view.output_tokens,
    "cached": lambda view: view.cached_tokens,
    "blocks": lambda view: view.block_table,
    "preemptions": lambda view: view.preemptions,
    "host_blocks": lambda view: view.host_blocks,
    "scheduled": lambda view: view.scheduled,
    "work": lambda view: view.work or "none",
    "wait": lambda view: view.wait_reason.limit if view.wait_reason else "none",
    "need": lambda view: view.wait_reason.need if view.wait_reason else 0,
    "have": lambda view: view.wait_reason.have if view.wait_reason else 0,
}
_STEP_VALUES: Mapping[str, Callable[[Step], Value]] = {
    "ref_count": lambda step: step.snapshot.pool.ref_count,
    "fill": lambda step: step.snapshot.pool.fill,
    "free_queue": lambda step: step.snapshot.pool.free_queue,
    "owned": lambda step: step.snapshot.pool.owned,
    "free_cached": lambda step: step.snapshot.pool.free_cached,
    "free_empty": lambda step: step.snapshot.pool.free_empty,
    "running": lambda step: step.snapshot.running,
    "waiting": lambda step: step.snapshot.waiting,
    "tokens": lambda step: sum(step.scheduled_tokens.values()),
    "binding": lambda step: step.snapshot.budgets.binding or "none",
    "allocated": lambda step: tuple(event.block for event in step.events if isinstance(event, BlockAllocated)),
    "evicted": lambda step: tuple(event.block for event in step.events if isinstance(event, HashEvicted)),
    "revived": lambda step: tuple(
        event.block for event in step.events if isinstance(event, BlockTouched) and event.revived
    ),
    "duplicates": lambda step: tuple(
        event.block for event in step.events if isinstance(event, BlockPublished) and event.duplicate
    ),
    "copied": lambda step: tuple(
        (event.source, event.target) for event in step.events if isinstance(event, BlockCopied)
    ),
    "tree_nodes": lambda step: tuple(node.id for node in step.snapshot.radix or () if node.units),
    "evictable": lambda step: step.snapshot.radix.evictable if step.snapshot.radix else 0,
    "protected": lambda step: step.snapshot.radix.protected if step.snapshot.radix else 0,
    "drain_order": lambda step: tuple(step.snapshot.radix.drain_order()) if step.snapshot.radix else (),
    "lock_ref": lambda step: _by_node(step.snapshot, lambda node: node.lock_ref),
    "tokens_of": lambda step: _by_node(step.snapshot, lambda node: node.units),
    "split": lambda step: tuple((event.upper, event.lower) for event in step.events if isinstance(event, NodeSplit)),
    "nodes_evicted": lambda step: tuple(event.node for event in step.events if isinstance(event, NodeEvicted)),
    "duplicates_freed": lambda step: tuple(
        page for event in step.events if isinstance(event, DuplicatesFreed) for page in event.pages
    ),
    "idle_rows": lambda step: _idle_rows(step),
    "slots_used": lambda step: _waste(step.snapshot).used,
    "slots_reserved": lambda step: _waste(step.snapshot).reserved,
    "slots_internal": lambda step: _waste(step.snapshot).internal,
    "slots_external": lambda step: _waste(step.snapshot).external,
}
_RUN_VALUES: Mapping[str, Callable[[RunMetrics], Value]] = {
    "steps": lambda run: run.steps,
    "computed_so_far": lambda run: run.computed_tokens,
    "recomputed_so_far": lambda run: run.recomputed_tokens,
    "output_so_far": lambda run: run.output_tokens,
    "preemptions_so_far": lambda run: run.preemptions,
    "idle_rows_so_far": lambda run: run.usage.idle_row_steps,
    "peak_owned": lambda run: int(run.usage.owned_blocks.max) if run.usage.owned_blocks is not None else 0,
}
_WAIT_FIELDS: Mapping[str, Callable[[Wait], int]] = {
    "waited": lambda wait: wait.steps,
    "overtaken": lambda wait: wait.overtaken,
}
_FUNCTIONS = ("len", "sum", "owners")
_KNOWN = (*_STEP_VALUES, *_RUN_VALUES, *_REQUEST_FIELDS, *_WAIT_FIELDS, *_FUNCTIONS)


def check(claim: str, steps: Sequence[Step]) -> bool:
    """True if the claim holds after the last of `steps`, which start with the first of the run.

    Raises ScenarioError naming the claim if it cannot be understood.
    """
    value = _Reader(claim, steps).read(_parse(claim))
    if not isinstance(value, bool):
        raise ScenarioError("claim.not_truth", claim=claim, value=value)
    return value


def check_syntax(claim: str) -> None:
    """Raises ScenarioError if the claim uses anything but the grammar; needs no step."""
    tree = _parse(claim)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in _KNOWN:
            raise _unknown_name(claim, node.id)
        if not isinstance(node, _ALLOWED):
            raise ScenarioError("claim.not_allowed", claim=claim, what=type(node).__name__)
        if isinstance(node, ast.Constant) and type(node.value) not in (int, str, bool):
            raise ScenarioError("claim.not_allowed", claim=claim, what=repr(node.value))


_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.BinOp, ast.Constant,
    ast.List, ast.Tuple, ast.Name, ast.Load, ast.Subscript, ast.Call, *_COMPARISONS, *_ARITHMETIC,
)  # fmt: skip


def _parse(claim: str) -> ast.expr:
    if len(claim) > MAX_LENGTH:
        raise ScenarioError("claim.too_long", claim=claim[:60] + "…", limit=MAX_LENGTH)
    try:
        return ast.parse(claim.strip(), mode="eval").body
    except SyntaxError as error:
        raise ScenarioError("claim.syntax", claim=claim, reason=error.msg) from error
    except (ValueError, MemoryError, RecursionError) as error:
        raise ScenarioError("claim.syntax", claim=claim, reason="it is not an expression") from error


def _unknown_name(claim: str, name: str) -> ScenarioError:
    return ScenarioError("claim.unknown_name", claim=claim, name=name, known=", ".join(_KNOWN))


def _idle_rows(step: Step) -> int:
    return sum(event.idle for event in step.events if isinstance(event, RowsIdle))


def _waste(snapshot: Snapshot) -> Waste:
    """External is what is free but in holes too small for the request at the head of the queue."""
    reason = snapshot.request(snapshot.waiting[0]).wait_reason if snapshot.waiting else None
    return measure_waste(snapshot, reason.need if reason is not None and reason.limit == "hole" else 0)


class _Reader:
    """Walks one claim's tree over the last of the steps."""

    def __init__(self, claim: str, steps: Sequence[Step]) -> None:
        self._claim = claim
        self._steps = steps
        self._step = steps[-1]

    def read(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | str() as value):
                return value
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return tuple(self.read(element) for element in elements)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Subscript(value=ast.Name(id=name), slice=key) if name in _REQUEST_FIELDS:
                return self._of_request(name, self.read(key))
            case ast.Subscript(value=ast.Name(id=name), slice=key) if name in _WAIT_FIELDS:
                return self._of_wait(name, self.read(key))
            case ast.Subscript(value=of, slice=key) if not isinstance(key, ast.Slice):
                return self._item(self.read(of), self.read(key))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                return self._call(name, self.read(argument))
            case ast.BoolOp(op=op, values=parts):
                truths = (self._truth(self.read(part)) for part in parts)
                return all(truths) if isinstance(op, ast.And) else any(truths)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._truth(self.read(operand))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._whole(self.read(operand))
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _ARITHMETIC:
                return self._arithmetic(_ARITHMETIC[type(operation)], self.read(left), self.read(right))
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compare(self.read(left), ops, rights)
        raise ScenarioError("claim.not_allowed", claim=self._claim, what=type(node).__name__)

    def _name(self, name: str) -> Value:
        if name in _RUN_VALUES:
            return _RUN_VALUES[name](measure(self._steps))
        if name not in _STEP_VALUES:
            raise _unknown_name(self._claim, name)
        return _STEP_VALUES[name](self._step)

    def _of_request(self, name: str, key: Value) -> Value:
        view = next((view for view in self._step.snapshot.requests if view.id == key), None)
        if view is None:
            raise ScenarioError("claim.no_such", claim=self._claim, what=f"request {key}")
        return _REQUEST_FIELDS[name](view)

    def _of_wait(self, name: str, key: Value) -> Value:
        first = next((wait for wait in waits(self._steps) if wait.request == key and not wait.resumed), None)
        if first is None:
            raise ScenarioError("claim.no_such", claim=self._claim, what=f"request {key}")
        return _WAIT_FIELDS[name](first)

    def _item(self, of: Value, key: Value) -> Value:
        if not isinstance(of, tuple):
            raise ScenarioError("claim.types", claim=self._claim, what=f"{of}[{key}]")
        place = self._whole(key)
        if not -len(of) <= place < len(of):
            raise ScenarioError("claim.no_such", claim=self._claim, what=f"item {place} of {len(of)}")
        return of[place]

    def _call(self, name: str, argument: Value) -> Value:
        if name == "owners":
            return self._step.snapshot.owners().get(self._whole(argument), ())
        if not isinstance(argument, tuple):
            raise ScenarioError("claim.types", claim=self._claim, what=f"{name}({argument})")
        return len(argument) if name == "len" else sum(self._whole(item) for item in argument)

    def _compare(self, left: Value, ops: list[ast.cmpop], rights: list[ast.expr]) -> bool:
        for op, node in zip(ops, rights, strict=True):
            right = self.read(node)
            compare = _COMPARISONS.get(type(op))
            if compare is None:
                raise ScenarioError("claim.not_allowed", claim=self._claim, what=type(op).__name__)
            try:
                holds = compare(left, right)
            except TypeError as error:
                raise ScenarioError("claim.types", claim=self._claim, what=f"{left}, {right}") from error
            if not holds:
                return False
            left = right
        return True

    def _arithmetic(self, operation: Callable[[int, int], int], left: Value, right: Value) -> int:
        first, second = self._whole(left), self._whole(right)
        try:
            return operation(first, second)
        except ZeroDivisionError as error:
            raise ScenarioError("claim.types", claim=self._claim, what=f"{left} // {right}") from error

    def _whole(self, value: Value) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ScenarioError("claim.types", claim=self._claim, what=repr(value))
        return value

    def _truth(self, value: Value) -> bool:
        if not isinstance(value, bool):
            raise ScenarioError("claim.not_truth", claim=self._claim, value=value)
        return value
