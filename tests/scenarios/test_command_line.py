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


@pytest.mark.parametrize("weights", ["bf16", "int4"])
def test_run_with_small_weights_and_small_kv(capsys: pytest.CaptureFixture[str], weights: str) -> None:
    options = ("--model", "toy", "--weights", weights, "--set", "kv_dtype=int8", "--json")
    answer = json.loads(said(capsys, "run", "three_requests", *options))
    assert answer["config"]["kv_dtype"] == "int8"
    assert answer["summary"]["laws_hold"] is True
    title = said(capsys, "run", "three_requests", *options[:-1]).splitlines()[0]
    assert title.endswith(f"Toy (2 layers, random) {weights}")


TIGHT = ("memory_pressure", "--model", "toy")
MODELLED = ("--clock", "SmolLM2-135M@L4", "--overhead-ms", "1", "--ttft-ms", "1e6", "--tpot-ms", "1e6")


def test_metrics_carry_their_clock(capsys: pytest.CaptureFixture[str]) -> None:
    measured = json.loads(said(capsys, "run", *TIGHT, "--json"))["metrics"]
    assert (measured["clock"], measured["clock_name"], measured["goodput"]) == ("measured", "measured", None)
    toy_block = 8 * 2 * 2 * 2 * 32 * 4  # slots · (K and V) · layers · KV heads · head size · float32
    assert measured["usage"]["peak_kv_bytes"] == 13 * toy_block
    modelled = json.loads(said(capsys, "run", *TIGHT, *MODELLED, "--json"))["metrics"]
    assert (modelled["clock"], modelled["clock_name"]) == ("modelled", "SmolLM2-135M@L4+1ms")
    assert modelled["usage"]["peak_kv_bytes"] == 13 * 8 * 23_040
    assert (modelled["goodput"]["met"], modelled["goodput"]["share"]) == (3, 1.0)
    assert modelled["computed_tokens"] == measured["computed_tokens"]
    assert {each["request"] for each in modelled["requests"]} == {"A", "B", "C"}


def test_tables_say_what_there_is_no_data_on(capsys: pytest.CaptureFixture[str]) -> None:
    table = said(capsys, "run", *TIGHT, *MODELLED)
    assert "modelled: roofline of SmolLM2-135M@L4+1ms" in table
    assert [line.split("│")[2].strip() for line in table.splitlines() if "slots reserved" in line] == ["no data"]
    assert "100.0%" in next(line for line in table.splitlines() if "goodput, share" in line)
    assert "goodput" not in said(capsys, "run", *TIGHT), "not asked for"


def test_compare_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    sides = ("--a", "num_blocks=20", "--b", "num_blocks=14", "--b", "preemption=swap", "--set", "max_num_seqs=3")
    answer = json.loads(said(capsys, "compare", *TIGHT, *sides, *MODELLED, "--json"))
    assert answer["settings"] == {"num_blocks": [20, 14], "preemption": ["recompute", "swap"]}
    assert (answer["identical"], answer["outputs_differ"]) == (False, [])
    first = answer["first_difference"]
    assert (first["step"], first["kind"], first["request"]) == (2, "admission", "C")
    assert first["a"]["admitted"] and first["a"]["tokens"] > 0 and first["a"]["limit"] is None
    assert first["b"]["waits"] == first["b"]["limit"] == {"limit": "blocks", "need": 4, "have": 2, "behind": None}
    assert "lets it wait (blocks, 4 needed, 2 free)" in first["why"]
    for side, blocks in (("a", 20), ("b", 14)):
        assert (answer[side]["config"]["num_blocks"], answer[side]["config"]["max_num_seqs"]) == (blocks, 3)
        assert answer[side]["metrics"]["clock"] == answer["clock"] == "modelled"
    a, b = answer["a"]["metrics"], answer["b"]["metrics"]
    assert answer["difference"]["ttft.max"] == b["ttft"]["max"] - a["ttft"]["max"] > 0
    assert answer["difference"]["usage.swapped.bytes"] is None, "a swaps nothing: there is no difference to state"
    assert answer["difference"]["steps"] == answer["b"]["steps"] - answer["a"]["steps"]


def test_compare_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = said(capsys, "compare", *TIGHT, "--b", "max_num_seqs=1", *MODELLED)
    assert "max_num_seqs: A 4, B 1." in table and "sequence limit, 1 of 1 running" in table
    assert "Both give the same tokens to every request." in table
    steps = next(line for line in table.splitlines() if line.startswith("│steps  "))
    a, b, difference = (int(cell) for cell in steps.strip("│").split("│")[1:])
    assert b - a == difference > 0


def test_compare_says_when_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(said(capsys, "compare", *TIGHT, "--b", "watermark=0.01", *MODELLED, "--json"))
    assert (answer["identical"], answer["first_difference"]) == (True, None)
    assert {value for value in answer["difference"].values() if value is not None} == {0}
    assert "Both decide the same in all" in said(capsys, "compare", *TIGHT)


def test_compare_gives_both_sides_of_a_trace_the_same_requests(capsys: pytest.CaptureFixture[str]) -> None:
    """8 blocks of 16 hold 129 tokens at most: the trace is clipped to that on the larger side as well."""
    trace = str(TRACES / "azure_2023_conv_head40.csv")
    options = ("--model", "toy", "--first", "4", "--scale", "2", "--b", "num_blocks=9", "--json")
    answer = json.loads(said(capsys, "compare", trace, *options))
    lengths = [[each["prompt_tokens"] for each in answer[side]["metrics"]["requests"]] for side in "ab"]
    assert lengths[0] == lengths[1] and 100 < max(lengths[0]) <= 128
    assert any("clipped" in each or "cut" in each for each in answer["notices"]), answer["notices"]


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
        (("run", "three_requests", "--model", "toy", "--set", "kv_dtype=int3"), "kv_dtype is int3; choose one of"),
        (("run", "three_requests", "--model", "toy", "--weights", "int3"), "asked for as int3, but the formats are"),
        (("run", "three_requests", "--model", "/nowhere/model.gguf"), "/nowhere/model.gguf"),
        (("run", *TIGHT, "--clock", "sundial"), "no clock called sundial"),
        (("run", *TIGHT, "--overhead-ms", "1"), "belongs to a modelled clock"),
        (("run", *TIGHT, "--ttft-ms", "-1"), "ttft_ms is -1.0"),
        (("compare", "nowhere", "--a", "num_blocks=20"), "neither a scenario nor a file called nowhere"),
        (("compare", *TIGHT, "--a", "num_blocks"), "setting num_blocks is not of the form name=value"),
        (("compare", *TIGHT, "--b", "blocks=3"), "no setting called blocks"),
        (("compare", *TIGHT, "--b", "num_blocks=4"), "On side B: Request A needs"),
        (("compare", *TIGHT, "--tpot-ms", "nan"), "tpot_ms is nan"),
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
