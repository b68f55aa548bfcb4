"""What the scheduler asks of a KV cache: `lookup`, `allocate`, `free`. Here over hash-addressed blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from engine.blocks import Block, BlockPool, FreeCause
from engine.config import EngineConfig
from engine.events import BlockCopied, Event, PrefixLookup
from engine.prefix_hash import BlockKey, HashIndex, KeyChain
from engine.request import Request, RequestSpec, RequestStatus

if TYPE_CHECKING:
    from engine.radix_node import RadixNode


@dataclass(frozen=True, slots=True)
class Hit:
    """Longest cached prefix of a request: whole blocks, never covering the last known token. `node`: where it ends."""

    blocks: tuple[Block, ...]
    tokens: int
    node: RadixNode | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why an allocation was refused: `need` free blocks against `have`; `limit` names what is short."""

    need: int
    have: int
    limit: Literal["blocks", "hole"] = "blocks"


NO_HIT = Hit((), 0)


def blocks_for(config: EngineConfig, tokens: int) -> int:
    """Blocks that hold `tokens` positions of a sequence, which is no longer than the longest."""
    size = config.block_size
    return (min(tokens, config.model_len) + size - 1) // size


def peak_blocks(config: EngineConfig, spec: RequestSpec) -> int:
    """Paged: blocks of all positions and of the lookahead slots that the last of them asks for as well."""
    ahead = min(spec.positions + config.num_lookahead_tokens, config.model_len)
    return -(-max(spec.positions, ahead) // config.block_size)


class Queue(Protocol):
    """Free blocks in the order in which they will be handed out; `head` is the first's id, -1 if there is none."""

    @property
    def head(self) -> int: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Block]: ...

    def __contains__(self, block: Block) -> bool: ...


class Pool(Protocol):
    """What scheduler, pictures and laws see of the blocks. `num_free`: how many can be had, by eviction or not."""

    @property
    def blocks(self) -> list[Block]: ...

    @property
    def free_queue(self) -> Queue: ...

    @property
    def changed(self) -> set[Block]: ...

    @property
    def index(self) -> HashIndex: ...

    @property
    def num_free(self) -> int: ...


class KVManager(Protocol):
    """What a scheduler needs of any KV cache."""

    @property
    def pool(self) -> Pool: ...

    @property
    def changed_tables(self) -> set[str] | None:
        """Requests whose block table took a turn since somebody cleared the set; None: any may have."""
        ...

    def note_tokens(self, request: Request) -> None: ...

    def peak_blocks(self, spec: RequestSpec) -> int:
        """Blocks the request holds at most in its life: what must fit the pool if it is alone."""
        ...

    def withdraw(self, request: Request) -> None:
        """Undoes what was published for positions that were scheduled but will not be computed."""
        ...

    def store(self, request: Request) -> None:
        """Makes what is computed of a running request findable, where that is not done when it is scheduled."""
        ...

    def fork(self, parent: Request, child: Request) -> list[Block]:
        """Gives `child` what `parent` owns of computed positions; copies nothing."""
        ...

    def take_copies(self) -> list[tuple[int, int]]:
        """Block copies (source, target) that the step just scheduled needs before anything is written."""
        ...

    def lookup(self, request: Request) -> Hit: ...

    def matched_tokens(self, request: Request) -> int:
        """Tokens that `lookup` would find, for those who only compare requests."""
        ...

    def allocate(
        self, request: Request, tokens: int, hit: Hit = NO_HIT, *, whole: bool = False, reserve: int = 0
    ) -> Shortage | None: ...

    def free(self, request: Request, cause: FreeCause) -> None: ...

    def block_table(self, request_id: str) -> list[Block]: ...


