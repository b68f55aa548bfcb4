"""A radix cache so simple that it is plainly right: every cached page under the whole path of tokens that leads to it.

It knows nothing of nodes. Driven in step with the real tree it says what must be found, in which pages, what is locked
and what may leave; which leaf leaves first is told by a picture taken before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from engine.errors import UserError
from engine.eviction import POLICY_NAMES
from engine.prefix_radix import RadixTree
from engine.radix_key import radix_key
from engine.radix_laws import faults
from engine.radix_node import RadixNode
from engine.radix_view import RadixView, radix_view
from engine.slots import SlotPool

Path = tuple[str | None, tuple[int, ...]]  # namespace, tokens of whole pages
OPTIONS = {"slru": {"protected_threshold": 2}, "tlru": {"threshold": 8, "next_prompt_estimate": 2}}


class Pair:
    """The tree and the model side by side; each operation is done by both and compared."""

    def __init__(self, page: int = 1, pages: int = 24, policy: str = "lru", bigram: bool = False) -> None:
        self.page, self.overlap = page, int(bigram)
        self.log: list = []
        self.tree = RadixTree(SlotPool(page * pages, page), policy, OPTIONS.get(policy), bigram=bigram, log=self.log)
        self.cached: dict[Path, int] = {}
        self.locks: dict[Path, int] = {}
        self.held: list[tuple[RadixNode, Path]] = []
        self.seen = 0  # events already looked at

    def prefixes(self, tokens: list[int], salt: str | None) -> Iterator[Path]:
        """The paths of the whole pages of `tokens`, short to long."""
        for end in range(self.page, len(tokens) - self.overlap + 1, self.page):
            yield salt, tuple(tokens[: end + self.overlap])

    def find(self, tokens: list[int], salt: str | None) -> list[Path]:
        found = []
        for path in self.prefixes(tokens, salt):
            if path not in self.cached:
                break
            found.append(path)
        return found

    def match(self, tokens: list[int], salt: str | None = None) -> RadixNode:
        found = self.find(tokens, salt)
        match = self.tree.match(self.key(tokens, salt))
        assert match.usable == len(found) * self.page, "hit"
        assert self.tree.pages_to(match.node).tolist() == [self.cached[path] for path in found], "pages"
        assert match.usable <= self.tree.matched_tokens(self.key(tokens, salt)), "matched length"
        self.check()
        return match.node

    def key(self, tokens: list[int], salt: str | None):  # type: ignore[no-untyped-def]
        return radix_key(tokens, cache_salt=salt, bigram=bool(self.overlap))

    def insert(self, tokens: list[int], salt: str | None = None, priority: int = 0, prompt: int | None = None) -> None:
        """One request's life in a moment: find, lock, make room, store, free the duplicates, unlock."""
        node = self.match(tokens[: max(0, len(tokens) - 1)], salt)
        mine = self.find(tokens[: max(0, len(tokens) - 1)], salt)
        self.lock(node)
        key = self.key(tokens, salt)
        paths = list(self.prefixes(tokens, salt))
        need = len(paths) - len(mine)
        self.evict(need * self.page - self.tree.pool.available)
        fresh = self.tree.pool.take(need)
        if fresh is not None:
            found = self.find(tokens, salt)
            pages = np.concatenate([self.tree.pages_to(node), fresh])
            done = self.tree.insert(key, pages, priority, prompt_tokens=prompt)
            assert done.present == len(found) * self.page, "present"
            self.tree.pool.free(pages[len(mine) : len(found)])
            for path, page in zip(paths, pages.tolist(), strict=True):
                self.cached.setdefault(path, page)
        self.unlock(len(self.held) - 1)

    def lock(self, node: RadixNode) -> None:
        paths = self.paths_to(node)
        before = self.unlocked()
        for path in paths:
            self.locks[path] = self.locks.get(path, 0) + 1
        self.held.append((node, paths[-1] if paths else (None, ())))
        assert self.tree.lock(node) == self.unlocked() - before, "delta of a lock"
        self.check()

    def unlock(self, index: int) -> None:
        node, path = self.held.pop(index)
        before = self.unlocked()
        for prefix in [*self.prefixes(list(path[1]), path[0])]:
            self.locks[prefix] -= 1
        assert self.tree.unlock(node) == self.unlocked() - before, "delta of an unlock"
        self.check()

    def evict(self, tokens: int) -> None:
        room = self.unlocked()
        left, freed = [node.id for node in radix_view(self.tree)], 0
        parents = radix_view(self.tree).parents()
        order = radix_view(self.tree).drain_order()
        gone = self.tree.evict(tokens)
        assert [node.id for node in gone] == order[: len(gone)], "order"
        for node in gone:
            assert freed < tokens, "more leaves than needed"
            assert not any(parents[other].id == node.id for other in left if other in parents), (
                "a parent before its child"
            )
            left.remove(node.id)
            parents.pop(node.id)
            freed += node.end - node.start
            for page in node.pages.tolist():
                path = next(path for path, slot in self.cached.items() if slot == page)
                assert not self.locks.get(path), "locked"
                del self.cached[path]
        assert freed >= min(tokens, room), "too little"
        assert not any(self.is_orphan(path) for path in self.cached), "a hole in a path"
        self.check()

    def is_orphan(self, path: Path) -> bool:
        above = path[0], path[1][: -self.page]
        return len(above[1]) > self.overlap and above not in self.cached

    def paths_to(self, node: RadixNode) -> list[Path]:
        pages = self.tree.pages_to(node).tolist()
        by_page = {page: path for path, page in self.cached.items()}
        return [by_page[page] for page in pages]

    def unlocked(self) -> int:
        return sum(self.page for path in self.cached if not self.locks.get(path))

    def check(self) -> RadixView:
        """The laws, the sizes and every lock, after each operation."""
        view = radix_view(self.tree)
        events, self.seen = self.log[self.seen :], len(self.log)
        assert list(faults(view, events)) == []
        assert (view.evictable, view.protected) == (self.unlocked(), len(self.cached) * self.page - self.unlocked())
        by_page = {page: path for path, page in self.cached.items()}
        for node in view:
            for page in node.pages.tolist():
                assert node.lock_ref == self.locks.get(by_page[page], 0), f"locks of node {node.id}"
        return view


