"""Parquet datasets: rows by their number, values as JSON can hold them, memory by the portion."""

import datetime as dt
import decimal
import json
import math
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evrun.batch.dataset import Row, Terms, read_dataset
from evrun.errors import UsageFault


def read(tmp_path, columns, terms=None, **options):
    """What a parquet file of these columns holds."""
    path = tmp_path / "d.parquet"
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return list(read_dataset(path, terms or Terms()))


def test_rows_have_numbers_from_1_and_bad_ones_are_told(tmp_path):
    """Across row groups."""
    prompts = ["a", " ", None, "b", "c"]
    found = read(tmp_path, {"prompt": prompts, "n": list(range(5))}, row_group_size=2)
    assert [line.line for line in found] == [1, 2, 3, 4, 5]
    assert [line.value for line in found if isinstance(line, Row)] == [
        {"prompt": "a", "n": 0},
        {"prompt": "b", "n": 3},
        {"prompt": "c", "n": 4},
    ]
    assert [line.found for line in found[1:3]] == ["blank prompt", "prompt is not a string: found null"]


MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
VALUES = {
    "a decimal": (pa.array([decimal.Decimal("1.10")]), "1.10"),
    "a moment": (pa.array([MOMENT]), "2026-01-02T03:04:05.678901Z"),
    "a moment to the nanosecond": (
        pa.array([1_767_323_045_678_901_234], pa.timestamp("ns", "UTC")),
        "2026-01-02T03:04:05.678901Z",
    ),
    "one inside": (
        pa.array([[{"at": 1_000_000_001}]], pa.list_(pa.struct([("at", pa.timestamp("ns"))]))),
        [{"at": "1970-01-01T00:00:01"}],
    ),
    "a day": (pa.array([dt.date(2026, 1, 2)]), "2026-01-02"),
    "a time": (pa.array([1_000], pa.time64("ns")), "00:00:00.000001"),
    "a while": (pa.array([1_500_000_000], pa.duration("ns")), "PT1.5S"),
    "bytes": (pa.array([b"\x00\xff"]), "AP8="),
    "no number": (pa.array([math.nan]), None),
    "half precision": (pa.array([1.5], pa.float16()), 1.5),
    "a category": (pa.array(["x"]).dictionary_encode(), "x"),
    "a map": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [["k", 1]]),
    "large": (pa.array([["y"]], pa.large_list(pa.large_string())), ["y"]),
    "nothing": (pa.array([None], pa.null()), None),
}


@pytest.mark.parametrize(("column", "shown"), VALUES.values(), ids=VALUES)
def test_what_json_does_not_have_is_written_as_text(tmp_path, column, shown):
    """The same in the row's value and in its bytes."""
    (row,) = read(tmp_path, {"prompt": ["p"], "x": column})
    assert row.value == {"prompt": "p", "x": shown}
    assert json.loads(row.raw) == row.value


def test_bytes_are_no_prompt(tmp_path):
    """They would be sent as base64 text, and paid for."""
    (bad,) = read(tmp_path, {"prompt": [b"hello"]})
    assert bad.found == "prompt is not a string: found bytes"
    (bad,) = read(tmp_path, {"q": [b"hello"]}, Terms(template="{q}"))
    assert bad.found == "q is not a string: found bytes"


def test_nested_messages_are_those_of_jsonl(tmp_path):
    """What is null in a struct is not there; a null content says that there was only a call."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "ok", "tool_call_id": "c"},
        {"role": "user", "content": "b"},
    ]
    (row,) = read(tmp_path, pa.Table.from_pylist([{"messages": turns, "prompt": None}]))
    assert row.value == {"messages": turns, "prompt": None}
    share = [{"from": "human", "value": "a"}]
    (row,) = read(tmp_path, pa.Table.from_pylist([{"conversations": share, "meta": {"a": None}}]))
    assert row.value == {"conversations": share, "meta": {"a": None}}


def test_two_columns_of_one_name_are_refused(tmp_path):
    """One of them would be lost."""
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["prompt", "prompt"])
    with pytest.raises(UsageFault, match="two columns are named 'prompt'"):
        read(tmp_path, table)


def test_bad_text_is_told_with_its_row(tmp_path):
    """Arrow does not look whether text is UTF-8; the rows around it are read."""
    bad = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"c"]).buffers())
    first, second, third = read(tmp_path, {"prompt": bad})
    assert (first.value, third.value) == ({"prompt": "a"}, {"prompt": "c"})
    assert (second.line, second.found) == (2, "bad UTF-8 at byte 0 of a text")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1", b'{"prompt": "a"}\n'])
def test_a_damaged_file_is_refused(tmp_path, data):
    """One error that names the file."""
    path = tmp_path / "d.parquet"
    path.write_bytes(data)
    with pytest.raises(UsageFault, match=r"d\.parquet: "):
        list(read_dataset(path))
    with pytest.raises(UsageFault, match=r"none\.parquet: no such file"):
        list(read_dataset(tmp_path / "none.parquet"))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    """A plain error, and how to get it."""
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageFault, match="needs pyarrow") as caught:
        list(read_dataset(tmp_path / "d.parquet"))
    assert "evrun[parquet]" in caught.value.hint


def test_rows_come_in_portions(tmp_path):
    """A file of one row group with 64 MB of text never has more than a part of it in Arrow's memory."""
    prompts = [f"{n} " + f"{n}" * 100_000 for n in range(100, 300)]
    path = tmp_path / "d.parquet"
    pq.write_table(
        pa.table({"prompt": prompts}), path, use_dictionary=False, write_batch_size=8, compression="none"
    )
    whole = sum(map(len, prompts))
    del prompts
    most = 0
    for _ in read_dataset(path):
        most = max(most, pa.total_allocated_bytes())
    assert whole > 60_000_000
    assert most < whole / 2
