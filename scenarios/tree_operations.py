"""A radix tree by hand: small operations, typed or picked, and the tree after each. A character is a token.

The operations are those of SGLang's `RadixCache` (`match_prefix`, `insert`, `inc_lock_ref`, `dec_lock_ref`, `evict`),
run as its recordings are replayed. A sequence is played from the empty tree, so that a bad one changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from engine.events import Event
from engine.golden_radix import Replay
from engine.radix_node import RadixNode
from engine.radix_view import RadixView, radix_view
from scenarios.errors import ScenarioError

Kind = Literal["match", "insert", "lock", "unlock", "evict"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PAGE_SIZES = (1, 2, 4)
POOLS = (12, 24, 64)  # tokens; each is a multiple of each page size
POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "slru")
MAX_OPERATIONS = 40
MAX_CHARACTERS = 24
MAX_EVICTED = 999


@dataclass(frozen=True, slots=True)
class Operation:
    """`text` is the key, one token a character; an eviction asks for `tokens` instead."""

    kind: Kind
    text: str = ""
    tokens: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.tokens if self.kind == 'evict' else self.text}"


@dataclass(frozen=True, slots=True)
class Moment:
    """The tree after an operation (None: before the first), and what happened in it."""

    operation: Operation | None
    view: RadixView
    events: tuple[Event, ...]
    duplicates: int = 0  # tokens of an insert that the tree had already; their own pages were freed again


@dataclass(frozen=True, slots=True)
class Example:
    """Operations with a right answer from outside: `golden` names SGLang's recording, if it is one."""

    page_size: int
    pool_tokens: int
    lines: tuple[str, ...]
    golden: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


EXAMPLES: Mapping[str, Example] = {
    "fork_page1": Example(
        1, 64,
        ("insert 1234", "insert 129", "match 1299", "match 12345", "match 77", "match 12", "match 1", "insert 1234",
         "insert 12999"),
        "01_fork_page1",
    ),
    "fork_page4": Example(
        4, 64,
        ("insert 1234", "insert 129", "match 129", "match 1299", "insert 1299", "insert 12345678",
         "insert 12345699ab", "match 1234567", "match 123456789", "insert 123456789abc", "match 123456781111"),
        "02_fork_page4",
    ),
    "page4_lock": Example(
        4, 24,
        ("insert 12345678", "lock 12345678", "match 12345999", "lock 12345999", "evict 8", "unlock 12345678", "evict 8",
         "unlock 12345999"),
    ),
    "inherited_lock": Example(
        1, 64,
        ("insert 12345678", "lock 12345678", "lock 12345678", "match 12345x", "lock 12345x", "insert 123yz",
         "evict 100", "unlock 12345678", "unlock 12345x", "evict 100", "unlock 12345678", "evict 100"),
        "03_split_inherits_lock",
    ),
    "locked_ancestor": Example(
        1, 24,
        ("insert 1234", "insert 1256", "lock 1256", "insert 125678", "insert xy", "evict 999", "evict 1", "unlock 1256",
         "evict 1", "evict 999"),
        "06_locked_leaf_protects",
    ),
    "in_use": Example(
        1, 24,
        ("insert 1234", "lock 1234", "match 129", "insert 129", "lock 129", "unlock 1234", "evict 10", "unlock 129",
         "evict 10"),
    ),
}  # fmt: skip


def parse(text: str) -> tuple[Operation, ...]:
    """One operation a line; empty lines are skipped. Raises ScenarioError naming the first line that is none."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > MAX_OPERATIONS:
        raise ScenarioError("tree.too_many", count=len(lines), limit=MAX_OPERATIONS)
    return tuple(_operation(number, words) for number, words in lines)


def _operation(line: int, words: Sequence[str]) -> Operation:
    kind = next((kind for kind in KINDS if kind == words[0].lower()), None)
    if kind is None:
        raise ScenarioError("tree.unknown", line=line, word=words[0][:MAX_CHARACTERS], known=", ".join(KINDS))
    argument = "".join(words[1:])
    if kind == "evict":
        if not (argument.isascii() and argument.isdigit()) or not 1 <= int(argument[:9]) <= MAX_EVICTED:
            raise ScenarioError("tree.count", line=line, value=argument[:MAX_CHARACTERS] or "–", limit=MAX_EVICTED)
        return Operation("evict", tokens=int(argument))
    if not argument:
        raise ScenarioError("tree.no_text", line=line, kind=kind)
    if len(argument) > MAX_CHARACTERS:
        raise ScenarioError("tree.too_long", line=line, count=len(argument), limit=MAX_CHARACTERS)
    return Operation(kind, argument)


def play(operations: Sequence[Operation], page_size: int, pool_tokens: int, policy: str = "lru") -> tuple[Moment, ...]:
    """The empty tree, then the tree after each operation. Raises ScenarioError, numbered from 1, if one is refused."""
    tree = _TreeByHand(page_size, pool_tokens, policy)
    moments = [Moment(None, tree.view, ())]
    for number, operation in enumerate(operations, 1):
        moments.append(tree.perform(number, operation))
    return tuple(moments)


class _TreeByHand:
    """The tree, which node each text ended on last, and the locks taken in each text's name."""

    def __init__(self, page_size: int, pool_tokens: int, policy: str) -> None:
        self._replay = Replay({"page_size": page_size, "pool_tokens": pool_tokens, "eviction_policy": policy})
        self._locked: dict[str, list[RadixNode]] = {}

    @property
    def view(self) -> RadixView:
        return radix_view(self._replay.tree)

    def perform(self, number: int, operation: Operation) -> Moment:
        log = self._replay.tree.log
        assert log is not None
        before, duplicates = len(log), 0
        match operation.kind:
            case "match":
                self._match(operation.text)
            case "insert":
                duplicates = self._insert(number, operation.text)
            case "lock":
                self._lock(number, operation.text)
            case "unlock":
                self._unlock(number, operation.text)
            case "evict":
                self._replay.step({"op": "evict", "num_tokens": operation.tokens})
        return Moment(operation, self.view, tuple(log[before:]), duplicates)

    def _match(self, text: str) -> None:
        self._replay.step({"op": "match_prefix", "tokens": tokens(text), "ref": text})

    def _insert(self, number: int, text: str) -> int:
        done = self._replay.step({"op": "insert", "tokens": tokens(text), "ref": text})
        if "error" in done:
            raise ScenarioError(
                "tree.no_room", number=number, text=text, need=done["need"], available=done["available"]
            )
        return len(done["duplicates_freed"])

    def _lock(self, number: int, text: str) -> None:
        """Where the last match or insert of the text ended; without one it is matched first, as a request is."""
        node = self._ended(text)
        if node is None:
            self._match(text)
            node = self._ended(text)
        if node is None:
            raise ScenarioError("tree.nothing_to_lock", number=number, text=text)
        self._replay.tree.lock(node)
        self._locked.setdefault(text, []).append(node)

    def _unlock(self, number: int, text: str) -> None:
        if not self._locked.get(text):
            raise ScenarioError("tree.not_locked", number=number, text=text)
        self._replay.tree.unlock(self._locked[text].pop())

    def _ended(self, text: str) -> RadixNode | None:
        """The node, unless it is the root or has left the tree."""
        ref = self._replay.refs.get(text)
        below_root = {node.id for node in self.view} - {self._replay.tree.root.id}
        return ref.node if ref is not None and ref.node.id in below_root else None


def tokens(text: str) -> list[int]:
    return [ord(character) for character in text]


def label(ids: Sequence[int]) -> str:
    """The text of an edge."""
    return "".join(map(chr, ids))
