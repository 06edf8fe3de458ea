"""Datasets: every row is read exactly as it is, or refused with its line number and what was found."""

import gzip
import json
import math

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from evrun.batch.dataset import BadLine, Row, read_dataset, refuse_bad_lines
from evrun.errors import DatasetFault, UsageFault
from projections import loads_lenient

A, B = b'{"prompt": "a"}', b'{"prompt": "b"}'


def read(tmp_path, data, name="d.jsonl"):
    """What a dataset file of these bytes holds."""
    path = tmp_path / name
    path.write_bytes(data)
    return list(read_dataset(path))


def prompts(lines):
    """(line number, prompt) of rows that must all be usable."""
    assert all(isinstance(line, Row) for line in lines), lines
    return [(line.line, line.value["prompt"]) for line in lines]


REFUSED = {
    "a number": (b"3", "not an object: found a number '3'"),
    "a string": (b'"x"', "not an object: found a string '\"x\"'"),
    "null": (b"null", "not an object: found null"),
    "a boolean": (b"true", "not an object: found a boolean 'true'"),
    "an array": (b'["a"]', "not an object: found an array '[\"a\"]'"),
    "an array of rows": (b'[{"prompt": "a"}]', "not an object: found an array"),
    "no prompt": (b'{"question": "x", "answer": 1}', "no \"prompt\" (found the fields 'answer, question')"),
    "an empty object": (b"{}", 'no "prompt" (found the fields none)'),
    "a name that is no text": (b'{"\\ud800": 1}', "no \"prompt\" (found the fields '?')"),
    "prompt in capitals": (b'{"Prompt": "a"}', "found the fields 'Prompt'"),
    "prompt a number": (b'{"prompt": 7}', "prompt is not a string: found a number '7'"),
    "prompt null": (b'{"prompt": null}', "prompt is not a string: found null"),
    "prompt false": (b'{"prompt": false}', "prompt is not a string: found a boolean 'false'"),
    "prompt a list": (b'{"prompt": ["a"]}', "prompt is not a string: found an array"),
    "prompt an object": (b'{"prompt": {"text": "a"}}', "prompt is not a string: found an object"),
    "prompt empty": (b'{"prompt": ""}', "blank prompt"),
    "prompt of spaces": (b'{"prompt": " \\t\\r\\n\\u00a0"}', "blank prompt"),
    "a duplicate key that spoils it": (b'{"prompt": "a", "prompt": ""}', "blank prompt"),
    "messages null": (b'{"messages": null}', 'no "prompt"'),
    "messages empty": (b'{"messages": []}', "messages is not a list of turns: found an array '[]'"),
    "messages an object": (b'{"messages": {"role": "user"}}', "messages is not a list of turns"),
    "messages a string": (b'{"messages": "hello"}', "messages is not a list of turns"),
    "no user turn": (b'{"messages": [{"role": "system", "content": "x"}]}', "no user turn"),
    "blank user turn": (b'{"messages": [{"role": "user", "content": " "}]}', "blank prompt"),
    "unknown role": (b'{"messages": [{"role": "boss", "content": "x"}]}', "message 1: unknown role 'boss'"),
    "a turn that is no object": (b'{"conversations": ["x"]}', "message 1: not an object"),
    "a part that is nothing": (
        b'{"messages": [{"role": "user", "content": [{"image_url": {"url": "x"}}]}]}',
        "message 1: content has a part that is neither text nor an object",
    ),
    "a cut object": (b'{"prompt": "a"', "bad JSON: "),
    "single quotes": (b"{'prompt': 'a'}", "bad JSON: "),
    "a comment": (b"# prompts", "bad JSON: "),
    "two objects": (b'{"prompt": "a"} {"prompt": "b"}', "bad JSON: "),
    "a comma at the end": (b'{"prompt": "a"},', "bad JSON: "),
    "NaN": (b'{"prompt": "a", "x": NaN}', "bad JSON: NaN is not JSON"),
    "infinity": (b'{"prompt": "a", "x": -Infinity}', "bad JSON: -Infinity is not JSON"),
    "a number too long to read": (b'{"prompt": "a", "x": ' + b"9" * 5000 + b"}", "bad JSON: "),
    "a raw control letter": (b'{"prompt": "a\x01"}', "bad JSON: "),
    "bad UTF-8": (b'{"prompt": "\xff"}', "bad UTF-8 at byte 12 of the line"),
    "Latin-1": ('{"prompt": "é"}'.encode("latin-1"), "bad UTF-8 at byte 12 of the line"),
    "a raw surrogate": (b'{"prompt": "\xed\xa0\x80"}', "bad UTF-8 at byte 12 of the line"),
    "UTF-16": ('{"prompt": "a"}'.encode("utf-16-le"), "bad JSON: "),
    "nested without end": (
        b'{"prompt": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "nested too deeply",
    ),
    "nested, with a lone surrogate": (
        b'{"prompt": "\\ud800", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "nested too deeply",
    ),
    "nested more than any reader is sure of": (
        b'{"prompt": "a", "x": ' + b"[" * 200 + b"]" * 200 + b"}",
        "nested more than 200 deep",
    ),
}


