"""CSV datasets: rows as a table's reader sees them, or complaints with the line that an editor shows."""

import gzip
import tracemalloc

import pytest
import zstandard

from evrun.batch.dataset import BadLine, Row, Terms, read_dataset
from evrun.errors import DatasetFault, UsageFault


def read(tmp_path, data, name="d.csv", terms=None):
    """What a CSV file of these bytes holds."""
    path = tmp_path / name
    path.write_bytes(data)
    return list(read_dataset(path, terms or Terms()))


TABLE = 'prompt,id\r\n"a, ""b""\r\nc",1\r\n\r\né,2'.encode()
ROWS = [(2, {"prompt": 'a, "b"\r\nc', "id": "1"}), (5, {"prompt": "é", "id": "2"})]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("d.csv", TABLE),
        ("d.csv", b"\xef\xbb\xbf" + TABLE + b"\r\n"),
        ("D.CSV.GZ", gzip.compress(TABLE)),
        ("d.csv.zst", zstandard.compress(TABLE[:20]) + zstandard.compress(TABLE[20:])),
    ],
    ids=["plain", "a byte order mark", "gz", "zst of two frames"],
)
def test_a_table_is_read_with_the_lines_where_its_rows_begin(tmp_path, name, data):
    """Quotes, commas and line ends in cells; a byte order mark; blank lines; packed."""
    assert [(row.line, row.value) for row in read(tmp_path, data, name)] == ROWS


def test_cells_are_text_and_rows_are_json_objects(tmp_path):
    """Numbers, null and JSON are text like any other; the row's bytes are its object."""
    (row,) = read(tmp_path, b'prompt,a,b,c\nx,1,null,"{""k"": 1}"\n')
    assert row.value == {"prompt": "x", "a": "1", "b": "null", "c": '{"k": 1}'}
    assert row.raw == b'{"prompt":"x","a":"1","b":"null","c":"{\\"k\\": 1}"}'


REFUSED = {
    "a cell too few": (b"x", "1 cell, and the header names 2"),
    "a cell too many": (b"x,1,2", "3 cells, and the header names 2"),
    "a blank prompt": (b" ,1", "blank prompt"),
    "bad UTF-8": (b"x,\xff", "bad UTF-8 in column 'id'"),
    "text after a quote": (b'"x"y,1', "bad CSV: "),
    "a lone carriage return": (b"x\ry,1", "bad CSV: "),
}


@pytest.mark.parametrize(("line", "found"), REFUSED.values(), ids=REFUSED)
def test_a_record_that_cannot_be_used_is_refused_with_its_line(tmp_path, line, found):
    """It stands between two good ones, one of which takes two lines."""
    first, bad, last = read(tmp_path, b'prompt,id\n"a\nb",1\n' + line + b"\nc,2\n")
    assert (first.value["prompt"], last.value["prompt"]) == ("a\nb", "c")
    assert isinstance(bad, BadLine)
    assert bad.line == 4
    assert found in bad.found


def test_a_quote_that_is_never_closed_is_told_with_all_that_it_swallowed(tmp_path):
    """The line where it is opened and the line where the file ends."""
    first, bad = read(tmp_path, b'prompt\na\n"b\nc\nd\n')
    assert first.value == {"prompt": "a"}
    assert (bad.line, "never closed; the file ends at line 5" in bad.found) == (3, True)


HEADERS = {
    "no name": (b"prompt,,a,\nx,1,2,3\n", 1, "column 2, 4 has no name"),
    "a name of spaces": (b"prompt, \nx,1\n", 1, "column 2 has no name"),
    "twice the same": (b"prompt,id,prompt\nx,1,2\n", 1, "columns 1, 3 are all named 'prompt'"),
    "semicolons": (b"prompt;id\nx;1\n", 1, "expected commas between the names, found ';'"),
    "tabs": (b"\n\nprompt\tid\nx\t1\n", 3, "expected commas between the names, found '\\t'"),
    "bad UTF-8": (b"pr\xffompt\nx\n", 1, "bad UTF-8 in the header"),
    "an open quote": (b'"prompt\nx\n', 1, "never closed"),
}


@pytest.mark.parametrize(("data", "line", "found"), HEADERS.values(), ids=HEADERS)
def test_a_header_that_cannot_be_used_is_refused_with_its_line(tmp_path, data, line, found):
    """No row could be read right under it, so none is."""
    with pytest.raises(DatasetFault) as caught:
        read(tmp_path, data)
    assert [number for number, _ in caught.value.lines] == [line]
    assert f"line {line}: " in str(caught.value)
    assert found in str(caught.value)


def test_a_table_without_prompts_says_which_columns_it_has(tmp_path):
    """And with a template it needs none."""
    data = b"question,answer\nWhy?,So.\n"
    (bad,) = read(tmp_path, data)
    assert bad == (2, "no \"prompt\" (found the fields 'answer, question')")
    (row,) = read(tmp_path, data, terms=Terms(template="{question}"))
    assert isinstance(row, Row)
    (bad,) = read(tmp_path, data, terms=Terms(template="{q}"))
    assert (
        bad.found == "the template names {q}, which the row does not have (found the fields answer, question)"
    )


def test_a_table_of_nothing_has_no_rows(tmp_path):
    """Neither an empty file nor a header alone is a complaint of the reader."""
    assert [read(tmp_path, data) for data in (b"", b"\n\n", b"prompt\n")] == [[], [], []]


def test_a_huge_cell_is_one_row(tmp_path):
    """20 MB with line ends in it; more than the module of the standard library takes by itself."""
    huge = ("x" * 999 + "\n") * 20_000
    first, middle = read(tmp_path, b'prompt\na\n"' + huge.encode() + b'"\n')
    assert (first.line, middle.line, middle.value["prompt"] == huge) == (2, 3, True)


def test_a_cell_without_end_is_refused(tmp_path, monkeypatch):
    """Rather than taking the rest of a large file for one cell."""
    monkeypatch.setattr("evrun.batch.dataset_csv.LARGEST_CELL", 1000)
    with pytest.raises(UsageFault, match=r"line 2: a cell of more than 1000 letters"):
        read(tmp_path, b'prompt\n"' + b"x\n" * 1000)


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """20 MB of rows, of which a few are there at a time."""
    path = tmp_path / "d.csv"
    path.write_bytes(b"prompt\n" + b"".join(b"%d" % n + b"x" * 100_000 + b"\n" for n in range(200)))
    tracemalloc.start()
    try:
        for _ in read_dataset(path):
            pass
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000
