"""The block pool by itself: refusals change nothing, order is vLLM's."""

import pytest

from engine.blocks import Block, BlockPool
from engine.errors import UserError
from engine.prefix_hash import BlockKey, KeyChain


def pool_of(usable: int) -> BlockPool:
    return BlockPool(usable + 1, enable_caching=True, log=[])


def queue(pool: BlockPool) -> list[int]:
    return [block.id for block in pool.free_queue]


def keys_for(tokens: list[int], size: int = 4) -> list[BlockKey]:
    keys: list[BlockKey] = []
    KeyChain(size).extend(keys, tokens, None, None)
    return keys


class TestDoubleFree:
    """Case O01."""

    def test_second_release_is_refused_by_name(self) -> None:
        pool = pool_of(4)
        (block,) = pool.allocate(1, "A", 0)
        pool.free([block], "A", "finished")
        before = queue(pool)
        with pytest.raises(UserError, match=f"Block {block.id} is already free"):
            pool.free([block], "A", "finished")
        assert queue(pool) == before
        assert pool.num_free == 4

    def test_one_block_twice_in_a_call_is_refused_whole(self) -> None:
        pool = pool_of(4)
        (block,) = pool.allocate(1, "A", 0)
        with pytest.raises(UserError, match="already free"):
            pool.free([block, block], "A", "finished")
        assert block.ref_count == 1
        assert pool.num_free == 3

    def test_never_handed_out_and_foreign_blocks_are_refused(self) -> None:
        pool = pool_of(4)
        with pytest.raises(UserError, match="Block 3 is already free"):
            pool.free([pool.blocks[3]], "A", "finished")
        for foreign in (Block(2), Block(99), pool.blocks[0]):
            foreign.ref_count = 1
            with pytest.raises(UserError, match=f"Block {foreign.id} is not one of this pool's blocks 1–4"):
                pool.free([foreign], "A", "finished")
        assert queue(pool) == [1, 2, 3, 4]

    def test_then_four_takes_and_no_fifth(self) -> None:
        pool = pool_of(4)
        (block,) = pool.allocate(1, "A", 0)
        pool.free([block], "A", "finished")
        assert {taken.id for taken in pool.allocate(4, "A", 0)} == {1, 2, 3, 4}
        with pytest.raises(UserError, match="1 blocks were asked for, but only 0 are free"):
            pool.allocate(1, "A", 0)


def test_allocation_is_all_or_nothing() -> None:
    pool = pool_of(3)
    with pytest.raises(UserError):
        pool.allocate(4, "A", 0)
    assert queue(pool) == [1, 2, 3]
    assert not any(block.ref_count for block in pool.blocks)


def test_unpublished_go_to_the_head_and_published_to_the_tail() -> None:
    pool = pool_of(6)
    table = pool.allocate(3, "A", 0)
    for block, key in zip(table, keys_for(list(range(8))), strict=False):
        pool.publish(block, key, "A")
    pool.free(table[::-1], "A", "finished")
    assert queue(pool) == [3, 4, 5, 6, 2, 1]


def test_touch_takes_a_block_from_the_middle_of_the_queue() -> None:
    pool = pool_of(5)
    table = pool.allocate(3, "A", 0)
    for block, key in zip(table, keys_for(list(range(12))), strict=True):
        pool.publish(block, key, "A")
    pool.free(table[::-1], "A", "finished")
    assert queue(pool) == [4, 5, 3, 2, 1]
    pool.touch([pool.blocks[2]], "B")
    assert queue(pool) == [4, 5, 3, 1]
    assert pool.blocks[2].ref_count == 1


def test_a_hash_is_forgotten_only_when_the_block_is_handed_out_again() -> None:
    pool = pool_of(2)
    (first,) = pool.allocate(1, "A", 0)
    (key,) = keys_for([1, 2, 3, 4])
    pool.publish(first, key, "A")
    pool.free([first], "A", "finished")
    assert pool.find(key, None) is first
    pool.allocate(1, "B", 0)
    assert pool.find(key, None) is first
    pool.allocate(1, "B", 1)
    assert pool.find(key, None) is None
    assert len(pool.index) == 0


def test_writable_means_sole_owner_and_unpublished() -> None:
    pool = pool_of(3)
    (block,) = pool.allocate(1, "A", 0)
    assert pool.is_writable(block)
    pool.touch([block], "B")
    assert not pool.is_writable(block)
    pool.free([block], "B", "finished")
    (key,) = keys_for([1, 2, 3, 4])
    pool.publish(block, key, "A")
    assert not pool.is_writable(block)
    assert not pool.is_writable(pool.blocks[0])


class TestDuplicates:
    def test_oldest_survivor_is_found(self) -> None:
        pool = pool_of(4)
        one, two = pool.allocate(2, "A", 0)
        (key,) = keys_for([1, 2, 3, 4])
        pool.publish(one, key, "A")
        pool.publish(two, key, "B")
        assert pool.index.duplicates() == {key.short: (1, 2)}
        assert pool.find(key, None) is one
        pool.free([one], "A", "finished")
        pool.allocate(3, "C", 0)
        assert pool.find(key, None) is two
        assert pool.index.duplicates() == {}


def test_a_colliding_hash_never_gives_foreign_blocks() -> None:
    chain = KeyChain(2, hasher=lambda value: b"same")
    pool = pool_of(4)
    mine: list[BlockKey] = []
    chain.extend(mine, [1, 2, 3, 4], None, None)
    for block, key in zip(pool.allocate(2, "A", 0), mine, strict=True):
        pool.publish(block, key, "A")
    other: list[BlockKey] = []
    chain.extend(other, [9, 9, 3, 4], None, None)
    assert pool.find(other[0], None) is None
    assert pool.find(other[1], None) is None, "same tokens after another prefix"
    same: list[BlockKey] = []
    chain.extend(same, [1, 2, 3, 4], None, None)
    first = pool.find(same[0], None)
    assert first is not None
    assert pool.find(same[1], first.key) is pool.blocks[2]