def random_run(seed: int, operations: int) -> None:
    """Random operations on a random kind of tree, every one of them checked."""
    rng = random.Random(seed)
    pair = Pair(rng.choice([1, 1, 2, 4]), rng.randint(6, 30), rng.choice(POLICY_NAMES), rng.random() < 0.3)
    past: list[list[int]] = [[]]
    for _ in range(operations):
        stem = rng.choice(past)
        tokens = stem[: rng.randint(0, len(stem))] + [rng.randrange(3) for _ in range(rng.randint(0, 3 * pair.page))]
        salt = rng.choice([None, None, None, "s"])
        what = rng.random()
        if what < 0.4 and tokens:
            pair.insert(tokens, salt, rng.randint(-1, 2), rng.choice([None, rng.randint(0, len(tokens))]))
            past = [*past[-20:], tokens]
        elif what < 0.7:
            node = pair.match(tokens, salt)
            if rng.random() < 0.4:
                pair.lock(node)
        elif what < 0.9 and pair.held:
            pair.unlock(rng.randrange(len(pair.held)))
        else:
            pair.evict(rng.randint(0, 4 * pair.page))
    while pair.held:
        pair.unlock(0)
    pair.evict(1 << 40)
    assert pair.tree.size == 0, "not drained"
    assert not any(node.lock_ref for node in pair.check() if node.id != pair.tree.root.id), "a lock is left"


def refused(call, *arguments: object) -> str:  # type: ignore[no-untyped-def]
    """The sentence with which `call` is refused."""
    try:
        call(*arguments)
    except UserError as error:
        return str(error)
    raise AssertionError("not refused")


def twins(seed: int, operations: int, policy: str) -> None:
    """A tree that records and one that does not do the same: the lasting heap takes leaves in the order of SGLang's."""
    rng = random.Random(seed)
    page = rng.choice([1, 2])
    recording, silent = (
        RadixTree(SlotPool(page * 30, page), policy, OPTIONS.get(policy), log=log) for log in ([], None)
    )  # fmt: skip
    locked: list[tuple[RadixNode, RadixNode]] = []
    past: list[list[int]] = [[]]
    for _ in range(operations):
        stem = rng.choice(past)
        tokens = stem[: rng.randint(0, len(stem))] + [rng.randrange(3) for _ in range(rng.randint(1, 4))]
        past = [*past[-20:], tokens]
        what, short, priority = rng.random(), rng.randint(0, 6), rng.randint(0, 2)
        pair = []
        for tree in (recording, silent):
            if what < 0.3:
                pair.append(tree.match(radix_key(tokens)).node)
            elif what < 0.8:
                pair.append(_store(tree, tokens, priority))
            else:
                pair.append([node.id for node in tree.evict(short)])
        if what < 0.2:
            locked.append((pair[0], pair[1]))
            recording.lock(pair[0])
            silent.lock(pair[1])
        elif what < 0.8 and locked and rng.random() < 0.5:
            one, other = locked.pop()
            recording.unlock(one)
            silent.unlock(other)
        elif what >= 0.8:
            assert pair[0] == pair[1], "another order"
        ours, theirs = radix_view(recording), radix_view(silent)
        assert ours.drain_order() == theirs.drain_order(), "another tree"
    assert [node.id for node in recording.evict(1 << 40)] == [node.id for node in silent.evict(1 << 40)]


def _store(tree: RadixTree, tokens: list[int], priority: int) -> None:
    key = radix_key(tokens)
    units, size = tree.usable_units(key), tree.pool.page_size
    tree.evict(units - tree.pool.available)
    pages = tree.pool.take(units // size)
    if pages is not None:
        tree.pool.free(pages[: tree.insert(key, pages, priority).present // size])
