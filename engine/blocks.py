"""Physical blocks, the free queue and the pool: the truth of who holds what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from engine.errors import UserError
from engine.events import (
    BlockAllocated,
    BlockFreed,
    BlockPublished,
    BlockTouched,
    Event,
    HashEvicted,
    PublicationWithdrawn,
)
from engine.prefix_hash import BlockKey, HashIndex

NULL_BLOCK = 0
FreeCause = Literal["finished", "aborted", "preempted", "swapped"]


class Block:
    """One physical block: its owners' count, the key it is published under, and its links in the free queue."""

    __slots__ = ("id", "key", "next", "prev", "ref_count")

    def __init__(self, block_id: int) -> None:
        self.id = block_id
        self.ref_count = 0
        self.key: BlockKey | None = None
        self.prev: Block | None = None
        self.next: Block | None = None

    def __repr__(self) -> str:
        return f"Block({self.id}, ref={self.ref_count})"


class FreeQueue:
    """Doubly linked list threaded through the blocks themselves, so that leaving from the middle is O(1).

    Source: vLLM 0.33 `FreeKVCacheBlockQueue`. The head is handed out next. A block whose link to the next one changes
    is put into `changed`.
    """

    def __init__(self, blocks: Iterable[Block], changed: set[Block]) -> None:
        self._changed = changed
        self._head, self._tail = Block(-1), Block(-1)
        self._head.next, self._tail.prev = self._tail, self._head
        self._count = 0
        self.append(blocks)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, block: Block) -> bool:
        """True if the block is linked and its neighbours say so too."""
        before, after = block.prev, block.next
        return before is not None and after is not None and before.next is block and after.prev is block

    @property
    def head(self) -> int:
        """Id of the block that is handed out next, -1 if there is none."""
        assert self._head.next is not None
        return self._head.next.id

    def __iter__(self) -> Iterator[Block]:
        block = self._head.next
        while block is not self._tail:
            assert block is not None
            yield block
            block = block.next

    def pop_head(self) -> Block:
        block = self._head.next
        assert block is not None
        assert block is not self._tail
        self.remove(block)
        return block

    def remove(self, block: Block) -> None:
        assert block.prev is not None
        assert block.next is not None
        self._changed.add(block.prev)
        self._changed.add(block)
        block.prev.next, block.next.prev = block.next, block.prev
        block.prev = block.next = None
        self._count -= 1

    def prepend(self, blocks: Sequence[Block]) -> None:
        """Puts `blocks` before the head, in their order: the first of them is handed out next."""
        for block in reversed(blocks):
            assert self._head.next is not None
            self._insert(self._head, block, self._head.next)

    def append(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            assert self._tail.prev is not None
            self._insert(self._tail.prev, block, self._tail)

    def _insert(self, before: Block, block: Block, after: Block) -> None:
        self._changed.add(before)
        self._changed.add(block)
        block.prev, block.next = before, after
        before.next = after.prev = block
        self._count += 1


class BlockPool:
    """All blocks of one KV cache. Source: vLLM 0.33 `BlockPool`.

    Block 0 is the null block: never free, never owned. Each change is appended to `log` (None = not recording).
    `changed` holds the blocks whose count, key or place changed since somebody last cleared it.
    """

    def __init__(self, num_blocks: int, enable_caching: bool, log: list[Event] | None) -> None:
        self.changed: set[Block] = set()
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.free_queue = FreeQueue(self.blocks[1:], self.changed)
        self.index = HashIndex()
        self.enable_caching = enable_caching
        self.log = log

    @property
    def num_free(self) -> int:
        return len(self.free_queue)

    @property
    def usage(self) -> float:
        """Share of the usable blocks that have an owner; cached but free blocks do not count."""
        return 1.0 - self.num_free / (len(self.blocks) - 1)

    def get(self, block_id: int) -> Block:
        """The usable block of that id; the null block and foreign ids are refused by name."""
        if not NULL_BLOCK < block_id < len(self.blocks):
            raise UserError("block.unknown", block=block_id, last=len(self.blocks) - 1)
        return self.blocks[block_id]

    def find(self, key: BlockKey, parent: BlockKey | None) -> Block | None:
        """The block that holds `key`'s content, oldest first; `parent` is the entry the previous block matched."""
        block_id = self.index.find(key, parent)
        return None if block_id is None else self.blocks[block_id]

    def allocate(self, count: int, request: str, first_position: int) -> list[Block]:
        """Takes `count` blocks from the head of the free queue, all or none; only here cached content is forgotten."""
        if count > self.num_free:
            raise UserError("block.exhausted", need=count, have=self.num_free)
        taken = []
        for position in range(first_position, first_position + count):
            block = self.free_queue.pop_head()
            self._forget(block, request)
            block.ref_count = 1
            taken.append(block)
            if self.log is not None:
                self.log.append(BlockAllocated(block.id, request, position))
        return taken

    def take(self, first: int, count: int, request: str) -> list[Block]:
        """Takes a run of neighbours from wherever they lie in the free queue (the contiguous baseline), all or none."""
        run = [self.get(block_id) for block_id in range(first, first + count)]
        for block in run:
            if block.ref_count:
                raise UserError("block.not_free", block=block.id)
        for position, block in enumerate(run):
            self.free_queue.remove(block)
            self._forget(block, request)
            block.ref_count = 1
            if self.log is not None:
                self.log.append(BlockAllocated(block.id, request, position))
        return run

    def withdraw(self, block: Block, request: str) -> None:
        """Takes back a publication whose block will not be filled after all."""
        assert block.key is not None
        self.index.remove(block.key, block.id)
        self.changed.add(block)
        if self.log is not None:
            self.log.append(PublicationWithdrawn(block.id, block.key.short, request))
        block.key = None

    def touch(self, blocks: Iterable[Block], request: str) -> None:
        """One owner more for each block; one that lay in the free queue leaves it from wherever it is."""
        for block in blocks:
            revived = block.ref_count == 0
            if revived:
                self.free_queue.remove(block)
            block.ref_count += 1
            self.changed.add(block)
            if self.log is not None:
                self.log.append(BlockTouched(block.id, request, block.ref_count, revived))

    def share(self, blocks: Sequence[Block]) -> None:
        """One owner more for each of a table's blocks (fork). Refused as a whole if one of them has no owner."""
        for block in blocks:
            if self.get(block.id) is not block or block.ref_count == 0:
                raise UserError("block.unowned", block=block.id)
        for block in blocks:
            block.ref_count += 1
        self.changed.update(blocks)

    def copy_on_write(self, block: Block, request: str, position: int) -> Block:
        """A block of its own for one of the owners of `block`, who gives up its share (PagedAttention paper, §4.4).

        Refused, with nothing changed, when the pool is empty or there is nobody to share with. The caller copies the
        content.
        """
        if block.ref_count < 2:
            raise UserError("block.not_shared", block=block.id)
        (target,) = self.allocate(1, request, position)
        block.ref_count -= 1
        self.changed.add(block)
        return target

    def publish(self, block: Block, key: BlockKey, request: str) -> None:
        """Makes a full block findable. Several blocks may hold the same content; none is merged away."""
        assert block.key is None
        block.key = key
        self.changed.add(block)
        duplicate = self.index.add(key, block.id)
        if self.log is not None:
            self.log.append(BlockPublished(block.id, key.short, request, duplicate))

    def free(self, blocks: Sequence[Block], request: str, cause: FreeCause) -> None:
        """One owner less for each block, in the given order (callers pass the block table reversed).

        Blocks that reach 0 join the free queue: unpublished ones at the head, published ones at the tail.
        Refused as a whole, with the block's name, if one of them has no owner left to give.
        """
        self._check_owned(blocks)
        self.changed.update(blocks)
        to_head: list[Block] = []
        to_tail: list[Block] = []
        for block in blocks:
            block.ref_count -= 1
            end: Literal["head", "tail"] | None = None
            if block.ref_count == 0:
                end = "tail" if block.key is not None and self.enable_caching else "head"
                (to_tail if end == "tail" else to_head).append(block)
            if self.log is not None:
                self.log.append(BlockFreed(block.id, request, block.ref_count, end, cause))
        self.free_queue.prepend(to_head)
        self.free_queue.append(to_tail)

    def is_writable(self, block: Block) -> bool:
        """True if a single owner may write: nobody shares the block and nothing was published."""
        return block.id != NULL_BLOCK and block.ref_count == 1 and block.key is None

    def _check_owned(self, blocks: Sequence[Block]) -> None:
        given: dict[int, int] = {}
        for block in blocks:
            if self.get(block.id) is not block:
                raise UserError("block.unknown", block=block.id, last=len(self.blocks) - 1)
            given[block.id] = given.get(block.id, 0) + 1
            if given[block.id] > block.ref_count:
                raise UserError("block.double_free", block=block.id)

    def _forget(self, block: Block, request: str) -> None:
        if block.key is None:
            return
        self.index.remove(block.key, block.id)
        if self.log is not None:
            self.log.append(HashEvicted(block.id, block.key.short, request))
        block.key = None
