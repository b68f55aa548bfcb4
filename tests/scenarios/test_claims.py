"""Claims say what holds, refuse what they do not know, and run nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import EngineConfig
from engine.engine import Engine
from engine.request import RequestSpec
from engine.runner import ScriptedRunner
from engine.timeline import Step
from scenarios.claims import check, check_syntax
from scenarios.errors import ScenarioError


def make_steps() -> list[Step]:
    """Steps 0 and 1 of: A (5 prompt tokens) decodes beside B (the same first block, 7 tokens); C waits for a seat."""
    config = EngineConfig(block_size=4, num_blocks=9, max_num_batched_tokens=16, max_num_seqs=2)
    engine = Engine(config, ScriptedRunner())
    engine.add(RequestSpec("A", (1, 2, 3, 4, 5), 4, output=(9, 9, 9, 9)))
    engine.add(RequestSpec("B", (1, 2, 3, 4, 6, 7, 8), 4, output=(9, 9, 9, 9), arrival_step=1))
    engine.add(RequestSpec("C", (5,), 4, output=(9, 9, 9, 9), arrival_step=1))
    return [engine.step(), engine.step()]


STEPS = make_steps()


@pytest.mark.parametrize(
    "claim",
    [
        "ref_count[1] == 2 and ref_count[2] == 1 and ref_count[8] == 0",
        "fill[1] == 4 and fill[2] == 2",
        "owners(1) == ['A', 'B'] and owners(8) == []",
        "free_queue[0] == 4 and free_queue[-1] == 8 and len(free_queue) == 5",
        "running == ['A', 'B'] and waiting == ['C']",
        "running == ('A', 'B')",
        "status['A'] == 'RUNNING' and status['C'] == 'WAITING'",
        "computed['A'] == 6 and known['A'] == 7 and output['A'] == 2",
        "cached['B'] == 4 and scheduled['B'] == 3 and scheduled['C'] == 0 and tokens == 4",
        "blocks['A'] == [1, 2] and blocks['B'] == [1, 3] and blocks['C'] == []",
        "preemptions['A'] == 0",
        "owned == 3 and free_cached == 0 and free_empty == 5",
        "3 not in free_queue and 4 in free_queue",
        "owned + len(free_queue) == 8 and 2 * 3 - 1 == 5 and 7 // 2 == 3 and -1 < 0",
        "sum(ref_count) == len(blocks['A']) + len(blocks['B'])",
        "not (owned > 3 or owned < 3)",
        "owned == 99 or owned == 3",
        "1 < owned < 4 and 'A' != 'B'",
        "blocks['A'][0] == blocks['B'][0]",
        "True",
    ],
)
def test_what_holds(claim: str) -> None:
    check_syntax(claim)
    assert check(claim, STEPS) is True


@pytest.mark.parametrize(
    "claim",
    ["ref_count[1] == 1", "status['A'] == 'WAITING'", "owned < 3", "4 not in free_queue", "1 < owned < 2", "False"],
)
def test_what_does_not_hold(claim: str) -> None:
    assert check(claim, STEPS) is False


@pytest.mark.parametrize(
    "claim",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "owned.__class__ == 1",
        "(lambda: True)()",
        "[b for b in free_queue] == []",
        "{1: 2} == 3",
        "f'{owned}' == '3'",
        "free_queue[1:2] == []",
        "owned ** 2 == 9",
        "owned if True else 1",
        "(x := 3) == 3",
        "owned is 3",
        "len(*[free_queue]) == 5",
        "len(obj=free_queue) == 5",
        "1.5 < owned",
        "owned == None",
        "nonsense == 1",
        "len == 1",
        "status == 'RUNNING'",
        "owned ==",
        "owned == 1; owned == 2",
        "import os",
        "",
        "(" * 250 + "1" + ")" * 49,
        "'\0' == 1",
        "1 == " + "1 + " * 100 + "1",
    ],
)
def test_what_is_not_in_the_grammar(claim: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        check(claim, STEPS)
    assert claim[:20] in str(caught.value) and caught.value.key.startswith("claim.")


@pytest.mark.parametrize(
    "claim",
    [
        "ref_count[99] == 1",
        "ref_count['A'] == 1",
        "status['Z'] == 'RUNNING'",
        "owned < 'A'",
        "owned[0] == 1",
        "len(owned) == 1",
        "sum(running) == 1",
        "running + waiting == []",
        "'a' * 1000000000 == 'a'",
        "owned // 0 == 1",
        "3 in owned",
        "owned",
        "owned and True",
        "not owned",
        "True + 1 == 2",
    ],
)
def test_what_makes_no_sense(claim: str) -> None:
    check_syntax(claim)
    with pytest.raises(ScenarioError):
        check(claim, STEPS)


@given(st.text(alphabet="ownedlfrqu_ct[](){}'\"0123456789 =<>!+-*/,.:andotir\\\n", max_size=60))
def test_any_text_is_true_false_or_one_sentence(claim: str) -> None:
    try:
        assert check(claim, STEPS) in (True, False)
    except ScenarioError as error:
        assert str(error)
