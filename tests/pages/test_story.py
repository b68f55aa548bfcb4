"""The life story holds every event that touched the request or block, in order, and nothing else."""

from __future__ import annotations

import pytest

from engine.config import EngineConfig
from engine.events import BlockAllocated, BlockFreed, HashEvicted, Preempted, Scheduled
from engine.radix_events import NodeEvicted, NodeSplit
from pages.figures.marks import Selection
from pages.ui.story import Line, story
from pages.ui.text import LANGS
from tests.pages.fakes import Run, lanes, pressure, spec


def lines(run: Run, kind: str, name: str | int) -> list[Line]:
    return story(run.steps, Selection(kind, name), "en")  # type: ignore[arg-type]


def steps_with(run: Run, kind: type, **fields: object) -> list[int]:
    return [
        step.index
        for step in run.steps
        for event in step.events
        if isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items())
    ]


def test_a_request_lives_from_arrival_to_end() -> None:
    told = lines(pressure(), "request", "A")
    assert told[0].text == "Arrives: 30 prompt tokens, up to 22 new ones."
    assert told[-1].text == "Ends after 22 tokens."
    assert [line.first for line in told] == sorted(line.first for line in told)


def test_a_preemption_is_told_to_both_sides() -> None:
    run = pressure()
    step = run.first(Preempted)
    event = next(event for event in run.steps[step].events if isinstance(event, Preempted))
    victim = [line for line in lines(run, "request", event.request) if line.first == step]
    other = [line for line in lines(run, "request", event.beneficiary) if line.first == step]
    assert any(line.text.startswith(f"Preempted: {event.beneficiary} needed {event.need} ") for line in victim)
    assert any(line.text.startswith(f"Makes {event.request} give way") for line in other)


def test_neighbouring_decode_steps_are_one_line_and_lose_none() -> None:
    run = lanes()
    decoding = steps_with(run, Scheduled, request="A", work="decode")
    told = [line for line in lines(run, "request", "A") if line.text == "Decodes, one token a step."]
    assert sum(line.last - line.first + 1 for line in told) == len(decoding)
    assert len(told) < len(decoding)


def test_a_block_is_told_each_hand_over() -> None:
    run = pressure()
    block = next(event.block for step in run.steps for event in step.events if isinstance(event, HashEvicted))
    told = lines(run, "block", block)
    taken = [line.first for line in told if line.text.startswith("Handed out")]
    assert taken == steps_with(run, BlockAllocated, block=block)
    freed = [line.first for line in told if "lets go" in line.text]
    assert freed == steps_with(run, BlockFreed, block=block)
    assert any(line.text.startswith("Cached content") for line in told)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("run", [pressure, lanes])
def test_every_line_has_its_words(run: object, lang: str) -> None:
    done: Run = run()  # type: ignore[operator]
    names = [Selection("request", view.id) for view in done.steps[-1].snapshot.requests]
    blocks = [Selection("block", block) for block in range(1, done.config.num_blocks)]
    for selection in [*names, *blocks]:
        for line in story(done.steps, selection, lang):  # type: ignore[arg-type]
            assert line.text
            assert "{" not in line.text


def test_what_nothing_touched_has_no_story() -> None:
    assert lines(lanes(), "block", 63) == []
    assert lines(lanes(), "request", "nobody") == []


def forking() -> Run:
    """A radix run in which edges are cut, leaves evicted, and requests matched."""
    config = EngineConfig(cache="radix", num_blocks=24, block_size=4, max_num_batched_tokens=64, max_num_seqs=4)
    shared = {"A": 20, "B": 12, "C": 20, "D": 8, "E": 20}
    return Run(config, [spec(name, 30, 6, at=9 * at, shared=part) for at, (name, part) in enumerate(shared.items())])


def test_the_trees_events_are_told_to_request_block_and_node() -> None:
    run = forking()
    split = run.first(NodeSplit)
    cut = next(event for event in run.steps[split].events if isinstance(event, NodeSplit))
    upper, lower = (lines(run, "node", node) for node in (cut.upper, cut.lower))
    assert upper[0].first == split and upper[0].text.startswith(f"The edge of node {cut.lower} is cut")
    assert any(line.first == split and f"now node {cut.upper}" in line.text for line in lower)
    gone = run.first(NodeEvicted)
    evicted = next(event for event in run.steps[gone].events if isinstance(event, NodeEvicted))
    assert lines(run, "node", evicted.node)[-1].text.startswith("Evicted for ")
    assert any(f"Node {evicted.node} is evicted" in line.text for line in lines(run, "block", evicted.pages[0]))
    assert any(line.first == gone and line.tone == "evict" for line in lines(run, "request", str(evicted.request)))
    assert any(line.text.startswith("Looks up ") for line in lines(run, "request", "A"))


def test_a_nodes_story_is_not_that_of_the_block_with_its_number() -> None:
    run = forking()
    for node in range(1, 5):
        told = [line.text for line in lines(run, "node", node)]
        assert told and told != [line.text for line in lines(run, "block", node)]