class HashBlocks:
    """Paged KV with a hash prefix cache. Source: vLLM 0.33 `KVCacheManager` with one full-attention group."""

    def __init__(self, config: EngineConfig, log: list[Event] | None, namespace: str = "") -> None:
        self.config = config
        self._block_size = config.block_size
        self.pool = BlockPool(config.num_blocks, config.enable_prefix_caching, log)
        self.chain = KeyChain(config.block_size, namespace)
        self._tables: dict[str, list[Block]] = {}
        self.changed_tables: set[str] = set()
        self._published: dict[str, int] = {}  # request id → how many blocks of its table carry their hash
        self._copies: dict[str, BlockCopied] = {}  # request id → the copy that must come before this step's writes

    @property
    def log(self) -> list[Event] | None:
        return self.pool.log

    def block_table(self, request_id: str) -> list[Block]:
        return self._tables.get(request_id, [])

    def num_published(self, request_id: str) -> int:
        return self._published.get(request_id, 0)

    def note_tokens(self, request: Request) -> None:
        """Extends the request's block keys over the tokens known now (vLLM does so on each append)."""
        full = len(request.token_ids) // self._block_size
        if self.config.enable_prefix_caching and len(request.block_keys) < full:
            self.chain.extend(request.block_keys, request.token_ids, request.spec.adapter, request.spec.salt)

    def lookup(self, request: Request) -> Hit:
        """vLLM `get_computed_blocks`: the longest run from block 0, one token always left to compute."""
        if not self.config.enable_prefix_caching:
            return NO_HIT
        limit = (request.num_tokens - 1) // self.config.block_size
        blocks = self._cached(request, limit)
        hit = Hit(tuple(blocks), len(blocks) * self.config.block_size)
        if self.log is not None:
            resumed = request.status is RequestStatus.PREEMPTED
            ids = tuple(block.id for block in blocks)
            limit_tokens = limit * self.config.block_size
            self.log.append(PrefixLookup(request.id, request.num_tokens, hit.tokens, limit_tokens, ids, resumed))
        return hit

    def matched_tokens(self, request: Request) -> int:
        limit = (request.num_tokens - 1) // self.config.block_size
        return len(self._cached(request, limit)) * self.config.block_size

    def _cached(self, request: Request, limit: int) -> list[Block]:
        """The longest cached run of at most `limit` of the request's blocks."""
        blocks: list[Block] = []
        matched: BlockKey | None = None
        for key in request.block_keys[:limit]:
            block = self.pool.find(key, matched)
            if block is None:
                break
            matched = block.key
            blocks.append(block)
        return blocks

    def allocate(
        self, request: Request, tokens: int, hit: Hit = NO_HIT, *, whole: bool = False, reserve: int = 0
    ) -> Shortage | None:
        """vLLM `allocate_slots`: room for `tokens` more positions after `hit`; None on success.

        `whole`: the request's whole known length must fit (a check, not a reservation). `reserve`: watermark
        blocks that must stay free. Hit blocks that lie in the free queue count as needed, since touching takes
        them out. The check comes first: on a shortage nothing has changed.
        """
        table = self._tables.get(request.id, [])
        computed = request.num_computed_tokens + hit.tokens
        tail = self._shared_tail(table, computed)
        if tail is None and hit is NO_HIT and not whole and self._stays_in_block(table, computed, tokens):
            return None
        held = len(table) + len(hit.blocks)
        in_queue = sum(1 for block in hit.blocks if block.ref_count == 0)
        if whole:
            need = self._blocks_for(request.num_tokens) - held + in_queue + reserve
            if need > self.pool.num_free:
                return Shortage(need, self.pool.num_free)
        new = max(0, self._blocks_for(computed + tokens + self.config.num_lookahead_tokens) - held)
        need = new + in_queue + reserve + (tail is not None)
        if need > self.pool.num_free:
            return Shortage(need, self.pool.num_free)
        if tail is not None:
            self._copy_on_write(request, table, tail, computed)
        self.changed_tables.add(request.id)
        table = self._tables.setdefault(request.id, [])
        if hit.blocks:
            self.pool.touch(hit.blocks, request.id)
            table.extend(hit.blocks)
            self._published[request.id] = len(hit.blocks)
        if new:
            table.extend(self.pool.allocate(new, request.id, len(table)))
        self._publish(request, table, min(computed + tokens, request.num_tokens))
        return None

    def _stays_in_block(self, table: list[Block], computed: int, tokens: int) -> bool:
        """True for most decodes: the slots are there already, and no block gets full."""
        end, size = computed + tokens, self._block_size
        return end // size == computed // size and end + self.config.num_lookahead_tokens <= len(table) * size

    def free(self, request: Request, cause: FreeCause) -> None:
        """Gives the request's blocks back, last block first, so that a chain's tail is reused before its head."""
        table = self._tables.pop(request.id, [])
        self.changed_tables.add(request.id)
        self._published.pop(request.id, None)
        self._copies.pop(request.id, None)
        self.pool.free(table[::-1], request.id, cause)

    def peak_blocks(self, spec: RequestSpec) -> int:
        return peak_blocks(self.config, spec)

    def store(self, request: Request) -> None:
        """Blocks were published when the step that fills them was scheduled."""

    def withdraw(self, request: Request) -> None:
        table = self.block_table(request.id)
        filled = request.num_computed_tokens // self.config.block_size
        for block in table[filled : self.num_published(request.id)]:
            self.pool.withdraw(block, request.id)
        self._published[request.id] = min(filled, self.num_published(request.id))

    def fork(self, parent: Request, child: Request) -> list[Block]:
        """`child` owns what `parent` owns of computed positions: full blocks and part-filled tail, nothing copied."""
        table = self._tables[parent.id][: self._blocks_for(parent.num_computed_tokens)]
        self.pool.share(table)
        self._tables[child.id] = table
        self.changed_tables.add(child.id)
        self._published[child.id] = self._published.get(parent.id, 0)
        return table

    def take_copies(self) -> list[tuple[int, int]]:
        """The (source, target) copies that the step just scheduled needs, in order; whoever takes them makes them.

        Logged only now: a request preempted later in the same schedule takes its copy with it.
        """
        copies = list(self._copies.values())
        self._copies.clear()
        if self.log is not None:
            self.log.extend(copies)
        return [(copy.source, copy.target) for copy in copies]

    def _shared_tail(self, table: list[Block], computed: int) -> int | None:
        """Position in `table` of a part-filled block that others own too and the next write would go to (paper §4.4).

        Only a fork makes one: a prefix hit shares full blocks, which nobody writes to.
        """
        position = computed // self._block_size
        shared = position < len(table) and table[position].ref_count > 1
        return position if shared else None

    def _copy_on_write(self, request: Request, table: list[Block], position: int, computed: int) -> None:
        source = table[position]
        owners, filled = source.ref_count, computed % self.config.block_size
        table[position] = self.pool.copy_on_write(source, request.id, position)
        self._copies[request.id] = BlockCopied(
            source.id, table[position].id, request.id, "shared_tail", filled, owners
        )  # fmt: skip

    def _blocks_for(self, tokens: int) -> int:
        return blocks_for(self.config, tokens)

    def _publish(self, request: Request, table: list[Block], tokens: int) -> None:
        """vLLM `cache_full_blocks`: full blocks get their hash when the filling step is scheduled."""
        if not self.config.enable_prefix_caching:
            return
        full = tokens // self.config.block_size
        done = self._published.get(request.id, 0)
        for index in range(done, full):
            self.pool.publish(table[index], request.block_keys[index], request.id)
        if full > done:
            self._published[request.id] = full


def reservation(kv: KVManager, running: Sequence[Request], request: Request, hit: Hit) -> Shortage | None:
    """Would `request` find a block whenever it needs one, after all that is promised to the running requests?

    Each running request is promised what is missing to its peak. While this holds for everyone admitted, nobody ever
    lacks a block, so that delaying without preempting cannot end in a deadlock.
    """
    promised = sum(kv.peak_blocks(other.spec) - len(kv.block_table(other.id)) for other in running)
    in_queue = sum(1 for block in hit.blocks if block.ref_count == 0)
    need = kv.peak_blocks(request.spec) - len(hit.blocks) + in_queue
    have = kv.pool.num_free - promised
    return None if need <= have else Shortage(need, max(0, have))
