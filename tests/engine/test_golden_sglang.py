"""Every field and both digests of every operation of SGLang 0.5.23's recorded RadixCache runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.golden_radix import replay

GOLDEN = Path(__file__).parents[1] / "golden" / "sglang"
NAMES = sorted(path.name.removesuffix(".scenario.json") for path in GOLDEN.glob("*.scenario.json"))


def test_there_are_recordings() -> None:
    assert len(NAMES) == 17


@pytest.mark.parametrize("name", NAMES)
def test_same_as_sglang(name: str) -> None:
    scenario = json.loads((GOLDEN / f"{name}.scenario.json").read_text())
    want = json.loads((GOLDEN / f"{name}.result.json").read_text())
    got = json.loads(json.dumps(replay(scenario)))
    for ours, theirs in zip(got["steps"], want["steps"], strict=True):
        for field in theirs:
            assert ours[field] == theirs[field], (ours["i"], field)
        assert ours.keys() == theirs.keys()
    assert {field: got[field] for field in got if field != "steps"} == {
        field: want[field] for field in want if field != "steps"
    }


def test_the_command_tells_the_two_kinds_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result.json"
    assert main(["golden", str(GOLDEN / "01_fork_page1.scenario.json"), "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == json.loads((GOLDEN / "01_fork_page1.result.json").read_text())
    neither = tmp_path / "neither.json"
    neither.write_text("{}")
    assert main(["golden", str(neither), "--out", str(out)]) == 1
    assert capsys.readouterr().err.endswith(
        "has no list called requests or ops; give a recorded vLLM or SGLang scenario.\n"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"eviction_policy": "best"}, "There is no eviction policy called best; choose one of: lru, lfu, fifo, "),
        ({"page_size": 5}, "A pool of 64 tokens cannot be cut into pages of 5; choose a page size that divides"),
        ({"ops": [{"op": "insert", "tokens": [1, -2]}]}, "Operation 0 of the scenario is refused: Token -2 at "),
        ({"ops": [{"op": "insert", "tokens": []}]}, "A key without tokens cannot be stored"),
        ({"ops": [{"op": "insert", "tokens": ["a"]}]}, "A key holds something that is not a token id"),
        ({"ops": [{"op": "insert", "tokens": [1], "slots": [1]}]}, "The slots of an insert cannot be given here"),
        ({"ops": [{"op": "jump"}]}, "There is no operation called jump; the operations are: match_prefix, insert, "),
        ({"ops": [{"op": "dec_lock", "ref": "x"}]}, "No earlier operation has the ref x"),
        ({"ops": [{"op": "match_prefix"}]}, "is not a scenario: field 'tokens'"),
        ({"ops": [7]}, "is not a scenario: field"),
        (
            {"ops": [{"op": "insert", "tokens": [1], "ref": "a"}, {"op": "dec_lock", "ref": "a"}]},
            "Operation 1 of the scenario is refused: Node 1 is not locked",
        ),
    ],
)  # fmt: skip
def test_bad_scenarios_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], sentence: str
) -> None:
    scenario = {"page_size": 1, "pool_tokens": 64, "eviction_policy": "lru", "ops": [], **change}
    (tmp_path / "bad.json").write_text(json.dumps(scenario))
    assert main(["golden", str(tmp_path / "bad.json"), "--out", str(tmp_path / "out.json")]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out.json").exists()
