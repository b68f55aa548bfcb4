"""Where two configurations part: the step, the request, what each did, and the limit with its numbers."""

from __future__ import annotations

from engine.events import WaitReason
from engine.request import RequestSpec
from scenarios.difference import Difference, first_difference
from tests.engine.replay import engine_of, run, spec

ROOM: dict[str, object] = {"block_size": 4, "num_blocks": 17, "max_num_batched_tokens": 16, "max_num_seqs": 4}
TWO = (spec("A", 8, 9), spec("B", 8, 9))


def part(a: dict[str, object], b: dict[str, object], *specs: RequestSpec) -> Difference | None:
    """The first difference between two runs of `specs` in ROOM with the changes `a` and `b`."""
    engines = [engine_of(**{**ROOM, **changes}) for changes in (a, b)]
    runs = [run(engine, *specs) for engine in engines]
    return first_difference(*runs, *(engine.config for engine in engines))


def told(found: Difference | None) -> tuple[int, str, str]:
    assert found is not None
    return found.step, found.kind, found.request


def test_equal_configurations_do_not_part() -> None:
    assert part({}, {}, *TWO) is None
    assert part({}, {"watermark": 0.1}, spec("A", 8, 9)) is None, "a setting that decides nothing here"
    assert part({}, {}) is None


def test_sequence_limit() -> None:
    found = part({}, {"max_num_seqs": 1}, *TWO)
    assert told(found) == (0, "admission", "B")
    assert found is not None
    assert (found.a.limit, found.b.limit) == (None, WaitReason("sequences", need=1, have=1))
    assert str(found.why) == (
        "The first difference is at step 0, about request B. Side A admits it (2 run, max_num_seqs is 4). "
        "Side B lets it wait (sequence limit, 1 of 1 running)."
    )


def test_token_budget() -> None:
    """A takes 8 of either budget; of B's 8 the smaller leaves 4."""
    found = part({}, {"max_num_batched_tokens": 12}, *TWO)
    assert told(found) == (0, "tokens", "B")
    assert found is not None
    assert (found.a.limit, found.b.limit) == (None, WaitReason("tokens", need=8, have=4))
    assert "8 are left, but others take 8 of the step's token budget of 12" in str(found.b.because)
    assert "all 8 that are left of it" in str(found.a.because)


def test_long_prefill_threshold_is_the_cause_and_what_follows_is_not() -> None:
    """A's tokens are cut first, which leaves blocks and budget to B: A is named."""
    found = part({}, {"long_prefill_token_threshold": 3}, *TWO)
    assert told(found) == (0, "tokens", "A")
    assert found is not None and found.b.limit == WaitReason("tokens", need=8, have=3)
    assert "long_prefill_token_threshold is 3" in str(found.why)


def test_who_ran_already_is_named_before_who_is_let_in() -> None:
    """Alone, A fills the budget on both sides. With B there, b cuts A to 3 tokens, and so lets B in."""
    tight, specs = {"max_num_batched_tokens": 8}, (spec("A", 30, 1), spec("B", 4, 1, arrival_step=1))
    cut = {**tight, "long_prefill_token_threshold": 3}
    assert told(part(tight, cut, *specs)) == told(part(cut, tight, *specs)) == (1, "tokens", "A")


def test_preemption_names_who_needed_what() -> None:
    """5 blocks: at step 1 A takes the fifth and B, which needs one too, gives way itself."""
    found = part({}, {"num_blocks": 6, "enable_prefix_caching": True}, *TWO)
    assert told(found) == (1, "preemption", "B")
    assert found is not None and found.b.account.preempted is not None
    assert found.b.limit == WaitReason("blocks", need=1, have=0)
    assert "loses" not in str(found.a.did) and "8 computed positions are lost" in str(found.b.did)
    assert "B needed 1 free blocks, 0 were free; B gives way by the rule last_admitted" in str(found.b.because)
    assert "10 of 16 blocks are free afterwards" in str(found.a.because)


def test_how_room_is_made() -> None:
    tight = {"num_blocks": 6, "enable_prefix_caching": False}
    found = part({**tight, "preemption": "swap"}, tight, *TWO)
    assert told(found) == (1, "preemption", "B")
    assert found is not None
    assert (found.a.account.swapped, found.b.account.swapped) == (True, False)
    assert "host memory" in str(found.a.did) and "lost" in str(found.b.did)


