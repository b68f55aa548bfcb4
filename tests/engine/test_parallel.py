"""n seeded answers to one prompt on the toy model: by fork, and as separate requests over the prefix cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.config import EngineConfig
from engine.dense_check import AttentionLens
from engine.engine import Engine
from engine.errors import UserError
from engine.events import BlockCopied, Preempted
from engine.kv_manager import HashBlocks
from engine.model_runner import ModelRunner
from engine.parallel import DEFAULT_SAMPLING, ParallelComparison, compare_parallel, parallel
from engine.request import RequestSpec, SamplingParams
from engine.timeline import Step
from tests.engine.replay import assert_laws
from tests.engine.test_numerics import loaded, prompts

MAX_TOKENS = 12


def prompt(length: int) -> tuple[int, ...]:
    return prompts("toy")[0][:length]


def settings(**changes: object) -> EngineConfig:
    return EngineConfig(**{"block_size": 8, "num_blocks": 64, "max_num_seqs": 4, **changes})  # type: ignore[arg-type]


def runner(config: EngineConfig) -> Callable[[], ModelRunner]:
    return lambda: ModelRunner(loaded("toy"), config)


def compare(length: int, n: int = 4, **changes: object) -> ParallelComparison:
    config = settings(**changes)
    return compare_parallel(config, runner(config), prompt(length), n, max_tokens=MAX_TOKENS)


def run(engine: Engine) -> list[Step]:
    steps: list[Step] = []
    while not engine.is_done:
        steps.append(engine.step())
        assert_laws(steps[-1])
    return steps


@pytest.mark.parametrize("length", [20, 24, 25, 3])
def test_each_forked_answer_is_the_separate_requests_answer(length: int) -> None:
    both = compare(length)
    assert both.same_answers
    assert len(set(both.forked.answers)) > 1
    assert {len(answer) for answer in both.forked.answers} == {MAX_TOKENS}


def test_what_a_fork_saves_is_counted() -> None:
    """Prompt 20 = two full blocks and half a third. A separate request finds two blocks and computes 4 tokens again."""
    both = compare(20)
    assert both.forked.copies == 3
    assert both.separate.copies == 0
    assert both.forked.computed_tokens == 20 + 4 * (MAX_TOKENS - 1)
    assert both.separate.computed_tokens == 20 + 3 * 4 + 4 * (MAX_TOKENS - 1)
    assert both.separate.hit_tokens == 3 * 16
    assert both.forked.hit_tokens == 0
    assert both.forked.blocks_by_step[0] == 3
    assert both.separate.blocks_by_step[0] == 2 + 4
    assert both.forked.peak_blocks == both.separate.peak_blocks == 2 + 4 * 2
    assert both.forked.steps == both.separate.steps == MAX_TOKENS


def test_a_prompt_of_whole_blocks_is_shared_to_the_end_by_fork_only() -> None:
    """The prefix cache must leave a token to compute, so a separate request holds its own third block."""
    both = compare(24)
    assert both.forked.copies == 0
    assert both.forked.peak_blocks == 3 + 4 * 2
    assert both.separate.peak_blocks == 2 + 4 * 3


def test_under_pressure_preempted_children_are_ordinary_requests() -> None:
    config = settings(num_blocks=9)
    engine = Engine(config, ModelRunner(loaded("toy"), config))
    spec = RequestSpec("A", prompt(20), MAX_TOKENS, sampling=DEFAULT_SAMPLING)
    ids = parallel(engine, spec, 4, range(4))
    steps = run(engine)
    assert any(isinstance(event, Preempted) for step in steps for event in step.events)
    answers = tuple(tuple(engine.requests[name].output_token_ids) for name in ids)
    assert answers == compare(20).separate.answers


def test_one_token_and_stop_tokens_end_children_at_once() -> None:
    config = settings()
    both = compare_parallel(config, runner(config), prompt(20), 3, max_tokens=1)
    assert both.same_answers
    assert both.forked.computed_tokens == 20
    first = both.forked.answers[1][0]
    stop = SamplingParams(temperature=0.8, top_p=0.95, stop_token_ids=frozenset({first}))
    stopped = compare_parallel(config, runner(config), prompt(20), 3, max_tokens=4, sampling=stop)
    assert stopped.same_answers
    assert stopped.forked.answers[1] == (first,)


def test_the_dense_check_follows_a_fork_in_every_step() -> None:
    config = settings()
    engine = Engine(config, ModelRunner(loaded("toy"), config))
    parallel(engine, RequestSpec("A", prompt(20), 9, sampling=DEFAULT_SAMPLING), 3, (5, 6, 7))
    engine.step()
    engine.step()
    engine.fork("A.1", 1, samplings=[SamplingParams(temperature=0.9, seed=99)])
    for step in run(engine):
        assert step.kernel is not None
        assert all(row.max_abs_diff is not None for row in step.kernel.rows)
    assert engine.requests["A.1.1"].output_token_ids[:2] == engine.requests["A.1"].output_token_ids[:2]
    assert engine.requests["A.1.1"].output_token_ids != engine.requests["A.1"].output_token_ids
    assert engine.texts["A.1.1"] == loaded("toy").tokenizer.decode(engine.requests["A.1.1"].output_token_ids)


def test_a_table_copied_without_its_kv_is_seen_by_law_10(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine import model_runner

    monkeypatch.setattr(model_runner, "copy_blocks", lambda *_: None)
    assert ("A", 10) in first_broken()


def test_a_copy_the_wrong_way_round_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = HashBlocks.take_copies

    def backwards(kv: HashBlocks) -> list[tuple[int, int]]:
        return [(target, source) for source, target in honest(kv)][:1]

    monkeypatch.setattr(HashBlocks, "take_copies", backwards)
    assert first_broken()


def test_without_its_shadow_a_child_would_go_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionLens, "fork", lambda *_: None)
    config = settings()
    engine = Engine(config, ModelRunner(loaded("toy"), config))
    parallel(engine, RequestSpec("A", prompt(20), 3, sampling=DEFAULT_SAMPLING), 2, (0, 1))
    engine.step()
    step = engine.step()
    assert step.kernel is not None
    assert [row.max_abs_diff is None for row in step.kernel.rows] == [False, True]


def first_broken() -> list[tuple[str, int]]:
    """The step with the copies: which request breaks which law."""
    config = settings()
    engine = Engine(config, ModelRunner(loaded("toy"), config))
    engine.runner.cache.key.zero_()  # type: ignore[attr-defined]
    engine.runner.cache.value.zero_()  # type: ignore[attr-defined]
    parallel(engine, RequestSpec("A", prompt(20), 4, sampling=DEFAULT_SAMPLING), 3, (0, 1, 2))
    engine.step()
    step = engine.step()
    return [(law.broken_by.removeprefix("request "), law.law) for law in step.laws if not law.holds]


def test_events_say_what_was_copied() -> None:
    config = settings()
    engine = Engine(config, ModelRunner(loaded("toy"), config))
    parallel(engine, RequestSpec("A", prompt(20), 4, sampling=DEFAULT_SAMPLING), 3, (0, 1, 2))
    engine.step()
    copied = [event for event in engine.step().events if isinstance(event, BlockCopied)]
    assert [(event.request, event.filled, event.owners) for event in copied] == [("A", 4, 3), ("A.1", 4, 2)]
    assert {event.source for event in copied} == {3}


def test_what_cannot_be_done_is_refused_before_anything_is() -> None:
    config = settings()
    engine = Engine(config, ModelRunner(loaded("toy"), config))
    spec = RequestSpec("A", prompt(5), 2)
    for n, seeds in ((0, ()), (5, range(5)), (2, (1,))):
        with pytest.raises(UserError):
            parallel(engine, spec, n, tuple(seeds))
    assert engine.is_done
    assert parallel(engine, spec, 1, (3,)) == ["A"]
