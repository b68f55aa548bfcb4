"""Sentences say what the events say, with their numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.events import (
    Admitted,
    BlockAllocated,
    BlockCopied,
    BlockFreed,
    BlockTouched,
    Event,
    Forked,
    HashEvicted,
    Preempted,
    PrefixLookup,
    PublicationWithdrawn,
    RequestArrived,
    RequestFinished,
    RowsIdle,
    RunReserved,
    Scheduled,
    SwappedIn,
    SwappedOut,
    SwapRefused,
    Waited,
    WaitReason,
)
from engine.radix_events import (
    DuplicatesFreed,
    LockTaken,
    NodeEvicted,
    NodeSplit,
    PrefixMatched,
    RowReleased,
)
from engine.timeline import Step
from pages.figures.marks import Mark, block_marks
from pages.ui.text import LANGS
from pages.ui.why import MAX_SENTENCES, sentences
from tests.pages.fakes import RUNS, lanes


def step_with(*events: Event) -> Step:
    return replace(lanes().steps[3], events=events)


def texts(*events: Event) -> list[str]:
    return [item.text for item in sentences(step_with(*events), "en")]


def test_admission_is_a_sum() -> None:
    found = texts(
        PrefixLookup("A", tokens=24, hit_tokens=16, limit=16, blocks=(1,), resumed=False),
        Admitted("A", hit_tokens=16, resumed=False),
        Scheduled("A", tokens=8, start=16, work="prefill"),
    )
    assert found == ["A is admitted: 24 prompt tokens − 16 found in cache = 8 to compute."]


def test_chunked_admission_says_how_much_comes_now() -> None:
    found = texts(
        PrefixLookup("A", tokens=200, hit_tokens=0, limit=192, blocks=(), resumed=False),
        Admitted("A", hit_tokens=0, resumed=False),
        Scheduled("A", tokens=64, start=0, work="prefill"),
    )
    assert found[0].endswith("= 200 to compute, 64 of them in this step (chunked prefill).")


def test_full_hit_still_computes_the_last_token() -> None:
    found = texts(
        PrefixLookup("A", tokens=17, hit_tokens=16, limit=16, blocks=(1,), resumed=False),
        Admitted("A", hit_tokens=16, resumed=False),
        Scheduled("A", tokens=1, start=16, work="prefill"),
    )
    assert "the last token is always computed" in found[0]


def test_resumed_request_recomputes_known_tokens() -> None:
    found = texts(
        PrefixLookup("A", tokens=40, hit_tokens=32, limit=32, blocks=(1, 2), resumed=True),
        Admitted("A", hit_tokens=32, resumed=True),
        Scheduled("A", tokens=8, start=32, work="recompute"),
    )
    assert found == ["A resumes: 40 known tokens − 32 found in cache = 8 to recompute."]


def test_preemption_names_victim_beneficiary_and_numbers() -> None:
    event = Preempted("C", beneficiary="A", need=1, have=0, lost_tokens=36)
    assert texts(event) == ["Preempted C so that A gets a block: 1 needed, 0 free. C loses 36 computed tokens."]
    assert "preempts itself" in texts(replace(event, beneficiary="C"))[0]
    item = sentences(step_with(event), "en")[0]
    assert (item.tone, item.request, item.source) == ("preempt", "C", "Scheduler._preempt_request")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (WaitReason("blocks", need=3, have=1), "B waits: blocks, 3 needed, 1 free."),
        (WaitReason("sequences", need=4, have=4), "B waits: sequence limit, 4 of 4 running."),
        (WaitReason("tokens", need=80, have=12), "B waits: token budget, 80 tokens wanted, 12 left in this step."),
        (
            WaitReason("hole", need=4, have=3),
            "B waits: no hole is large enough, 4 neighbouring blocks needed, 3 in the largest.",
        ),
        (
            WaitReason("reserved", need=4, have=3),
            "B waits: blocks to its very end, 4 needed, 3 free and not promised to running requests.",
        ),
        (
            WaitReason("delayed", need=1, have=0),
            "B waits: it keeps its blocks until another gives some back, 1 needed, 0 free.",
        ),
        (
            WaitReason("batch", need=4, have=2),
            "B waits: static batching, 2 of the 4 requests of the present batch go on.",
        ),
        (WaitReason("preemption"), "B waits: a request was preempted in this step, so nobody is admitted."),
    ],
)
def test_wait_reasons_carry_their_numbers(reason: WaitReason, words: str) -> None:
    assert texts(Waited("B", reason)) == [words]


def test_those_behind_the_same_blocker_share_a_sentence() -> None:
    behind = WaitReason("head_of_line", behind="B")
    found = texts(Waited("B", WaitReason("blocks", 3, 1)), Waited("C", behind), Waited("D", behind))
    assert found[1] == "C and D wait behind B: nobody overtakes the head of the queue."


def test_hits_tell_shared_from_revived() -> None:
    found = texts(BlockTouched(1, "B", 2, revived=False), BlockTouched(3, "B", 1, revived=True))
    assert "shares block #1" in found[0] and "ref count now 2" in found[0]
    assert "revives block #3" in found[1]


def test_eviction_is_named_with_its_cause() -> None:
    found = texts(HashEvicted(7, "abc", "D"), BlockAllocated(7, "D", 2))
    assert found[0] == "From the head of the free queue: D gets #7."
    assert "#7 is forgotten" in found[1] and "D needed it" in found[1]


def test_finish_says_where_the_blocks_went() -> None:
    found = texts(
        RequestFinished("A", "length", 10),
        BlockFreed(4, "A", 0, "head", "finished"),
        BlockFreed(3, "A", 0, "tail", "finished"),
        BlockFreed(1, "A", 1, None, "finished"),
    )
    assert found == [
        "A finishes (length reached) after 10 tokens; #3 to the tail, still cached; #4 to the head, not cached; "
        "#1 stay with others."
    ]


def test_many_arrivals_are_one_sentence() -> None:
    found = texts(*(RequestArrived(name, 10, 5) for name in "ABC"))
    assert found == ["A, B and C arrive with 10, 10 and 10 prompt tokens."]


def test_a_swap_names_its_blocks_and_its_measured_cost() -> None:
    out = SwappedOut("C", pairs=((4, 0), (7, 1)), tokens=6, bytes=2048, ms=0.5)
    assert texts(Preempted("C", "A", need=1, have=0, lost_tokens=0), out) == [
        "Preempted C so that A gets a block: 1 needed, 0 free. C loses no computed token.",
        "#4 and #7 of C (6 tokens) are copied to host memory (2,048 bytes in 0.5 ms measured).",
    ]
    scripted = replace(out, bytes=0, ms=None)
    assert texts(scripted) == ["#4 and #7 of C (6 tokens) are copied to host memory."]
    back = SwappedIn("C", pairs=((9, 1),), tokens=6, hit_blocks=1, bytes=1024, ms=0.25)
    assert texts(Admitted("C", hit_tokens=4, resumed=True), back) == [
        "C resumes with 6 tokens computed: 1 block copied back from host memory (1,024 bytes in 0.25 ms measured), "
        "1 still in the prefix cache."
    ]
    assert texts(SwapRefused("C", need=3, have=1)) == [
        "C cannot be swapped out: 3 host blocks needed, 1 free; it will recompute."
    ]


def test_a_withdrawn_publication_is_said() -> None:
    assert texts(PublicationWithdrawn(3, "abc", "C")) == [
        "#3 is taken back from the prefix cache: C gave way before filling it."
    ]


def test_baselines_speak_of_runs_and_idle_rows() -> None:
    run = RunReserved("A", first=3, length=2, hole=5, fit="best")
    assert texts(run, BlockAllocated(3, "A", 0), BlockAllocated(4, "A", 1)) == [
        "A reserves blocks #3–#4 (2) for its whole life: the smallest hole large enough had 5."
    ]
    assert "the first hole large enough" in texts(replace(run, fit="first"))[0]
    assert texts(RowsIdle(idle=2, rows=4)) == [
        "2 of 4 rows of the batch are idle: they have ended and wait for the slowest."
    ]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("lang", LANGS)
def test_every_step_says_something_and_not_too_much(name: str, lang: str) -> None:
    for step in RUNS[name]().steps:
        found = sentences(step, "zh" if lang == "zh" else "en")
        assert 1 <= len(found) <= MAX_SENTENCES
        assert all(item.text and "{" not in item.text for item in found)


def test_preemptions_survive_the_cut() -> None:
    events: list[Event] = [Waited(f"w{n}", WaitReason("blocks", 3, 1)) for n in range(20)]
    found = sentences(step_with(*events, Preempted("C", "A", 1, 0, 36)), "en")
    assert found[0].tone == "preempt"
    assert found[-1].text == "14 more changes."
    assert len(found) == MAX_SENTENCES


def test_a_fork_and_its_copy_are_said_with_their_numbers_and_not_as_an_arrival() -> None:
    forked = Forked("A", "A.1", blocks=(1, 2), tokens=6)
    arrived = RequestArrived("A.1", prompt_tokens=6, max_tokens=3)
    assert texts(arrived, forked) == ["A forks into A.1: #1 and #2 shared, 6 positions, nothing copied."]
    both = texts(forked, replace(forked, request="A.2"))
    assert both == ["A forks into 2 copies, A.1 and A.2: #1 and #2 shared, 6 positions, nothing copied."]
    copied = BlockCopied(2, 3, "A.1", "shared_tail", filled=2, owners=3)
    for lang, words in (("en", "vLLM V1 never shares a part-filled block"), ("zh", "vLLM V1 从不共享未填满的块")):
        (item,) = sentences(step_with(copied), lang)  # type: ignore[arg-type]
        assert words in item.text
        assert all(number in item.text for number in ("#2", "#3", "A.1"))
        assert (item.tone, item.request, item.block, item.source) == ("hit", "A.1", 3, "")


def test_a_radix_tree_is_told_with_its_pages_locks_and_functions() -> None:
    said = sentences(
        step_with(
            PrefixMatched("B", tokens=8, matched=6, usable=4, node=2),
            LockTaken("B", 2, (2,), 0),
            NodeSplit("B", "match", upper=2, lower=1, tokens=4, lock_ref=1),
            NodeEvicted("B", 7, 0, 8, (3, 4), 5, 0, 0),
            DuplicatesFreed("B", (5,)),
            RowReleased("A", "finished", stored=(1, 2), freed=(6,)),
        ),
        "en",
    )
    assert [(item.text, item.source) for item in said] == [
        ("B: 6 tokens match, 4 of them fill whole pages and can be reused.", "RadixCache.match_prefix"),
        ("Node 1 is split: the new node 2 takes its first 4 tokens and its locks (1).", "RadixCache._split_node"),
        ("Leaf 7 is evicted with its 8 tokens, because B needs room: #3 and #4 free.", "RadixCache.evict"),
        (
            "B computed what the tree has already: its table names the tree's pages now. Given back: #5.",
            "RadixCache.checkpoint",
        ),
        ("A lets go (finished); pages that stay in the tree: 2, freed: 1.", "release_kv_cache"),
    ]


def test_the_target_of_a_copy_is_marked_as_copied() -> None:
    snapshot = lanes().steps[3].scheduled
    block = snapshot.requests[0].block_table[0]
    events = (BlockAllocated(block, "A", 1), BlockCopied(2, block, "A", "shared_tail", filled=2, owners=3))
    assert block_marks(events, snapshot)[block] == Mark("copied", frozenset({"A"}))