@pytest.mark.parametrize(("line", "found"), REFUSED.values(), ids=REFUSED)
def test_a_line_that_cannot_be_used_is_refused_with_its_number_and_what_was_found(tmp_path, line, found):
    """It stands between two good ones, which are read; the complaint fits on a screen and in the log."""
    first, bad, last = read(tmp_path, b"\n".join([A, line, B]))
    assert (first.value, last.value) == ({"prompt": "a"}, {"prompt": "b"})
    assert isinstance(bad, BadLine)
    assert bad.line == 2
    assert found in bad.found
    assert len(bad.found) < 400
    assert bad.found.encode()


ACCEPTED = {
    "lone surrogates": (b'{"prompt": "\\ud800 \\udfff"}', "\ud800 \udfff"),
    "a pair of surrogates": (b'{"prompt": "\\ud83d\\ude00"}', "\U0001f600"),
    "duplicate keys: the last counts": (b'{"prompt": "first", "prompt": "last"}', "last"),
    "spaces kept": (b'{"prompt": "  a \\n"}', "  a \n"),
    "line separators": ('{"prompt": "a\u2028b\u0085c"}'.encode(), "a\u2028b\u0085c"),
    "a NUL": (b'{"prompt": "a\\u0000"}', "a\0"),
    "braces in text": (b'{"prompt": "' + b"{[" * 300 + b'"}', "{[" * 300),
    "as deep as may be": (b'{"prompt": "a", "x": ' + b"[" * 199 + b"]" * 199 + b"}", "a"),
}


@pytest.mark.parametrize(("line", "prompt"), ACCEPTED.values(), ids=ACCEPTED)
def test_an_unusual_line_is_read_exactly(tmp_path, line, prompt):
    """The prompt is the text as it stands, and the row's bytes are kept as they are."""
    (row,) = read(tmp_path, line + b"\n")
    assert row.value["prompt"] == prompt
    assert row.raw == line


def test_a_row_of_messages_needs_no_prompt(tmp_path):
    """`messages` and `conversations` both do; a null in the one leaves the other."""
    turns = [{"role": "user", "content": "hello"}]
    rows = [{"messages": turns}, {"conversations": turns}, {"messages": None, "conversations": turns}]
    lines = read(tmp_path, "\n".join(map(json.dumps, rows)).encode())
    assert [line.value for line in lines] == rows


