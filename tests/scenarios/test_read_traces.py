"""Trace files as people really have them (public case O17, T1-T8) and as they should not be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.errors import TraceError
from scenarios.traces.read import read, read_path
from scenarios.traces.record import Trace

TRACES = Path(__file__).parents[1] / "traces"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def offsets(trace: Trace) -> list[float]:
    return [record.arrival_s for record in trace.records]


def lengths(trace: Trace) -> list[tuple[int, int]]:
    return [(record.prompt_tokens, record.output_tokens) for record in trace.records]


def fault(data: bytes) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(data, "f.csv")
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    return caught.value


# O17


def test_t1_seven_fraction_digits() -> None:
    stamps = ("0010000", "0020000", "0090000", "0110000")
    rows = "".join(f"2023-11-16 18:15:46.{stamp},10,2\n" for stamp in stamps)
    assert offsets(read((AZURE + rows).encode(), "t1")) == [0, 0.001, 0.008, 0.010]


def test_t2_zone_and_a_stamp_without_fraction() -> None:
    rows = "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01+00:00,7,5\n"
    assert offsets(read((AZURE + rows).encode(), "t2")) == [0, 0.990070]


def test_t1_and_t2_rows_in_one_file_and_zones_that_differ() -> None:
    rows = "2024-05-10 00:00:00.0000001,1,1\n2024-05-10T02:00:01+02:00,1,1\n2024-05-09T19:00:02.5-0500,1,1\n"
    assert offsets(read((AZURE + rows).encode(), "t")) == [0, 0.9999999, 2.4999999]


def test_t3_images_column_before_the_lengths_and_gzip() -> None:
    text = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2025-01-01 00:00:00,3,100,7\n"
    trace = read(gzip.compress(text.encode()), "t3.csv")
    assert lengths(trace) == [(100, 7)]
    assert [notice.key for notice in trace.notices] == ["trace.images_ignored"]


def test_t4_failed_calls_are_no_requests() -> None:
    rows = "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,0,0,0,Conversation log\n"
    trace = read((BURST + rows).encode(), "t4")
    assert (offsets(trace), lengths(trace)) == ([0], [(472, 18)])
    [(line, reason)] = trace.skipped
    assert line == 3 and "zero tokens" in str(reason)


JSON_ROWS = [json.dumps({"timestamp": n, "input_length": n + 1, "output_length": 2, "hash_ids": [n]}) for n in range(3)]
CSV_ROWS = ["TIMESTAMP,ContextTokens,GeneratedTokens", *(f"2024-05-10 00:00:0{n},{n + 1},2" for n in range(3))]


@pytest.mark.parametrize("rows", [JSON_ROWS, CSV_ROWS])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_t5_byte_order_mark_crlf_and_blank_last_line(rows: list[str], encoding: str) -> None:
    trace = read(("\r\n".join(rows) + "\r\n\r\n").encode(encoding), "t5")
    assert lengths(trace) == [(1, 2), (2, 2), (3, 2)]
    assert trace.skipped == ()


def test_t6_json_array_in_a_jsonl_and_gzip_without_its_name() -> None:
    array = ("[" + ",\n".join(JSON_ROWS) + "]").encode()
    assert len(read(array, "t6.jsonl").records) == 3
    assert read(gzip.compress(array), "t6.jsonl").records == read(array, "t6.jsonl").records


def test_t7_line_separators_inside_strings_do_not_end_a_line() -> None:
    ids = ["🦊", "a\u2028b\u0085c\u2029"]
    rows = [
        json.dumps({"timestamp": 0, "input_length": 1, "output_length": 1, "session_id": name}, ensure_ascii=False)
        for name in ids
    ]
    trace = read("\n".join(rows).encode(), "t7")
    assert [record.session for record in trace.records] == ids and trace.skipped == ()
    header = "Timestamp,Session ID,Model,Request tokens,Response tokens\n"
    text = header + "".join(f"0,{name},m,1,1\n" for name in ids)
    assert [record.session for record in read(text.encode(), "t7").records] == ids


def test_t8_a_row_without_its_output_length() -> None:
    text = (
        AZURE + "2024-05-10 00:00:00,10,2\n2024-05-10 00:00:01,11\n2024-05-10 00:00:02,12,\n2024-05-10 00:00:03,13,4\n"
    )
    trace = read(text.encode(), "t8")
    assert lengths(trace) == [(10, 2), (13, 4)]
    assert all(type(n) is int for pair in lengths(trace) for n in pair)
    assert [(line, reason.params["column"]) for line, reason in trace.skipped] == [
        (3, "GeneratedTokens"),
        (4, "GeneratedTokens"),
    ]


def test_t8_a_file_without_a_prompt_column() -> None:
    error = fault(b"TIMESTAMP,GeneratedTokens\n2024-05-10 00:00:00,2\n")
    assert "ContextTokens" in str(error.params["missing"])
    assert "TIMESTAMP, GeneratedTokens" in str(error)
    error = fault(b"time,cost\n1,2\n")
    assert error.key == "trace.unknown_columns"
    assert "ContextTokens" in str(error) and "time, cost" in str(error)


# the fixtures: first rows of the public files


@pytest.mark.parametrize(
    ("name", "format", "rows", "first", "last_s"),
    [
        ("azure_2023_conv_head40.csv", "azure", 40, (374, 44), 24.146296),
        ("azure_2023_code_head40.csv", "azure", 40, (4808, 10), 34.284439),
        ("mooncake_conversation_head40.jsonl", "mooncake", 40, (6758, 500), 12.0),
        ("mooncake_synthetic_head40.jsonl", "mooncake", 40, (40160, 6), 12.075),
        ("vidur_splitwise_conv_head40.csv", "vidur", 40, (374, 44), 24.146296),
        ("burstgpt_v1_head3.csv", "burstgpt", 3, (472, 18), 113.0),
        ("burstgpt_v2_head4.csv", "burstgpt", 4, (906, 446), 144.0),
    ],
)
def test_public_files(name: str, format: str, rows: int, first: tuple[int, int], last_s: float) -> None:
    trace = read_path(TRACES / name)
    assert (trace.format, len(trace.records), trace.skipped) == (format, rows, ())
    assert lengths(trace)[0] == first
    assert trace.records[0].arrival_s == 0
    assert trace.records[-1].arrival_s == pytest.approx(last_s, abs=1e-6)


def test_vidur_is_the_azure_trace_again() -> None:
    azure, vidur = (read_path(TRACES / f"{name}_head40.csv") for name in ("azure_2023_conv", "vidur_splitwise_conv"))
    assert lengths(azure) == lengths(vidur)
    assert offsets(azure) == pytest.approx(offsets(vidur), abs=1e-6)


def test_burstgpt_v2_columns_are_found_by_name_not_by_place() -> None:
    trace = read_path(TRACES / "burstgpt_v2_head4.csv")
    assert trace.records[0].session == "1722ac82-0a46-4bf0-aa08-89794e7a2b3f"
    assert [record.row for record in trace.records] == [2, 3, 4, 5]


def test_mooncake_is_in_milliseconds_and_bailian_in_seconds() -> None:
    row = {"timestamp": 3000, "input_length": 20, "output_length": 2, "hash_ids": [1, 2]}
    zero = {**row, "timestamp": 0, "hash_ids": [1]}
    trace = read((json.dumps(zero) + "\n" + json.dumps(row)).encode(), "m")
    assert (trace.format, offsets(trace), trace.records[1].block_tokens) == ("mooncake", [0, 3.0], 512)
    chat = {"chat_id": 7, "parent_chat_id": -1, "turn": 1, "type": "text"}
    reply = {"chat_id": 9, "parent_chat_id": 7, "turn": 2, "type": "text"}
    trace = read((json.dumps(zero | chat) + "\n" + json.dumps(row | reply)).encode(), "b")
    assert (trace.format, offsets(trace), trace.records[1].block_tokens) == ("bailian", [0, 3000.0], 16)
    assert [record.session for record in trace.records] == ["7", "7"]


def test_a_caller_may_overrule_the_format() -> None:
    row = json.dumps({"timestamp": 1, "input_length": 2, "output_length": 3, "chat_id": 1, "parent_chat_id": -1})
    assert read(row.encode(), "f").format == "bailian"
    assert read(row.encode(), "f", "mooncake").format == "mooncake"
    with pytest.raises(TraceError, match="no column num_prefill_tokens"):
        read(row.encode(), "f", "vidur")
    with pytest.raises(TraceError, match="no trace format called excel"):
        read(row.encode(), "f", "excel")


def test_lengths_without_arrival_times() -> None:
    trace = read(b"num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n10,2,12,5.0\n", "v")
    assert (offsets(trace), lengths(trace)) == ([0], [(10, 2)])
    assert [notice.key for notice in trace.notices] == ["trace.no_arrival"]


def test_vllm_custom_prompts() -> None:
    trace = read(b'{"prompt": "What is the capital of India?", "output_tokens": 10}\n', "p")
    [record] = trace.records
    assert (trace.format, record.prompt, record.output_tokens) == ("vllm-custom", "What is the capital of India?", 10)


def test_column_names_in_any_spelling_and_other_delimiters() -> None:
    text = "time stamp ; CONTEXT_tokens;generated Tokens\n2024-05-10 00:00:00;10;2\n"
    assert lengths(read(text.encode(), "f")) == [(10, 2)]


def test_rows_out_of_order_are_sorted_and_said() -> None:
    rows = "2024-05-10 00:00:09,1,1\n2024-05-10 00:00:02,2,1\n2024-05-10 00:00:05,3,1\n"
    trace = read((AZURE + rows).encode(), "f")
    assert (offsets(trace), [record.row for record in trace.records]) == ([0, 3, 7], [3, 4, 2])
    assert [notice.key for notice in trace.notices] == ["trace.sorted"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2024-13-40 00:00:00,1,1", "not a date and time"),
        ("2024-05-10 25:00:00,1,1", "not a date and time"),
        ("17,1,1", "not a date and time"),
        (",1,1", "TIMESTAMP is missing"),
        ("2024-05-10 00:00:00,-4,1", "must be between"),
        ("2024-05-10 00:00:00,1.5,1", "not a whole number"),
        ("2024-05-10 00:00:00,nan,1", "not a number"),
        ("2024-05-10 00:00:00,1_000,1", "not a number"),
        ("2024-05-10 00:00:00,99999999999999999999,1", "must be between"),
        ("2024-05-10 00:00:00,many,1", "not a number"),
    ],
)
def test_bad_rows_are_named_and_the_rest_is_kept(row: str, reason: str) -> None:
    trace = read((AZURE + row + "\n2024-05-10 00:00:00,5.0,1\n").encode(), "f")
    assert lengths(trace) == [(5, 1)]
    [(line, why)] = trace.skipped
    assert line == 2 and reason in str(why)


# wrong files: one sentence each


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"", "trace.empty"),
        (b"\xef\xbb\xbf \r\n\n", "trace.empty"),
        (b"[]", "trace.empty"),
        (AZURE.encode(), "trace.no_rows"),
        (b"\x89PNG\r\n\x1a\n....", "trace.other_kind"),
        (b"PK\x03\x04xl/workbook.xml", "trace.other_kind"),
        (b"\0\1\2\3" * 10, "trace.binary"),
        (b"\xff\xfe\0\xd8", "trace.binary"),
        (b"TIMESTAMP,ContextTokens\n\xe9,1", "trace.not_utf8"),
        (b"\x1f\x8b\x08\0garbage", "trace.bad_gzip"),
        (gzip.compress(AZURE.encode())[:-9], "trace.bad_gzip"),
        (b"{not json}\n{neither", "trace.no_json_rows"),
        (b"[1, 2", "trace.bad_json"),
        (b"[1, 2]", "trace.no_objects"),
        (b"[" * 100_000, "trace.bad_json"),
        (b'{"id": 1, "conversations": []}', "trace.unknown_columns"),
        ((AZURE + "yesterday,1,1\n").encode(), "trace.all_bad"),
        ((AZURE + '"' + "x" * 200_000).encode(), "trace.bad_csv"),
        (b"a,b\n" * 1_250_001, "trace.too_big"),
        (gzip.compress(b"0" * 50_000_001), "trace.unpacks_too_big"),
        (gzip.compress(AZURE.encode() + b"x,1,1\n" * 300_000), "trace.too_many_rows"),
    ],
)
def test_wrong_files(data: bytes, key: str) -> None:
    assert fault(data).key == key


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(TraceError, match="No such file"):
        read_path(Path("nowhere.csv"))


def test_a_hundred_thousand_rows_are_read() -> None:
    rows = "".join(
        f"2024-05-10 {n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.123456+00:00,12,3\n" for n in range(86_400)
    )
    data = gzip.compress((AZURE + rows + "2024-05-11 00:00:00+00:00,12,3\n" * 13_600).encode())
    trace = read(data, "big.csv.gz")
    assert len(trace.records) == 100_000


# properties

ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**9), st.integers(1, 10**6), st.integers(1, 10**6), st.lists(st.integers(0, 99), max_size=4)
    ),
    min_size=1,
    max_size=20,
)


@given(ROWS, st.booleans(), st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_every_way_of_writing_a_trace_reads_the_same(rows, as_array, zipped, newline) -> None:  # type: ignore[no-untyped-def]
    rows = sorted(rows, key=lambda row: row[0])
    items = [
        json.dumps({"timestamp": t, "input_length": p, "output_length": o, "hash_ids": ids}) for t, p, o, ids in rows
    ]
    text = "[" + ",".join(items) + "]" if as_array else newline.join(items) + newline
    data = text.encode()
    trace = read(gzip.compress(data) if zipped else data, "f")
    assert lengths(trace) == [(p, o) for _, p, o, _ in rows]
    assert [record.block_ids for record in trace.records] == [tuple(ids) for *_, ids in rows]
    assert offsets(trace) == pytest.approx([(t - rows[0][0]) / 1000 for t, *_ in rows])


@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_no_file_does_more_than_raise_a_sentence(data: bytes) -> None:
    try:
        trace = read(data, "f")
    except TraceError as error:
        assert str(error).endswith(".")
    else:
        assert trace.records


@given(st.text(alphabet="0123456789.,-+:;TZ \"'\n\r\t{}[]nulabe\u2028", max_size=200))
def test_no_row_does_more_than_be_skipped(body: str) -> None:
    for head in (AZURE, BURST):
        trace = read((head + ("2024-05-10 00:00:00,5,1\n" if head is AZURE else "5,m,5,1\n") + body).encode(), "f")
        assert trace.records[0].prompt_tokens >= 1
