"""Random lives of a radix cache: the tree against a plain model, and requests that must always read their own KV."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from engine import radix_rows
from engine.eviction import POLICY_NAMES
from engine.prefix_radix import RadixTree
from engine.radix_key import radix_key
from engine.radix_laws import faults
from engine.radix_rows import RadixRow
from engine.radix_view import radix_view
from engine.slots import SlotPool
from tests.engine.radix_model import Pair, random_run

TOKENS = st.lists(st.integers(0, 2), max_size=10)
SALTS = st.sampled_from([None, None, "s"])


class TreeMachine(RuleBasedStateMachine):
    """Each operation on the tree and on the model of `radix_model`, the laws of `radix_laws` after each."""

    @initialize(
        page=st.sampled_from([1, 2, 4]),
        pages=st.integers(4, 20),
        policy=st.sampled_from(POLICY_NAMES),
        bigram=st.booleans(),
    )
    def begin(self, page: int, pages: int, policy: str, bigram: bool) -> None:
        self.pair = Pair(page, pages, policy, bigram)

    @rule(tokens=TOKENS.filter(bool), salt=SALTS, priority=st.integers(-1, 2), prompt=st.none() | st.integers(0, 10))
    def insert(self, tokens: list[int], salt: str | None, priority: int, prompt: int | None) -> None:
        self.pair.insert(tokens, salt, priority, prompt)

    @rule(tokens=TOKENS, salt=SALTS, keep=st.booleans())
    def match(self, tokens: list[int], salt: str | None, keep: bool) -> None:
        node = self.pair.match(tokens, salt)
        if keep:
            self.pair.lock(node)

    @precondition(lambda self: self.pair.held)
    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        self.pair.unlock(data.draw(st.integers(0, len(self.pair.held) - 1)))

    @rule(tokens=st.integers(0, 12))
    def evict(self, tokens: int) -> None:
        self.pair.evict(tokens)


class RowMachine(RuleBasedStateMachine):
    """Requests that find, compute, store in chunks, decode, finish or give way. `kv` is what lies in each slot."""

    @initialize(page=st.sampled_from([1, 2, 4]), pages=st.integers(4, 16))
    def begin(self, page: int, pages: int) -> None:
        self.tree = RadixTree(SlotPool(page * pages, page), log=[])
        self.kv: dict[int, tuple[int, ...]] = {}
        self.rows: list[tuple[RadixRow, list[int], int]] = []  # row, tokens with KV, prompt length

    def write(self, row: RadixRow, tokens: list[int], first: int) -> None:
        slots = self.tree.pool.slots(row.pages).tolist()
        for position in range(first, len(tokens)):
            self.kv[slots[position]] = tuple(tokens[: position + 1])

    def check(self) -> None:
        size = self.tree.pool.page_size
        held: list[int] = []
        for row, tokens, _ in self.rows:
            slots = self.tree.pool.slots(row.pages).tolist()
            for position in range(len(tokens)):
                assert self.kv[slots[position]] == tuple(tokens[: position + 1]), "reads what another one wrote"
            assert row.pages[: row.owned // size].tolist() == self.tree.pages_to(row.node)[: row.owned // size].tolist()
            held += row.pages[row.owned // size :].tolist()
        assert list(faults(radix_view(self.tree), held=held)) == []

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=12), chunk=st.none() | st.integers(1, 12))
    def arrive(self, tokens: list[int], chunk: int | None) -> None:
        key = radix_key(tokens)
        row = radix_rows.start(self.tree, f"r{len(self.tree.log or [])}", key.first(len(tokens) - 1))
        done = tokens[: row.owned + chunk] if chunk else tokens
        if radix_rows.grow(self.tree, row, len(done)):
            radix_rows.release(self.tree, row)
        else:
            self.write(row, done, row.owned)
            radix_rows.checkpoint(self.tree, row, key.first(len(done)), prompt_tokens=len(tokens))
            self.rows.append((row, done, len(tokens)))
        self.check()

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), token=st.integers(0, 1))
    def decode(self, data: st.DataObject, token: int) -> None:
        row, tokens, _ = self.rows[data.draw(st.integers(0, len(self.rows) - 1))]
        if not radix_rows.grow(self.tree, row, len(tokens) + 1):
            tokens.append(token)
            self.write(row, tokens, len(tokens) - 1)
        self.check()

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), preempted=st.booleans())
    def leave(self, data: st.DataObject, preempted: bool) -> None:
        row, tokens, prompt = self.rows.pop(data.draw(st.integers(0, len(self.rows) - 1)))
        if not preempted:
            radix_rows.checkpoint(self.tree, row, radix_key(tokens), prompt_tokens=prompt)
        radix_rows.release(self.tree, row)
        self.check()

    def teardown(self) -> None:
        if not hasattr(self, "rows"):
            return
        for row, _, _ in self.rows:
            radix_rows.release(self.tree, row)
        self.tree.evict(1 << 40)
        assert self.tree.pool.available == self.tree.pool.num_pages * self.tree.pool.page_size


SHORT = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestTreeMachine = TreeMachine.TestCase
TestRowMachine = RowMachine.TestCase
TestTreeMachine.settings = TestRowMachine.settings = SHORT


@pytest.mark.parametrize("seed", range(8))
def test_long_lives(seed: int) -> None:
    random_run(seed, 100)


LONG = settings(  # 34 to 40 operations an example on average
    max_examples=3000, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.nightly
@pytest.mark.parametrize("machine", [TreeMachine, RowMachine])
def test_100_000_operations(machine: type[RuleBasedStateMachine]) -> None:
    case = machine.TestCase()
    case.settings = LONG
    case.runTest()


@pytest.mark.nightly
def test_100_000_operations_of_long_lives() -> None:
    for seed in range(200):
        random_run(1000 + seed, 500)
