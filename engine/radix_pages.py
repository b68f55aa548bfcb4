"""Paged KV with a radix prefix cache: lookup → lock → allocate → store what is computed → unlock.

Source: SGLang 0.5.23 `RadixCache.checkpoint`, `common.release_kv_cache` and its allocators. A block is a page of the
tree's pool. Nothing is findable before it is computed, and the last sampled token, which has no KV, never is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine import radix_rows
from engine.blocks import Block, FreeCause
from engine.config import EngineConfig
from engine.errors import UserError
from engine.events import BlockAllocated, BlockTouched, Event, PrefixLookup
from engine.kv_manager import NO_HIT, Hit, Shortage, blocks_for, peak_blocks
from engine.prefix_hash import HashIndex
from engine.prefix_radix import RadixTree
from engine.radix_events import RowReleased
from engine.radix_key import RadixKey, radix_key
from engine.radix_node import RadixNode
from engine.radix_rows import RadixRow
from engine.request import Request, RequestSpec, RequestStatus
from engine.slots import NO_IDS, Ids, SlotPool


class FreePages:
    """The allocator's free list, seen as a queue of blocks: the head is handed out next."""

    def __init__(self, slots: SlotPool, blocks: list[Block]) -> None:
        self._slots = slots
        self._blocks = blocks

    def __len__(self) -> int:
        return self._slots.num_free_pages

    def __iter__(self) -> Iterator[Block]:
        return (self._blocks[page] for page in self._slots.free_pages().tolist())

    def __contains__(self, block: Block) -> bool:
        return block.id > 0 and self._slots.is_free(block.id)

    @property
    def head(self) -> int:
        return next((block.id for block in self), -1)


class PagePool:
    """A block for each page. `ref_count` is the number of block tables that list it; what only the tree holds has 0.

    `changed` holds the blocks whose count changed since somebody last cleared it.
    """

    def __init__(self, tree: RadixTree) -> None:
        self._tree = tree
        self.blocks = [Block(page) for page in range(tree.pool.num_pages + 1)]
        self.free_queue = FreePages(tree.pool, self.blocks)
        self.changed: set[Block] = set()
        self.index = HashIndex()  # nothing is found by hash

    @property
    def num_free(self) -> int:
        """Pages to be had: those free, and those an eviction would free."""
        return self._tree.pool.num_free_pages + self._tree.evictable // self._tree.pool.page_size

    def blocks_of(self, pages: Ids) -> list[Block]:
        return [self.blocks[page] for page in pages.tolist()]


