"""Rows of an export: values that fit their columns and such that do not, cells of CSV, fine-tuning lines."""

import json
from typing import Any

import pytest

from projections import EXPORT_COLUMNS, ExportRows, RowLine, csv_line, openai_line
from projections.export_quick import quick_values
from projections.export_schema import OF_METADATA, USAGE_FIELDS, fit


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


OWN = {
    "prompt_id": "80c9#1", "prompt_index": 3, "sample": 1, "attempt": 2, "completed": True, "partial": False,
    "reason": "no_reasoning", "error": {"class": "x", "message": "y", "status": 500, "retryable": True},
    "finish_reason": "stop", "score": 1, "conversations": [{"from": "gpt", "value": "four"}],
    "duration_s": 0.25, "usage": dict.fromkeys(USAGE_FIELDS, 1) | {"reasoning_tokens": None},
    "toolsets_used": ["eyes"], "tool_stats": {"a": {"b": 1.50}}, "escaped": False, "feedback": None,
    "metadata": {"batch_num": 1, "model": "m", "timestamp": None, "own": [1]}, "beside": "of no column",
    "model": "not this one",
}  # fmt: skip
ODD = [
    None, True, 0, 1.0, -(2**63), 2**63, 1.5, "x", "", [], ["x"], ["x", 1], {}, {"from": "x", "value": "y"},
    [{"from": "x", "value": "y"}], [{"value": "y", "from": "x"}], [{"from": "x", "value": 1}],
    [{"from": "x"}], [{"from": "x", "value": "y", "weight": 1}], {"batch_num": "one"}, {"model": 5},
    dict.fromkeys(USAGE_FIELDS, 2.0), dict.fromkeys(USAGE_FIELDS), {"input_tokens": 1},
    {"class": None, "message": None, "status": None, "retryable": None, "more": 1},
]  # fmt: skip


@pytest.mark.parametrize("name", [None, *(column.name for column in EXPORT_COLUMNS)])
def test_a_line_read_at_once_gives_the_values_that_were_looked_at_one_by_one(name: str | None) -> None:
    """Or none, where one of them has to change: whatever stands in any column, alone or twice."""
    for value in ODD:
        fields = OWN if name is None else OWN | {name: value}
        text = json.dumps(fields).encode()
        for data in (text, text.replace(b'"escaped"', b'"prompt_index": 7, "escaped"')):
            metadata = fields["metadata"] if isinstance(fields["metadata"], dict) else {}
            there = json.loads(data) | {"outcome": "kept"}
            there |= {known: metadata.get(known) for known in OF_METADATA}
            expected = [
                (None if there.get(column.name) is None else json.dumps(there[column.name]))
                if column.kind == "json"
                else fit(column.kind, there.get(column.name))
                for column in EXPORT_COLUMNS
            ]
            kept_as_it_is = all(
                column.kind == "json" or made == there.get(column.name)
                for column, made in zip(EXPORT_COLUMNS, expected, strict=True)
            )
            made = quick_values(data, "kept")
            assert made is None or [repr(one) for one in made] == [repr(one) for one in expected]
            assert (made is not None) <= kept_as_it_is
            rows = ExportRows()
            assert rows.values(RowLine("kept", data)) == expected
            assert (rows.misfits.total() == 0) == kept_as_it_is
    assert quick_values(json.dumps(OWN).encode(), "kept") is not None


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
