"""The same rows in any form are the same prompts: identities do not depend on how a dataset is written."""

import csv
import gzip
import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from evrun.batch.dataset import BadLine, Terms, read_dataset, refuse_bad_lines, spool_stdin
from evrun.batch.plan import Numbering, plan, scan
from evrun.errors import DatasetFault

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
tables = st.lists(st.fixed_dictionaries({"prompt": texts, "hint": texts}), min_size=1, max_size=6)
TEMPLATES = st.sampled_from(["{prompt}", "{hint}", "{prompt} {hint}", "Say: {prompt}"])


def written(place, rows):
    """The rows as a file of each form."""
    jsonl, table, parquet = (place / f"d.{ending}" for ending in ("jsonl", "csv", "parquet"))
    jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, ["prompt", "hint"], quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    table.write_bytes(buffer.getvalue().encode())
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    return jsonl, table, parquet


@given(tables, TEMPLATES)
@settings(deadline=None)
def test_any_texts_make_the_same_rows_and_identities_in_every_form(tmp_path_factory, rows, template):
    """Nothing is trimmed, joined, guessed or lost; what is refused is refused in each of them."""
    files = written(tmp_path_factory.getbasetemp(), rows)
    found = [list(read_dataset(path, Terms(template=template))) for path in files]
    values = [[line.found if isinstance(line, BadLine) else line.value for line in lines] for lines in found]
    assert values[0] == values[1] == values[2]
    assert len(values[0]) == len(rows)
    one, other, third = (scan(lines, None, template) for lines in found)
    assert list(one.identities) == list(other.identities) == list(third.identities)


@given(tables)
@settings(max_examples=20, deadline=None)
def test_what_is_planned_of_a_table_is_its_rows_as_json(tmp_path_factory, rows):
    """The log holds objects, whatever the dataset was."""
    for path in written(tmp_path_factory.getbasetemp(), rows):
        lines = list(read_dataset(path))
        events = plan(lines, scan(lines, None), None, Numbering(0, 1, 0, 10), 1)
        planned = [json.loads(row.row) for event in events for row in getattr(event, "rows", [])]
        assert planned == [row for row in rows if row["prompt"].strip()]


def test_rows_without_a_prompt_are_scanned_and_planned_under_their_template(tmp_path):
    """By the field that it names: a repeat is one, and what is carried along makes no difference."""
    path = tmp_path / "d.jsonl"
    path.write_text("".join(f'{{"q": "{q}", "id": {n}}}\n' for n, q in enumerate("aba")), encoding="utf-8")
    template = "Why {q}?"
    scanned = scan(read_dataset(path, Terms(template=template)), None, template)
    (a, one), (b, only), (again, two) = scanned.identities
    assert (a == again, a != b, one, only, two) == (True, True, 1, 1, 2)
    events = list(plan(read_dataset(path, Terms(template=template)), scanned, None, Numbering(0, 1, 0, 2), 1))
    assert [(row.content, row.index, row.batch) for row in events[0].rows] == [
        (a, 0, 1),
        (b, 1, 1),
        (a, 2, 2),
    ]


def test_a_dataset_without_prompts_is_told_about_templates(tmp_path):
    """Where that may be what is missing, and only there."""
    with pytest.raises(DatasetFault) as caught:
        refuse_bad_lines([BadLine(2, "no \"prompt\" (found the fields 'q')")], "d.csv")
    assert "--template" in caught.value.hint
    with pytest.raises(DatasetFault) as caught:
        refuse_bad_lines([BadLine(2, "blank prompt")], "d.csv")
    assert "--template" not in caught.value.hint


class _Stdin:
    def __init__(self, data):
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst", "parquet"])
def test_standard_input_is_read_in_the_form_that_it_begins_like(tmp_path, monkeypatch, ending):
    """JSONL, plain or packed, and parquet."""
    data = b'{"prompt": "a"}\n{"prompt": "b"}\n'
    packed = {"jsonl": data, "jsonl.gz": gzip.compress(data), "jsonl.zst": zstandard.compress(data)}
    if ending == "parquet":
        pq.write_table(pa.table({"prompt": ["a", "b"]}), tmp_path / "d")
        packed["parquet"] = (tmp_path / "d").read_bytes()
    monkeypatch.setattr(sys, "stdin", _Stdin(packed[ending]))
    path = spool_stdin(tmp_path)
    assert [line.value["prompt"] for line in read_dataset(path)] == ["a", "b"]


def test_an_empty_standard_input_has_no_rows(tmp_path, monkeypatch):
    """It is an empty JSONL file."""
    monkeypatch.setattr(sys, "stdin", _Stdin(b""))
    assert list(read_dataset(spool_stdin(tmp_path))) == []
