"""The columns of an export: one table of names, kinds and units, the same for every run and every format.

Each field of a row of `trajectories.jsonl` is the column of that name. What has one shape in every row has it
in the export too; what has another shape in another run (`metadata`, statistics by tool) is JSON text, to the
byte the text that stands in `trajectories.jsonl`.
"""

from typing import Any, Final, Literal

import msgspec

from .jsontext import json_text
from .units import DISCARDED, FAILED, KEPT

SCHEMA_VERSION: Final = 1
"""Raised when a column changes its kind or goes; a new one may come at the end without it."""

OUTCOMES: Final = (KEPT, DISCARDED, FAILED)
"""The outcomes whose units have rows."""

Kind = Literal["text", "int", "float", "bool", "json", "texts", "turns", "usage", "error"]

KINDS: Final[dict[Kind, str]] = {
    "text": "text",
    "int": "64-bit integer",
    "float": "64-bit floating point",
    "bool": "true or false",
    "json": "JSON text",
    "texts": "list of texts",
    "turns": "list of {from: text, value: text}",
    "usage": "{input_tokens, cached_input_tokens, output_tokens, reasoning_tokens: 64-bit integers}",
    "error": "{class: text, message: text, status: 64-bit integer, retryable: true or false}",
}
"""What a kind is, in words."""

USAGE_FIELDS: Final = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")


class Column(msgspec.Struct, frozen=True):
    """One column. Every one may be null; `says` tells what a value means, with its unit."""

    name: str
    kind: Kind
    says: str


COLUMNS: Final = (
    Column("prompt_id", "text", "content id of the prompt, and which of several equal rows: `80c9…#1`"),
    Column("prompt_index", "int", "place of the row in the dataset, from 0"),
    Column("sample", "int", "which try at the row, from 1"),
    Column("attempt", "int", "which attempt at this sample, from 1"),
    Column("outcome", "text", "`kept`, `discarded` or `failed`"),
    Column("reason", "text", "the quality rule that set a discarded row aside"),
    Column("error", "error", "why a failed row has no trajectory; `status` is that of HTTP"),
    Column("completed", "bool", "the model came to an end by itself"),
    Column("partial", "bool", "the conversation was cut off by a limit"),
    Column("finish_reason", "text", "how the last answer ended"),
    Column("score", "float", "what the judge gave"),
    Column("feedback", "text", "what the judge said"),
    Column("conversations", "turns", "the conversation as ShareGPT turns: system, human, gpt, tool"),
    Column("model", "text", "the model that was asked"),
    Column("batch_num", "int", "the batch of the row, from 1"),
    Column("timestamp", "text", "when the row ended, RFC 3339, UTC"),
    Column("duration_s", "float", "seconds from the attempt's begin to its end"),
    Column("api_calls", "int", "answered model calls of the conversation"),
    Column("usage", "usage", "tokens of the attempt, as the provider reported them"),
    Column("cost_usd", "text", "what the attempt cost, an exact decimal number of USD"),
    Column("settings", "text", "digest of the settings in force, as `evrun show` and `evrun events` have it"),
    Column("toolsets_used", "texts", "the toolsets that were offered"),
    Column("tool_stats", "json", "{tool: {count, success, failure}}"),
    Column("tool_error_counts", "json", "{tool: failures}"),
    Column("unknown_tool_calls", "int", "calls of tools that were not offered"),
    Column("escaped", "bool", "a tag in free text had to be escaped in `conversations`"),
    Column("metadata", "json", "`batch_num`, `timestamp`, `model`, and the dataset row's own fields"),
)
"""All columns, in their order."""

OF_METADATA: Final = frozenset({"model", "batch_num", "timestamp"})
"""Columns that stand in `metadata` in a row of `trajectories.jsonl`."""

_LIMIT = 1 << 63
_TURN = ("from", "value")


def fit(kind: Kind, value: Any) -> Any:
    """A JSON value as a column of this kind holds it; null where it cannot.

    evrun's own rows always fit. Rows of another program's run may not: parts of turns that are no text
    become JSON text, and what has no place is left out.
    """
    if kind == "int":
        return value if type(value) is int and -_LIMIT <= value < _LIMIT else None
    if kind == "float":
        return float(value) if type(value) in {int, float} else None
    if kind == "bool":
        return value if type(value) is bool else None
    if kind == "text":
        return value if type(value) is str else None
    if kind == "texts":
        return [_text(item) for item in value] if type(value) is list else None
    if kind == "turns":
        return _turns(value) if type(value) is list else None
    return _struct(kind, value) if type(value) is dict else None


def _turns(turns: list[Any]) -> list[dict[str, str]] | None:
    if not all(type(turn) is dict for turn in turns):
        return None
    return [{name: _text(turn.get(name)) for name in _TURN} for turn in turns]


def _struct(kind: Kind, value: dict[str, Any]) -> dict[str, Any]:
    if kind == "usage":
        return {name: fit("int", value.get(name)) for name in USAGE_FIELDS}
    return {
        "class": fit("text", value.get("class")),
        "message": fit("text", value.get("message")),
        "status": fit("int", value.get("status")),
        "retryable": fit("bool", value.get("retryable")),
    }


def _text(value: Any) -> str:
    return value if type(value) is str else json_text(value)