class RadixPages:
    """What the scheduler asks, answered by a radix tree. Without prefix caching rows lock and store nothing."""

    def __init__(self, config: EngineConfig, log: list[Event] | None) -> None:
        self.config = config
        self.log = log
        slots = SlotPool(config.usable_blocks * config.block_size, config.block_size)
        self.tree = RadixTree(slots, config.eviction_policy, log=log)
        self.pool = PagePool(self.tree)
        self._rows: dict[str, RadixRow] = {}
        self._tables: dict[str, _Table] = {}

    @property
    def changed_tables(self) -> None:
        """Any table may have changed."""

    def block_table(self, request_id: str) -> list[Block]:
        """Read off the row at any time, so that no table ever names a page after its row has let go of it."""
        row = self._rows.get(request_id)
        if row is None:
            return []
        table = self._tables[request_id]
        return table.blocks if table.pages is row.pages else self.pool.blocks_of(row.pages)

    def num_stored(self, request_id: str) -> int:
        """Positions of the request that lie in the tree's pages: nobody writes there."""
        row = self._rows.get(request_id)
        return 0 if row is None else row.owned

    def note_tokens(self, request: Request) -> None:
        """Keys are made when they are asked for."""

    def peak_blocks(self, spec: RequestSpec) -> int:
        return peak_blocks(self.config, spec)

    def withdraw(self, request: Request) -> None:
        """Nothing is stored before it is computed."""

    def fork(self, parent: Request, child: Request) -> list[Block]:
        """A part-filled page has one owner in SGLang: refused at intake (`branching.check_engine`)."""
        raise UserError("fork.engine", id=parent.id, field="cache", value="radix", needed="hash")

    def take_copies(self) -> list[tuple[int, int]]:
        return []

    def match(self, request: Request) -> RadixNode:
        """Where the longest usable prefix ends; the whole path counts as accessed (`match_prefix`)."""
        if not self.config.enable_prefix_caching:
            return self.tree.root
        return self.tree.match(self._key(request, request.num_tokens - 1), request.id).node

    def matched_tokens(self, request: Request) -> int:
        return self.match(request).end

    def lookup(self, request: Request) -> Hit:
        """SGLang `init_next_round_input`: whole pages of what is known but for its last token, which is computed."""
        if not self.config.enable_prefix_caching:
            return NO_HIT
        node = self.match(request)
        blocks = tuple(self.pool.blocks_of(self.tree.pages_to(node)))
        if self.log is not None:
            size = self.config.block_size
            limit = (request.num_tokens - 1) // size * size
            resumed = request.status is RequestStatus.PREEMPTED
            ids = tuple(block.id for block in blocks)
            self.log.append(PrefixLookup(request.id, request.num_tokens, node.end, limit, ids, resumed))
        return Hit(blocks, node.end, node)

    def allocate(
        self, request: Request, tokens: int, hit: Hit = NO_HIT, *, whole: bool = False, reserve: int = 0
    ) -> Shortage | None:
        """Room for `tokens` more positions after `hit`, whose path is locked first; None on success.

        Locking takes the hit's evictable pages away from what can be had, so they count as needed. The check comes
        first: on a shortage nothing has changed.
        """
        row = self._rows.get(request.id)
        held = len(hit.blocks) if row is None else len(row.pages)
        end = request.num_computed_tokens + hit.tokens + tokens + self.config.num_lookahead_tokens
        locked = sum(1 for block in hit.blocks if block.ref_count == 0) + reserve
        need = max(0, blocks_for(self.config, end) - held) + locked
        if whole:
            need = max(need, blocks_for(self.config, request.num_tokens) - held + locked)
        if need > self.pool.num_free:
            return Shortage(need, self.pool.num_free)
        if row is None:
            row = self._start(request, hit)
        missing = radix_rows.grow(self.tree, row, min(end, self.config.model_len))
        assert not missing, "unlocked leaves did not add up to what is evictable"
        self._note_growth(request.id, row)
        return None

    def store(self, request: Request) -> None:
        """Gives the full pages computed so far to the tree (`checkpoint`): after each chunk, so that others can hit."""
        if self.config.enable_prefix_caching:
            row = self._rows[request.id]
            key = self._key(request, request.num_computed_tokens)
            radix_rows.checkpoint(self.tree, row, key, prompt_tokens=request.num_prompt_tokens)
            self._recount(request.id, row.pages)

    def free(self, request: Request, cause: FreeCause) -> None:
        """Ends a row. What it computed is stored first, unless it was preempted: then the room is wanted at once."""
        row = self._rows.get(request.id)
        if row is None:
            return
        if cause != "preempted":
            self.store(request)
        stored, size = row.pages[: row.owned // self.config.block_size], self.config.block_size
        freed = row.pages[row.owned // size :]
        self._recount(request.id, NO_IDS)
        del self._rows[request.id], self._tables[request.id]
        radix_rows.release(self.tree, row)
        if self.log is not None:
            self.log.append(RowReleased(request.id, cause, tuple(stored.tolist()), tuple(freed.tolist())))

    def _key(self, request: Request, tokens: int) -> RadixKey:
        return radix_key(request.token_ids, request.spec.adapter, request.spec.salt).first(tokens)

    def _start(self, request: Request, hit: Hit) -> RadixRow:
        node = hit.node or self.tree.root
        self.tree.lock(node, request.id)
        # A low number is important here, as in vLLM; SGLang evicts low numbers first.
        row = RadixRow(request.id, self.tree.pages_to(node), node, node.end, priority=-request.spec.priority)
        self._rows[request.id] = row
        self._tables[request.id] = _Table(NO_IDS, [])
        if self.log is not None:
            for block in hit.blocks:
                self.log.append(BlockTouched(block.id, request.id, block.ref_count + 1, revived=block.ref_count == 0))
        self._recount(request.id, row.pages)
        return row

    def _note_growth(self, request_id: str, row: RadixRow) -> None:
        before = len(self._tables[request_id].pages)
        if len(row.pages) == before:
            return
        if self.log is not None:
            for position, page in enumerate(row.pages[before:].tolist(), before):
                self.log.append(BlockAllocated(page, request_id, position))
        self._recount(request_id, row.pages)

    def _recount(self, request_id: str, pages: Ids) -> None:
        """The request's table lists `pages` now: owners are counted where it differs from what it was."""
        old = self._tables[request_id]
        shared = min(len(old.pages), len(pages))
        differs = np.flatnonzero(old.pages[:shared] != pages[:shared])
        since = int(differs[0]) if len(differs) else shared
        come = self.pool.blocks_of(pages[since:])
        for block in old.blocks[since:]:
            block.ref_count -= 1
            self.pool.changed.add(block)
        for block in come:
            block.ref_count += 1
            self.pool.changed.add(block)
        self._tables[request_id] = _Table(pages, [*old.blocks[:since], *come])


class _Table:
    """A block table as it was counted: the row's pages, and their blocks."""

    __slots__ = ("blocks", "pages")

    def __init__(self, pages: Ids, blocks: list[Block]) -> None:
        self.pages = pages
        self.blocks = blocks
