"""`python -m scenarios`: the formats others rely on, exit status, and errors of one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.__main__ import main
from scenarios.run import setting

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "traces"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Traceback" not in error
    return error


def test_inspect_says_what_a_trace_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text("Timestamp,Model,Request tokens,Response tokens\n5,m,472,18\n45,m,0,0\n65,m,10,2\n")
    answer = json.loads(said(capsys, "inspect", str(path), "--json"))
    assert {key: answer[key] for key in ("format", "requests", "span_s", "prompt_tokens", "output_tokens")} == {
        "format": "burstgpt",
        "requests": 2,
        "span_s": 60.0,
        "prompt_tokens": 482,
        "output_tokens": 20,
    }
    assert answer["infinite_cache_hit_rate"] is None
    assert [row["line"] for row in answer["skipped"]] == [3] and "zero tokens" in answer["skipped"][0]["reason"]
    assert "skipped line 3: zero tokens" in said(capsys, "inspect", str(path))
    mooncake = said(capsys, "inspect", str(TRACES / "mooncake_conversation_head40.jsonl"))
    assert "mooncake format, 40 requests in 12 s" in mooncake and "3.8%" in mooncake


def test_run_a_scenario_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("--set", "max_num_seqs=1", "--set", "num_blocks=20")
    answer = json.loads(said(capsys, "run", "three_requests", "--model", "toy", *settings, "--json"))
    assert (answer["workload"], answer["model"]) == ("three_requests", "toy")
    assert (answer["config"]["max_num_seqs"], answer["config"]["num_blocks"]) == (1, 20)
    assert answer["summary"]["laws_hold"] is True
    assert answer["summary"]["scheduled_tokens"] == sum(sum(step["scheduled"].values()) for step in answer["steps"])
    assert answer["steps"][1]["waiting"] == [
        {"id": name, "reason": {"limit": "sequences", "need": 1, "have": 1, "behind": None}} for name in ("B", "C")
    ]
    assert set(answer["text"]) == {"A", "B", "C"}


def test_run_a_trace_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(TRACES / "azure_2023_conv_head40.csv")
    table = said(capsys, "run", trace, "--model", "toy", "--first", "3", "--scale", "32", "--step-seconds", "2")
    assert "3 of 40 requests are taken" in table and "All lengths are divided by 32" in table
    assert "r2:12" in table and "r4" in table and "(length)" in table


def test_a_law_or_claim_that_fails_is_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = ["title: {en: T, zh: T}", "summary: {en: S, zh: S}", "story: {en: S, zh: S}", "model: toy"]
    lines += ["requests: [{id: a, prompt: [5, 6], max_tokens: 2}]"]
    path = tmp_path / "wrong.yaml"
    for notes, sentence in (
        (
            "notes: [{step: 1, say: {en: x, zh: x}, claims: ['owned == 5']}]",
            "“owned == 5” of the note at step 1",
        ),
        ("notes: [{step: 7, say: {en: x, zh: x}}]", "note at step 7, but the run ends with step 1"),
    ):
        path.write_text("\n".join([*lines, notes]), encoding="utf-8")
        assert sentence in refused(capsys, "run", str(path))
        assert main(["run", str(path), "--set", "block_size=4"]) == 0  # another configuration, no claim about it
        capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "nowhere"), "neither a scenario nor a file called nowhere"),
        (("run", "nowhere.yaml"), "no scenario called nowhere.yaml"),
        (("run", "three_requests", "--model", "toy", "--set", "block_size"), "not of the form name=value"),
        (("run", "three_requests", "--model", "toy", "--set", "blocks=3"), "no setting called blocks"),
        (("run", "three_requests", "--model", "toy", "--set", "num_blocks=3"), "could never finish"),
        (("run", "three_requests", "--model", "/nowhere/model.gguf"), "/nowhere/model.gguf"),
        (("inspect", "nowhere.csv"), "nowhere.csv cannot be read"),
        (("inspect", "."), "cannot be read"),
        (("inspect", "Makefile"), "no column of prompt lengths"),
    ],
)
def test_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(ROOT)
    assert sentence in refused(capsys, *arguments)


def test_settings_are_read_as_yaml_reads_them() -> None:
    assert setting("num_blocks=32") == ("num_blocks", 32)
    assert setting("watermark=0.1") == ("watermark", 0.1)
    assert setting("enable_prefix_caching=false") == ("enable_prefix_caching", False)
    assert setting("max_model_len=null") == ("max_model_len", None)
    assert setting("policy=priority") == ("policy", "priority")


def test_list_and_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert "three_requests" in said(capsys, "list")
    assert json.loads(said(capsys, "schema"))["title"] == "Scenario"


def test_as_a_process() -> None:
    def status(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run([sys.executable, "-m", "scenarios", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = status("inspect", str(TRACES / "burstgpt_v1_head3.csv"), "--json")
    assert (code, json.loads(out)["requests"]) == (0, 3)
    code, _, error = status("inspect", "LICENSE")
    assert code == 1 and error.count("\n") == 1


def test_what_needs_no_model_does_not_wait_for_torch() -> None:
    code = "import sys, scenarios.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
