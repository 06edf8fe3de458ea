"""Lines of the row files as rows of an export, and which of several samples is the best. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from .export_quick import quick_values
from .export_schema import COLUMNS, OF_METADATA, fit
from .jsontext import json_line, json_text
from .units import DISCARDED, FAILED, KEPT
from .view_names import DISCARDED_ROWS, FAILED_ROWS, batch_number

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_value = msgspec.json.Decoder()
_JSON_NULL = "null"


class RowLine(NamedTuple):
    """A line of a row file, and the outcome that its file stands for."""

    outcome: str
    line: bytes


class _Rank(msgspec.Struct):
    prompt_id: str
    sample: int
    score: float | None


_rank = msgspec.json.Decoder(_Rank)


def outcome_of(file: str) -> str | None:
    """The outcome of the rows in a row file; null where its lines are something else."""
    if batch_number(file) is not None:
        return KEPT
    return {DISCARDED_ROWS: DISCARDED, FAILED_ROWS: FAILED}.get(file)


class ExportRows:
    """Makes rows of lines. `misfits` counts, by column, the values that had to change to fit it.

    Only rows that came from another program's run can hold such values.
    """

    def __init__(self) -> None:
        self.misfits: Counter[str] = Counter()

    def values(self, row: RowLine) -> list[Any]:
        """The row's values, in the order of `COLUMNS`."""
        values = quick_values(row.line, row.outcome)
        return self._fitted(row) if values is None else values

    def _fitted(self, row: RowLine) -> list[Any]:
        """As `values`, each looked at by itself."""
        fields = _fields.decode(row.line)
        metadata = _value.decode(fields["metadata"])
        given = metadata if isinstance(metadata, dict) else {}
        values: list[Any] = []
        for column in COLUMNS:
            if column.kind == "json":
                values.append(_json_text(fields.get(column.name)))
            elif column.name == "outcome":
                values.append(row.outcome)
            else:
                raw = fields.get(column.name)
                value = None if raw is None else _value.decode(raw)
                value = given.get(column.name) if column.name in OF_METADATA else value
                values.append(fit(column.kind, value))
                self.misfits[column.name] += values[-1] != value
        return values


def row_object(values: list[Any]) -> dict[str, Any]:
    """The row as a JSON object."""
    return {column.name: value for column, value in zip(COLUMNS, values, strict=True)}


def jsonl_line(values: list[Any]) -> bytes:
    """The row as a line of JSON."""
    return json_line(row_object(values))


def csv_head() -> bytes:
    """The first line of a CSV file: the names of the columns."""
    return ",".join(column.name for column in COLUMNS).encode() + b"\r\n"


def csv_line(values: list[Any]) -> bytes:
    """The row as a record of CSV (RFC 4180).

    Texts are always in quotes, so that an empty one and null (nothing at all) stay apart, whatever a reader
    takes for the end of a line. What is nested is JSON text.
    """
    return ",".join(map(_cell, values)).encode() + b"\r\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json_text(value)
    text = value if isinstance(value, str) else json_text(value)
    return f'"{text.replace(chr(34), chr(34) * 2)}"'


def _json_text(raw: msgspec.Raw | None) -> str | None:
    text = _JSON_NULL if raw is None else bytes(raw).decode()
    return None if text == _JSON_NULL else text


class Best(NamedTuple):
    """Which rows are the best of their prompts, by place from 0; how many prompts have no score at all."""

    places: list[int]
    unscored: int


def best_of(rows: Iterable[RowLine]) -> Best:
    """Of the rows of each prompt the one with the highest score; of equal ones the first sample."""
    best: dict[str, tuple[float, int, int]] = {}
    prompts: set[str] = set()
    for place, row in enumerate(rows):
        one = _rank.decode(row.line)
        prompts.add(one.prompt_id)
        if one.score is None:
            continue
        key = (one.score, -one.sample, place)
        best[one.prompt_id] = max(best.get(one.prompt_id, key), key, key=_by_score)
    return Best(sorted(place for _, _, place in best.values()), len(prompts) - len(best))


def _by_score(key: tuple[float, int, int]) -> tuple[float, int]:
    return key[:2]
