"""Every field of every step of the recorded vLLM 0.33 runs."""

import json
from pathlib import Path

import pytest

from engine.golden import replay

GOLDEN = Path(__file__).parents[1] / "golden" / "vllm"
NAMES = sorted(path.name.removesuffix(".scenario.json") for path in GOLDEN.glob("*.scenario.json"))


def test_there_are_recordings() -> None:
    assert len(NAMES) == 20


@pytest.mark.parametrize("name", NAMES)
def test_same_as_vllm(name: str) -> None:
    scenario = json.loads((GOLDEN / f"{name}.scenario.json").read_text())
    want = json.loads((GOLDEN / f"{name}.result.json").read_text())
    got = json.loads(json.dumps(replay(scenario)))
    for ours, theirs in zip(got["steps"], want["steps"], strict=False):
        for field in theirs:
            assert ours[field] == theirs[field], (ours["step"], field)
        assert ours.keys() == theirs.keys()
        assert list(ours.get("scheduled", {})) == list(theirs.get("scheduled", {}))
    assert len(got["steps"]) == len(want["steps"])
    for field in ("scenario", "initial", "hash_table", "summary"):
        assert got[field] == want[field], field