def test_whom_the_victim_rule_chooses() -> None:
    """8 blocks. In step 5 C (12 positions, 3 blocks) needs a fourth: B (12) was admitted last, A (8) did the least."""
    tight = {"num_blocks": 9, "enable_prefix_caching": False}
    specs = spec("C", 8, 9), spec("A", 5, 9, arrival_step=1), spec("B", 9, 9, arrival_step=2)
    found = part(tight, {**tight, "victim": "least_progress"}, *specs)
    assert told(found) == (5, "preemption", "A")
    assert found is not None
    assert found.a.limit == found.b.limit == WaitReason("blocks", need=1, have=0)
    assert "B gives way by the rule last_admitted" in str(found.a.because)
    assert "A gives way by the rule least_progress" in str(found.b.because)


def test_what_the_cache_gave() -> None:
    again = spec("A", range(9), 1), spec("B", range(9), 1, arrival_step=1)
    found = part({}, {"enable_prefix_caching": False}, *again)
    assert told(found) == (1, "hit", "B")
    assert found is not None
    assert (str(found.a.did), str(found.b.did)) == (
        "finds 8 of its tokens in the cache",
        "finds 0 of its tokens in the cache",
    )
    assert "at most 8 can be found, in blocks of 4" in str(found.a.because)
    assert "no prefix cache" in str(found.b.because)


def test_block_ids() -> None:
    """A leaves its tail block 3 at the head of the queue, the published 2 and 1 at the end: of 4, B gets 2 too."""
    found = part({}, {"num_blocks": 5}, spec("A", 9, 1), spec("B", 9, 1, arrival_step=1))
    assert told(found) == (1, "blocks", "B")
    assert found is not None
    assert (found.a.account.blocks, found.b.account.blocks) == ((3, 4, 5), (3, 4, 2))
    assert "13 of 16 are free afterwards" in str(found.a.because)


def test_layout() -> None:
    found = part({}, {"kv_layout": "contiguous", "contiguous_reserve": "known"}, *TWO)
    assert told(found) == (0, "blocks", "A")
    assert found is not None and found.b.account.run is not None
    assert (found.a.account.blocks, found.b.account.blocks) == ((1, 2), (1, 2, 3, 4, 5))
    assert "a run of 5 neighbours in a hole of 16, first fit" in str(found.b.because)


def test_order_of_the_queue() -> None:
    """A runs alone; B and then C wait for its seat. By priority C goes first."""
    specs = spec("A", 4, 3), spec("B", 4, 1, arrival_step=1, priority=1), spec("C", 4, 1, arrival_step=1)
    found = part({"max_num_seqs": 1}, {"max_num_seqs": 1, "policy": "priority"}, *specs)
    assert told(found) == (3, "admission", "B")
    assert found is not None
    assert "C is admitted in its place, the order is priority" in str(found.b.because)
    both = part({"max_num_seqs": 2}, {"max_num_seqs": 2, "policy": "priority"}, *specs[1:])
    assert told(both) == (1, "admission", "B")
    assert both is not None
    assert "number 1 to be admitted" in str(both.a.because) and "number 2 to be admitted" in str(both.b.because)


def test_static_batching() -> None:
    found = part({}, {"batching": "static"}, spec("A", 4, 2), spec("C", 4, 2, arrival_step=1))
    assert told(found) == (1, "admission", "C")
    assert found is not None and found.b.limit == WaitReason("batch", need=1, have=1)
    assert "1 of the 1 requests of the present batch" in str(found.b.because)


def test_behind_the_head_of_the_queue_the_heads_limit_is_named() -> None:
    """A has 3 of 9 blocks; B (30 tokens) would need 8 and stands before C, unless C is more important."""
    specs = spec("A", 8, 9), spec("B", 30, 2, arrival_step=1, priority=1), spec("C", 4, 2, arrival_step=1)
    found = part({"num_blocks": 10}, {"num_blocks": 10, "policy": "priority"}, *specs)
    assert told(found) == (1, "admission", "C")
    assert found is not None
    assert found.a.limit == WaitReason("blocks", need=8, have=6)
    assert str(found.a.because) == "behind B, which waits: blocks, 8 needed, 6 free"
    assert str(found.b.because) == "5 of 9 blocks are free afterwards"


def test_a_run_that_is_over() -> None:
    engines = [engine_of(**ROOM), engine_of(**ROOM)]
    long, short = run(engines[0], spec("A", 8, 3)), run(engines[1], spec("A", 8, 2))
    found = first_difference(long, short, engines[0].config, engines[1].config)
    assert told(found) == (1, "finish", "A")
    assert found is not None and str(found.b.did) == "ends it after 2 output tokens"
    cut = first_difference(long, long[:2], engines[0].config, engines[1].config)
    assert told(cut) == (2, "tokens", "A")
    assert cut is not None and str(cut.b.said) == "has ended before"
