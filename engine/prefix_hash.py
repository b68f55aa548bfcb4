"""Chained block hashes: a full block of tokens is named by its content and everything before it.

The digest is vLLM 0.33's own default (`kv_cache_utils.hash_block_tokens`, sha256 over pickle protocol 5), so that
a hash shown here can be compared with a log.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable

Extra = tuple[tuple[str, str], ...] | None
Hasher = Callable[[object], bytes]


def sha256_pickle(value: object) -> bytes:
    """vLLM 0.33 `sha256`: digest of the pickled value."""
    return hashlib.sha256(pickle.dumps(value, protocol=5)).digest()


class BlockKey:
    """What a block's KV depends on: the parent block's key, exact tokens, and extra (adapter, salt).

    `parent_digest` is what was hashed for the parent: the chain's root for a first block.
    """

    __slots__ = ("digest", "extra", "parent", "parent_digest", "tokens")

    def __init__(
        self, parent: BlockKey | None, root: bytes, tokens: tuple[int, ...], extra: Extra, hasher: Hasher
    ) -> None:
        self.parent = parent
        self.parent_digest: bytes = root if parent is None else parent.digest
        self.tokens = tokens
        self.extra = extra
        self.digest: bytes = hasher((self.parent_digest, tokens, extra))

    @property
    def short(self) -> str:
        """First 12 hex digits, for people."""
        return self.digest.hex()[:12]

    def same_content(self, other: BlockKey) -> bool:
        """True if both name the same tokens after the same prefix, whatever the hash function says."""
        mine: BlockKey | None = self
        theirs: BlockKey | None = other
        while mine is not theirs:
            if mine is None or theirs is None or mine.tokens != theirs.tokens or mine.extra != theirs.extra:
                return False
            if mine.parent is None and mine.parent_digest != theirs.parent_digest:
                return False
            mine, theirs = mine.parent, theirs.parent
        return True


class KeyChain:
    """Makes the keys of one namespace. `namespace` "" is vLLM's; any other gets a root of its own."""

    def __init__(self, block_size: int, namespace: str = "", hasher: Hasher = sha256_pickle) -> None:
        self.block_size = block_size
        self.hasher = hasher
        seed = "vllm-none-hash" if not namespace else f"vllm-none-hash/{namespace}"
        self.root = hasher(seed)

    def extend(self, keys: list[BlockKey], token_ids: list[int], adapter: str | None, salt: str | None) -> None:
        """Appends to `keys` one key for each full block of `token_ids` that has none yet."""
        size = self.block_size
        for index in range(len(keys), len(token_ids) // size):
            tokens = tuple(token_ids[index * size : (index + 1) * size])
            parent = keys[-1] if keys else None
            keys.append(BlockKey(parent, self.root, tokens, _extra(index, adapter, salt), self.hasher))


def _extra(index: int, adapter: str | None, salt: str | None) -> Extra:
    """Tagged, so that an adapter and a salt of one name differ; the salt only in the first block: the rest chain."""
    parts: list[tuple[str, str]] = []
    if adapter is not None:
        parts.append(("adapter", adapter))
    if salt is not None and index == 0:
        parts.append(("cache_salt", salt))
    return tuple(parts) or None


class HashIndex:
    """Digest → the blocks published under it, oldest first."""

    def __init__(self) -> None:
        self._entries: dict[bytes, dict[int, BlockKey]] = {}
        self._shared: set[bytes] = set()  # digests that several blocks hold

    def __len__(self) -> int:
        return sum(len(blocks) for blocks in self._entries.values())

    def add(self, key: BlockKey, block_id: int) -> bool:
        """Returns True if another block already holds the same digest."""
        blocks = self._entries.setdefault(key.digest, {})
        blocks[block_id] = key
        if len(blocks) == 1:
            return False
        self._shared.add(key.digest)
        return True

    def remove(self, key: BlockKey, block_id: int) -> None:
        blocks = self._entries[key.digest]
        del blocks[block_id]
        if len(blocks) == 1:
            self._shared.discard(key.digest)
        elif not blocks:
            del self._entries[key.digest]

    def find(self, key: BlockKey, parent: BlockKey | None) -> int | None:
        """First block whose content is `key`'s. `parent`: the published key that the previous block matched.

        Tokens and chain are compared too: a colliding hash must never give foreign KV.
        """
        for block_id, published in self._entries.get(key.digest, {}).items():
            if published.tokens == key.tokens and published.extra == key.extra:
                if published.parent is not None and published.parent is parent:
                    return block_id
                if published.same_content(key):
                    return block_id
        return None

    def duplicates(self) -> dict[str, tuple[int, ...]]:
        """Short hashes that several blocks hold, with the blocks oldest first."""
        groups = [self._entries[digest] for digest in self._shared]
        return {next(iter(blocks.values())).short: tuple(blocks) for blocks in groups}
