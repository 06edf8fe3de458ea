"""Rows of an export: values that fit their columns and such that do not, cells of CSV, fine-tuning lines."""

import json
from typing import Any

import pytest

from projections import EXPORT_COLUMNS, ExportRows, RowLine, csv_line, openai_line
from projections.export_schema import fit


def line(**fields: Any) -> RowLine:
    """A row of a view with nothing in it but these fields."""
    empty = {
        column.name: None for column in EXPORT_COLUMNS if column.name not in {"outcome", "reason", "error"}
    }
    return RowLine("kept", json.dumps(empty | {"metadata": {}} | fields).encode())


@pytest.mark.parametrize(
    ("kind", "value", "becomes"),
    [
        ("int", True, None),
        ("int", 2**63, None),
        ("int", -(2**63), -(2**63)),
        ("int", 1.0, None),
        ("float", 3, 3.0),
        ("float", "3", None),
        ("bool", 1, None),
        ("text", 5, None),
        ("texts", ["a", 5], ["a", "5"]),
        ("turns", [{"from": "gpt", "value": "x", "weight": 1}], [{"from": "gpt", "value": "x"}]),
        ("turns", [{"from": "tool", "value": {"a": 1}}], [{"from": "tool", "value": '{"a":1}'}]),
        ("turns", ["x"], None),
        ("turns", {"from": "gpt"}, None),
        ("usage", {"input_tokens": 1}, dict.fromkeys(
            ("cached_input_tokens", "output_tokens", "reasoning_tokens")) | {"input_tokens": 1}),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_column_is_null_or_the_nearest_that_does(
    kind: Any, value: Any, becomes: Any
) -> None:
    """A column has one type whatever another program wrote."""
    assert fit(kind, value) == becomes
    assert type(fit(kind, value)) is type(becomes)


def test_values_that_had_to_change_are_counted_by_column() -> None:
    """So that a loss is told, and evrun's own rows count none."""
    rows = ExportRows()
    rows.values(line(api_calls="3", conversations=[{"from": "gpt", "value": "x", "weight": 1}]))
    rows.values(line(api_calls=3, duration_s=1, metadata={"batch_num": "one"}))
    assert {name: count for name, count in rows.misfits.items() if count} == {
        "api_calls": 1, "conversations": 1, "batch_num": 1,
    }  # fmt: skip


def test_csv_tells_null_from_the_empty_text_and_hides_every_line_end() -> None:
    """Texts are in quotes, with quotes doubled; numbers and truth are not; null is nothing."""
    values = [None, "", 'a "b"\r,\n', 5, 0.25, True, False, {"x": ["y"]}]
    assert csv_line(values) == b',"","a ""b""\r,\n",5,0.25,true,false,"{""x"":[""y""]}"\r\n'


@pytest.mark.parametrize(
    "turns", [None, [], "text", [{"from": "human", "value": "x"}], [{"from": "robot", "value": "x"}], [5]]
)
def test_what_is_no_conversation_with_an_answer_makes_no_fine_tuning_line(turns: Any) -> None:
    """Also where another program's row is of a shape that nobody expected."""
    assert openai_line(line(conversations=turns)) is None
