"""What a running request holds of a radix cache: a lock on its prefix, and the pages of its row.

A row's first `owned` units lie in the tree's pages, which others may read too; the rest are its own until a checkpoint
gives them to the tree. Source: SGLang 0.5.23 `RadixCache.checkpoint`, `_insert_cache`, `common.release_kv_cache`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.prefix_radix import RadixTree
from engine.radix_events import DuplicatesFreed
from engine.radix_key import RadixKey
from engine.radix_node import RadixNode
from engine.slots import Ids


@dataclass(slots=True)
class RadixRow:
    """`pages` in the order of positions; `node` carries the row's lock; this request has stored `inserted` units."""

    request: str
    pages: Ids
    node: RadixNode
    owned: int
    inserted: int = 0
    priority: int = 0


def start(tree: RadixTree, request: str, key: RadixKey, priority: int = 0) -> RadixRow:
    """Finds and locks the longest cached prefix of `key`, which leaves out the last token: one is always computed."""
    match = tree.match(key, request)
    tree.lock(match.node, request)
    return RadixRow(request, tree.pages_to(match.node), match.node, match.usable, priority=priority)


def grow(tree: RadixTree, row: RadixRow, positions: int) -> int:
    """Room for `positions` positions in all, evicting what is short. Returns how many tokens are still missing.

    0 on success; otherwise the row has not grown, but what could be evicted is gone (as in SGLang).
    """
    need = -(-positions // tree.pool.page_size) - len(row.pages)
    if need <= 0:
        return 0
    short = need * tree.pool.page_size - tree.pool.available
    if short > 0:
        tree.evict(short, row.request)
    fresh = tree.pool.take(need)
    if fresh is None:
        return need * tree.pool.page_size - tree.pool.available
    row.pages = np.concatenate([row.pages, fresh])
    return 0


def checkpoint(tree: RadixTree, row: RadixRow, key: RadixKey, prompt_tokens: int | None = None) -> None:
    """Gives the whole pages of `key` (positions that have their KV) to the tree and moves the lock to their end.

    Where the tree had them already, the row is pointed at the tree's pages first; only then are its own freed. A part
    page at the end stays the row's. `prompt_tokens` marks the prompt's end for a reply that may go alone.
    """
    size = tree.pool.page_size
    units = tree.usable_units(key)
    stored = tree.insert(
        key, row.pages, row.priority, row.inserted, prompt_tokens=prompt_tokens, request=row.request
    )  # fmt: skip
    row.inserted = max(row.inserted, units)
    duplicates = row.pages[row.owned // size : stored.present // size]
    node = tree.match(key, row.request).node
    row.pages = np.concatenate([tree.pages_to(node), row.pages[units // size :]])
    row.owned = units
    tree.pool.free(duplicates)
    if len(duplicates) and tree.log is not None:
        tree.log.append(DuplicatesFreed(row.request, tuple(duplicates.tolist())))
    tree.unlock(row.node, row.request)
    tree.lock(node, row.request)
    row.node = node


def release(tree: RadixTree, row: RadixRow) -> None:
    """Frees what the tree does not own and drops the lock: after a last checkpoint, or at once when preempted."""
    tree.pool.free(row.pages[row.owned // tree.pool.page_size :])
    tree.unlock(row.node, row.request)
    row.pages = row.pages[:0]
    row.node = tree.root
    row.owned = 0