FORMS = {
    "plain": A + b"\n" + B + b"\n",
    "no newline at the end": A + b"\n" + B,
    "CRLF": A + b"\r\n" + B + b"\r\n",
    "a byte order mark": b"\xef\xbb\xbf" + A + b"\n" + B,
    "a mark on each": b"\xef\xbb\xbf" + A + b"\n\xef\xbb\xbf" + B,
    "spaces around": b"  " + A + b" \t\n\t" + B + b"  \n",
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
def test_the_outer_form_of_a_file_does_not_matter(tmp_path, data):
    """The same two rows, and a raw row that is read again to the same value."""
    lines = read(tmp_path, data)
    assert prompts(lines) == [(1, "a"), (2, "b")]
    assert [loads_lenient(line.raw) for line in lines] == [line.value for line in lines]


def test_blank_lines_are_left_out_and_still_counted(tmp_path):
    """Numbers are those that an editor shows."""
    assert prompts(read(tmp_path, b"\n\r\n" + A + b"\n   \n\n" + B + b"\n\n")) == [(3, "a"), (6, "b")]


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_file_of_nothing_has_no_rows(tmp_path, data):
    """Nothing in it is no complaint of the reader; who opens the run says that there is no row."""
    assert read(tmp_path, data) == []


MANY = b"".join(b'{"prompt": "%d %s"}\n' % (n, b"x" * (n % 97)) for n in range(3000))
PACKED = {
    "gz": ("d.jsonl.gz", gzip.compress(MANY)),
    "gz of two parts": ("d.jsonl.gz", gzip.compress(MANY[:1000]) + gzip.compress(MANY[1000:])),
    "zst": ("d.jsonl.zst", zstandard.compress(MANY)),
    "zst of two frames": ("d.jsonl.zst", zstandard.compress(MANY[:1000]) + zstandard.compress(MANY[1000:])),
    "capitals": ("D.JSONL.GZ", gzip.compress(MANY)),
    "ndjson": ("d.ndjson", MANY),
}


@pytest.mark.parametrize(("name", "data"), PACKED.values(), ids=PACKED)
def test_a_packed_file_is_read_like_a_plain_one(tmp_path, name, data):
    """All parts and frames of it."""
    assert read(tmp_path, data, name) == read(tmp_path, MANY, "plain.jsonl")


DAMAGED = {
    "cut gz": ("d.jsonl.gz", gzip.compress(MANY)[:-9]),
    "gz cut in the middle": ("d.jsonl.gz", gzip.compress(MANY)[:2000]),
    "gz with a bad byte": ("d.jsonl.gz", bytes(b ^ (i == 900) for i, b in enumerate(gzip.compress(MANY)))),
    "no gz at all": ("d.jsonl.gz", MANY),
    "cut zst": ("d.jsonl.zst", zstandard.compress(MANY)[:-3]),
    "zst cut after a frame": ("d.jsonl.zst", zstandard.compress(MANY) + zstandard.compress(MANY)[:50]),
    "no zst at all": ("d.jsonl.zst", MANY),
}


@pytest.mark.parametrize(("name", "data"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_packed_file_is_refused_and_never_taken_for_a_short_one(tmp_path, name, data):
    """One error that names the file and says what is wrong with it."""
    with pytest.raises(UsageFault, match=f"{name}: .+"):
        read(tmp_path, data, name)


@pytest.mark.parametrize("name", ["d", "d.txt", "d.gz", "d.tsv", "d.parquet.gz", "d.jsonl.bz2"])
def test_another_form_is_refused_with_what_is_expected(tmp_path, name):
    """By its name, before it is looked at."""
    with pytest.raises(UsageFault, match=r"expected \.jsonl"):
        read(tmp_path, A, name)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    """A missing file and a directory each by one plain error."""
    (tmp_path / "dir.jsonl").mkdir()
    with pytest.raises(UsageFault, match=r"none\.jsonl: no such file"):
        list(read_dataset(tmp_path / "none.jsonl"))
    with pytest.raises(UsageFault, match=r"dir\.jsonl: expected a regular file"):
        list(read_dataset(tmp_path / "dir.jsonl"))


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.zst"])
def test_a_huge_line_is_one_row(tmp_path, name):
    """20 MB in one prompt, between two small rows."""
    huge = b'{"prompt": "' + b"x" * 20_000_000 + b'"}'
    data = A + b"\n" + huge + b"\n" + B
    first, middle, last = read(tmp_path, zstandard.compress(data) if name.endswith("zst") else data, name)
    assert (first.line, middle.line, last.line) == (1, 2, 3)
    assert len(middle.value["prompt"]) == 20_000_000


def test_all_bad_lines_are_said_at_once(tmp_path):
    """One error with each line's number; none where all is well."""
    path = tmp_path / "d.jsonl"
    refuse_bad_lines([], str(path))
    with pytest.raises(DatasetFault) as caught:
        refuse_bad_lines([BadLine(2, "blank prompt"), BadLine(40, "not an object")], str(path))
    assert "line 2: blank prompt\nline 40: not an object" in str(caught.value)
    assert caught.value.lines == [(2, "blank prompt"), (40, "not an object")]
    assert caught.value.exit_code == 2
    assert "--skip-bad-rows" in caught.value.hint


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["prompt", "messages", "image", "cwd", "id"]) | st.text(max_size=5)
rows = st.dictionaries(names, json_values, max_size=4) | json_values


def no_such_json(value):
    """Whether a value holds a float that JSON does not have."""
    if isinstance(value, float):
        return not math.isfinite(value)
    inner = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and any(map(no_such_json, inner))


def spoken(rows_written, *, ascii_only):
    """The rows as lines of a file; surrogates that have no partner must be escapes."""
    data = "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows_written)
    return data.encode("utf-8", "surrogatepass")


@given(st.lists(rows, max_size=8), st.booleans())
def test_any_rows_are_read_back_as_they_were_or_refused_with_their_line(tmp_path_factory, values, ascii_only):
    """No row is lost, none is changed, and nothing but what the design names is accepted."""
    data = spoken(values, ascii_only=ascii_only)
    found = read(tmp_path_factory.getbasetemp(), data, "any.jsonl")
    assert [line.line for line in found] == list(range(1, len(values) + 1))
    for line, value in zip(found, values, strict=True):
        prompt = value.get("prompt") if isinstance(value, dict) else None
        if isinstance(line, Row):
            assert line.value == value
            assert line.raw == json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
            assert prompt is None or prompt.strip()
        else:
            fine = isinstance(prompt, str) and prompt.strip() and not no_such_json(value)
            assert not fine or "bad UTF-8" in line.found


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_line_by_line(tmp_path_factory, data):
    """Junk never ends the reading, and a complaint never leaves its line."""
    found = read(tmp_path_factory.getbasetemp(), data, "junk.jsonl")
    assert len(found) <= data.count(b"\n") + 1
    assert all("\n" not in line.found and line.found.encode() for line in found if isinstance(line, BadLine))
