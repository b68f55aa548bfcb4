"""A scenario file is read as written, and a fault in one is said with its file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import UserError
from engine.model.toy import toy_tokenizer
from scenarios import load
from scenarios.errors import ScenarioError
from scenarios.schema import json_schema

GOOD = """\
title: {en: T, zh: 题}
summary: {en: S, zh: 摘}
story: {en: St, zh: 事}
config: {block_size: 8, policy: priority}
requests:
  - {id: a, prompt: Hello there, max_tokens: 2}
  - id: b
    prompt: [{role: user, content: Hi}]
    max_tokens: 3
    arrival_step: 4
    sampling: {temperature: 0.5, top_p: 0.9, seed: 7}
    priority: 2
    adapter: lora
    salt: s
    abort_step: 9
  - {id: c, prompt: [5, 6, 7], max_tokens: 2, output: [8, 9]}
notes:
  - {step: 1, focus: {kind: block, id: 3}, say: {en: E, zh: 中}, claims: ["owned == 1"]}
"""
TOKENIZER = toy_tokenizer()


def fault(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        load.parse(text, "f.yaml")
    assert "f.yaml" in str(caught.value) and "\n" not in str(caught.value)
    return caught.value


def test_requests_carry_everything_the_file_says() -> None:
    scenario = load.parse(GOOD, "f.yaml")
    a, b, c = load.requests(scenario, TOKENIZER)
    assert list(a.prompt) == TOKENIZER.encode("Hello there")
    assert a.sampling.stop_token_ids == TOKENIZER.eos_ids
    assert list(b.prompt) == TOKENIZER.apply_chat([{"role": "user", "content": "Hi"}])
    assert (b.arrival_step, b.priority, b.adapter, b.salt, b.abort_step) == (4, 2, "lora", "s", 9)
    assert (b.sampling.temperature, b.sampling.top_p, b.sampling.seed) == (0.5, 0.9, 7)
    assert (c.prompt, c.output, c.sampling.stop_token_ids) == ((5, 6, 7), (8, 9), frozenset())
    assert (load.config(scenario).block_size, load.config(scenario).policy) == (8, "priority")
    assert scenario.title.get("zh") == "题"


@pytest.mark.parametrize(
    ("old", "new", "key", "line", "field"),
    [
        ("max_tokens: 3", "max_tokens: three", "bad_field", 9, "requests[1].max_tokens"),
        ("max_tokens: 3", "max_tokens: true", "bad_field", 9, "requests[1].max_tokens"),
        ("max_tokens: 3", "max_token: 3", "missing_field", 7, "requests[1].max_tokens"),
        ("salt: s", "pepper: s", "unknown_field", 14, "requests[1].pepper"),
        ("role: user", "role: poet", "bad_field", 8, "requests[1].prompt[0].role"),
        ("prompt: Hello there", "prompt: {a: 1}", "bad_field", 6, "requests[0].prompt"),
        ("prompt: Hello there", "prompt: []", "bad_field", 6, "requests[0].prompt"),
        ("[5, 6, 7]", "[5, x, 7]", "bad_field", 16, "requests[2].prompt[1]"),
        ("id: c", "id: a", "bad_field", 5, "requests"),
        ("owned == 1", "owned is 1", "bad_field", 18, "notes[0].claims[0]"),
        ("kind: block", "kind: cloud", "bad_field", 18, "notes[0].focus.kind"),
        ("zh: 题", "fr: T", "missing_field", 1, "title.zh"),
        ("block_size: 8", "block_size: 0", "bad_field", 4, "config"),
        ("block_size: 8", "blocksize: 8", "bad_field", 4, "config"),
        ("block_size: 8", "block_size: 8, block_size: 4", "twice", 4, "block_size"),
        ("top_p: 0.9", "top_p: 0", "bad_field", 11, "requests[1].sampling.top_p"),
    ],
)
def test_a_fault_is_said_with_its_line_and_field(old: str, new: str, key: str, line: int, field: str) -> None:
    assert old in GOOD
    error = fault(GOOD.replace(old, new, 1))
    assert error.key == f"scenario.{key}"
    assert (error.params["field"], error.params["line"]) == (field, line)


def test_a_bad_setting_is_refused_in_the_engine_s_own_words() -> None:
    error = fault(GOOD.replace("block_size: 8", "block_size: 0"))
    assert "block_size is 0, but it must be between 1 and 256" in str(error)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("title: [", "scenario.bad_yaml"),
        ("title: \t- x", "scenario.bad_yaml"),
        ("a: 2024-99-99", "scenario.bad_yaml"),
        ("\x07", "scenario.bad_yaml"),
        ("!!python/object/apply:os.system [true]", "scenario.bad_yaml"),
        ("- 1", "scenario.not_mapping"),
        ("", "scenario.not_mapping"),
        ("{}", "scenario.missing_field"),
    ],
)
def test_what_is_no_scenario(text: str, key: str) -> None:
    assert fault(text).key == key


def test_unknown_names_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario called nothing; the library has: three_requests"):
        load.load("nothing")
    with pytest.raises(ScenarioError, match="no scenario called"):
        load.load("../library/three_requests")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"title: \xe9")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load.load(latin)
    big = tmp_path / "big.yaml"
    big.write_text("#" * 1_000_001)
    with pytest.raises(ScenarioError, match="larger than 1 MB"):
        load.load(big)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert load.load(path).title.en == "T"
    path.write_text(GOOD.replace("en: T", "en: Title"), encoding="utf-8")
    assert load.load(path).title.en == "Title"


def test_requests_keep_engine_rules() -> None:
    scenario = load.parse(GOOD.replace("output: [8, 9]", "output: [8]"), "f.yaml")
    with pytest.raises(UserError, match="scripts 1 output tokens but asks for 2"):
        load.requests(scenario, TOKENIZER)


def test_schema_names_every_field_and_setting() -> None:
    schema = json_schema()
    assert set(schema["required"]) == {"title", "summary", "story", "requests"}
    assert schema["additionalProperties"] is False
    assert "num_blocks" in schema["$defs"]["EngineConfig"]["properties"]
    assert schema["$defs"]["EngineConfig"]["additionalProperties"] is False
    assert set(schema["$defs"]["RequestEntry"]["required"]) == {"id", "prompt", "max_tokens"}
