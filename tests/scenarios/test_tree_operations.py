"""The tree by hand gives SGLang's own answers: the examples against its recordings, and cases O08 and O10."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.radix_events import EvictionEnded, HeapBuilt, HeapPopped, HeapPushed, NodeSplit
from scenarios.errors import ScenarioError
from scenarios.tree_operations import EXAMPLES, POOLS, Moment, label, parse, play

GOLDEN = Path(__file__).parents[1] / "golden" / "sglang"
OPS = {"match": "match_prefix", "insert": "insert", "lock": "inc_lock", "unlock": "dec_lock", "evict": "evict"}


def edges(moment: Moment) -> dict[str, int]:
    """Edge text → locks."""
    return {label(node.tokens): node.lock_ref for node in moment.view if node.units}


def played(name: str) -> tuple[Moment, ...]:
    example = EXAMPLES[name]
    return play(parse(example.text), example.page_size, example.pool_tokens)


def recorded(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(operation, state after it); an empty match, which changes nothing, cannot be typed."""
    scenario = json.loads((GOLDEN / f"{name}.scenario.json").read_text(encoding="utf-8"))
    result = json.loads((GOLDEN / f"{name}.result.json").read_text(encoding="utf-8"))
    pairs = zip(scenario["ops"], result["steps"], strict=True)
    return [(op, step["state"]) for op, step in pairs if op.get("tokens") != []]


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if example.golden])
def test_examples_are_the_recordings_of_sglang(name: str) -> None:
    example, moments = EXAMPLES[name], played(name)
    assert example.golden is not None
    states = recorded(example.golden)
    assert len(states) == len(moments) - 1
    letters: dict[int, int] = {}
    refs: dict[str, list[int]] = {}
    for (op, state), moment in zip(states, moments[1:], strict=True):
        done, view = moment.operation, moment.view
        assert done is not None and OPS[done.kind] == op["op"]
        if "tokens" in op:
            assert len(op["tokens"]) == len(done.text)
            for token, character in zip(op["tokens"], done.text, strict=True):
                assert letters.setdefault(token, ord(character)) == ord(character), "one character a token"
            refs[op.get("ref", "")] = op["tokens"]
        if op["op"] in ("inc_lock", "dec_lock"):
            assert [letters[token] for token in refs[op["ref"]]] == [ord(character) for character in done.text]
        sizes = state["evictable_size"], state["protected_size"], state["available_size"]
        assert (view.evictable, view.protected, view.available) == sizes
        assert [list(entry) for entry in view.evictable_leaves()] == state["evictable_leaves"]
        assert view.drain_order() == state["drain_order"]
        mine = {node.id: node for node in view}
        assert set(mine) == {node["id"] for node in state["nodes"]}
        for node in state["nodes"]:
            found = mine[node["id"]]
            assert list(found.tokens) == [letters[token] for token in node["tokens"]]
            assert (found.start, found.end, found.lock_ref, found.evictable) == (
                node["start"], node["end"], node["lock_ref"], node["evictable"],
            )  # fmt: skip
            assert [child.id for child in found.children] == node["children"]
    assert len(set(letters.values())) == len(letters)


def test_o08_locks_are_inherited_and_only_unlocked_leaves_leave() -> None:
    after = played("in_use")[1:]
    assert edges(after[0]) == {"1234": 0}
    assert edges(after[1]) == {"1234": 1}
    assert edges(after[2]) == {"12": 1, "34": 1}
    assert edges(after[4]) == {"12": 2, "34": 1, "9": 1}
    assert edges(after[5]) == {"12": 1, "34": 0, "9": 1}
    assert (after[5].view.evictable, after[5].view.protected) == (2, 3)
    assert edges(after[6]) == {"12": 1, "9": 1}
    assert after[7].view.evictable == 3
    assert edges(after[8]) == {}
    kinds = [type(event) for event in after[8].events if isinstance(event, HeapBuilt | HeapPopped | HeapPushed)]
    assert kinds == [HeapBuilt, HeapPopped, HeapPushed, HeapPopped], "9 first, then 12, which has become a leaf"


def test_o10_at_page_4_a_match_of_5_is_usable_for_4_and_cuts_there() -> None:
    after = played("page4_lock")[1:]
    assert edges(after[1]) == {"12345678": 1}
    assert edges(after[2]) == {"1234": 1, "5678": 1}
    assert [event.tokens for event in after[2].events if isinstance(event, NodeSplit)] == [4]
    assert edges(after[3]) == {"1234": 2, "5678": 1}
    assert edges(after[4]) == edges(after[3]), "nothing can go while both are in use"
    assert edges(after[5]) == {"1234": 1, "5678": 0}
    assert edges(after[6]) == {"1234": 1}
    ended = next(event for event in after[6].events if isinstance(event, EvictionEnded))
    assert (ended.asked, ended.evicted) == (8, 4)
    assert (after[7].view.evictable, after[7].view.protected) == (4, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("insert 12\nfly away", "Line 2: there is no operation called fly; the operations are: match, insert"),
        ("insert", "Line 1: insert needs a text"),
        ("evict", "Line 1: evict needs a number of tokens from 1 to 999, not –"),
        ("evict -3", "not -3"),
        ("evict ²", "not ²"),
        ("evict 1000", "from 1 to 999"),
        ("match " + "x" * 25, "Line 1: the text has 25 characters"),
        ("insert ab\n" * 41, "41 operations are too many"),
        ("insert ab\nunlock ab", "Operation 2: ab is not locked"),
        ("insert ab\nlock ab\nunlock ab\nunlock ab", "Operation 4: ab is not locked"),
        ("lock ab", "Operation 1: nothing of ab is in the tree"),
        ("insert abcdefgh\nlock abcdefgh\ninsert 12345", "Operation 3: 12345 needs 5 tokens, but only 4 are free"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        play(parse(text), 1, 12)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_an_evicted_prefix_is_matched_again_before_it_is_locked() -> None:
    moments = play(parse("insert ab\nevict 2\ninsert ax\nlock ab"), 1, 12)
    assert edges(moments[-1]) == {"a": 1, "x": 0}


def test_a_lock_is_let_go_where_it_was_taken() -> None:
    """`abx` is locked at `ab`; when it is stored, the name means the new leaf, which nobody has locked."""
    moments = play(parse("insert abc\nlock abx\ninsert abx\nunlock abx"), 1, 12)
    assert edges(moments[-1]) == {"ab": 0, "c": 0, "x": 0}


def test_every_pool_holds_whole_pages_and_no_operation_is_an_empty_tree() -> None:
    for pool in POOLS:
        (before,) = play((), 4, pool)
        assert (before.operation, before.view.available, list(before.view)) == (None, pool, [before.view.root])
