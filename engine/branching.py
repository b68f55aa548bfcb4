"""Fork and copy-on-write: who owns what when one sequence becomes several.

Source: PagedAttention paper (Kwon et al., SOSP 2023) §4.4. vLLM V1 has no such path for full attention: it shares only
full blocks, which nobody writes to, so it never has to copy one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from engine.blocks import Block, BlockPool
from engine.config import EngineConfig
from engine.errors import UserError
from engine.request import Request, RequestSpec, RequestStatus, SamplingParams

_REFUSALS = {
    RequestStatus.WAITING: "fork.waiting",
    RequestStatus.PREEMPTED: "fork.preempted",
    RequestStatus.FINISHED: "fork.over",
    RequestStatus.ABORTED: "fork.over",
}


_NEEDED = (("kv_layout", "paged"), ("batching", "continuous"), ("preemption", "recompute"), ("cache", "hash"))


def check_forkable(request: Request) -> None:
    """Only a running request has blocks to share; any other is refused in one sentence."""
    refusal = _REFUSALS.get(request.status)
    if refusal is not None:
        raise UserError(refusal, id=request.id)


def check_engine(config: EngineConfig, request_id: str) -> None:
    """Branches share blocks that each may grow from: a run of neighbours, a sealed batch and a promise of blocks do not
    allow for it, and host memory holds one owner's KV."""
    for field, needed in _NEEDED:
        if getattr(config, field) != needed:
            raise UserError("fork.engine", id=request_id, field=field, value=getattr(config, field), needed=needed)


def check_seats(request_id: str, children: int, used: int, limit: int) -> None:
    """Children are sequences of their own: they must fit the sequence limit beside the `used` ones, all or none."""
    if children < 1:
        raise UserError("fork.count", id=request_id, n=children)
    if used + children > limit:
        raise UserError("fork.seats", id=request_id, n=children, used=used, limit=limit)


def child_specs(
    parent: RequestSpec,
    n: int,
    taken: Collection[str],
    arrival_step: int,
    samplings: Sequence[SamplingParams] | None = None,
    outputs: Sequence[tuple[int, ...]] | None = None,
) -> list[RequestSpec]:
    """What the children of `parent` ask for: the same, under ids `A.1`, `A.2` … that nobody has.

    `samplings` and `outputs` give each child its own way to draw, or its own script, for the tokens to come.
    """
    for name, given in (("samplings", samplings), ("outputs", outputs)):
        if given is not None and len(given) != n:
            raise UserError("fork.lengths", id=parent.id, field=name, have=len(given), need=n)
    specs: list[RequestSpec] = []
    number = 0
    while len(specs) < n:
        number += 1
        child_id = f"{parent.id}.{number}"
        if child_id in taken:
            continue
        index = len(specs)
        specs.append(
            replace(
                parent,
                id=child_id,
                arrival_step=arrival_step,
                abort_step=None,
                n=1,
                sampling=parent.sampling if samplings is None else samplings[index],
                output=parent.output if outputs is None else outputs[index],
            )
        )
    return specs


def seeded(parent: RequestSpec, engine_seed: int) -> list[SamplingParams]:
    """How the other `n - 1` answers draw: a seed each, since equal seeds draw alike.

    Answer i has seed + i, as in vLLM 0.33 (`ParentRequest._get_child_sampling_params`).
    """
    first = engine_seed if parent.sampling.seed is None else parent.sampling.seed
    return [replace(parent.sampling, seed=first + index) for index in range(1, parent.n)]


def offspring(parent: Request, spec: RequestSpec, arrival: int) -> Request:
    """A request that stands where its parent stands: same tokens, same positions computed. From here on it is any."""
    child = Request(spec, arrival)
    child.token_ids = list(parent.token_ids)
    child.block_keys = list(parent.block_keys)
    child.num_computed_tokens = child.high_water = parent.num_computed_tokens
    return child


def copy_waves(copies: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Cuts (source, target) pairs, given in order, into batches whose pairs may run at the same time.

    A block that was copied from and then lost its last owner may be the target of a later copy in the same step.
    """
    waves: list[list[tuple[int, int]]] = []
    read: set[int] = set()
    written: set[int] = set()
    for source, target in copies:
        if not waves or source in written or target in written or target in read:
            waves.append([])
            read, written = set(), set()
        waves[-1].append((source, target))
        read.add(source)
        written.add(target)
    return waves


class BranchTable:
    """Branches of a sequence over a pool, with neither scheduler nor model: the paper's §4.4 in its smallest form.

    `slots` stands for the KV memory: what was written to (block, offset). Reads go through the block table, so that a
    wrong block or a copy that was forgotten changes what a branch reads.
    """

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        self.pool = pool
        self.block_size = block_size
        self.slots: dict[tuple[int, int], int] = {}
        self.copies: list[tuple[int, int]] = []
        self._tables: dict[str, list[Block]] = {}
        self._lengths: dict[str, int] = {}

    def __contains__(self, branch: str) -> bool:
        return branch in self._tables

    def table(self, branch: str) -> list[int]:
        return [block.id for block in self._tables[branch]]

    def start(self, branch: str, tokens: Iterable[int]) -> None:
        """A new sequence of `tokens`."""
        self._tables[branch], self._lengths[branch] = [], 0
        for token in tokens:
            self.append(branch, token)

    def append(self, branch: str, token: int) -> None:
        """Writes one token. Refused when it needs a block and none is free; then nothing has changed."""
        table, length = self._tables[branch], self._lengths[branch]
        position, offset = divmod(length, self.block_size)
        if offset == 0:
            table.extend(self.pool.allocate(1, branch, position))
        elif table[position].ref_count > 1:
            self._copy_tail(branch, position, offset)
        self.slots[table[position].id, offset] = token
        self._lengths[branch] = length + 1

    def fork(self, parent: str, child: str) -> None:
        """`child` reads what `parent` reads: one owner more for each block, nothing copied."""
        self.pool.share(self._tables[parent])
        self._tables[child] = list(self._tables[parent])
        self._lengths[child] = self._lengths[parent]

    def drop(self, branch: str) -> None:
        del self._lengths[branch]
        self.pool.free(self._tables.pop(branch)[::-1], branch, "finished")

    def read(self, branch: str) -> list[int]:
        """The branch's tokens, as its block table finds them in the slots."""
        table, size = self._tables[branch], self.block_size
        return [self.slots[table[index // size].id, index % size] for index in range(self._lengths[branch])]

    def descend(self, old: Sequence[str], survivors: Sequence[tuple[str, str, int]]) -> None:
        """One step of beam search: each survivor is (parent, new name, token).

        All forks come before the first drop: a parent with two survivors must not lose its blocks in between.
        """
        for parent, name, _ in survivors:
            self.fork(parent, name)
        for branch in old:
            self.drop(branch)
        for _, name, token in survivors:
            self.append(name, token)

    def _copy_tail(self, branch: str, position: int, filled: int) -> None:
        source = self._tables[branch][position]
        target = self.pool.copy_on_write(source, branch, position)
        self._tables[branch][position] = target
        self.copies.append((source.id, target.id))
        for offset in range(filled):
            self.slots[target.id, offset] = self.slots[source.id, offset]
