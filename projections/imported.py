"""What was finished in another program's run: its row as a row of ours, and what it counts. Pure.

The fields that such a row has are given on exactly as they are; what only evrun knows of a row is null.
"""

import re
from typing import Any

import msgspec

from eventlog.events import Counts, TrajectoryImported

from .jsontext import json_line
from .own_fields import in_form, own_fields, row_object
from .render_rows import NO_COUNTS, Frame, Place
from .unit_rows import Unit
from .units import DISCARDED, FAILED

GIVEN_ON = ("completed", "partial", "api_calls", "toolsets_used")
"""Fields of an imported row that are the same fields of ours; so are its conversation and its tools."""
_THOUGHT = re.compile(r"<think>\s*(?!</think>)\S")
_TOO_MANY = 1 << 53
_NO_USAGE = {
    "input_tokens": None,
    "cached_input_tokens": None,
    "output_tokens": None,
    "reasoning_tokens": None,
}


def imported_row(frame: Frame, place: Place, event: TrajectoryImported, unit: Unit) -> bytes:
    """The unit's line in `batch_<n>.jsonl`, `discarded.jsonl` or `failed.jsonl`."""
    given, exact = _read(event.row)
    stats, errors = frame.tool_stats(NO_COUNTS)
    fields: dict[str, Any] = {
        "prompt_index": place.index,
        "conversations": exact.get("conversations", _asked(place, given)),
        "metadata": _metadata(frame, place, given),
        **{name: exact.get(name, [] if name == "toolsets_used" else None) for name in GIVEN_ON},
        "tool_stats": _tools("tool_stats", given, exact, stats),
        "tool_error_counts": _tools("tool_error_counts", given, exact, errors),
        "prompt_id": place.unit.removeprefix("prompt:").rpartition(".")[0],
        "sample": place.sample,
        "attempt": event.attempt,
        "usage": _NO_USAGE,
        **dict.fromkeys(("cost_usd", "duration_s", "finish_reason", "score")),
        "escaped": False,
        **dict.fromkeys(("feedback", "settings", "unknown_tool_calls")),
    }
    if unit.outcome == DISCARDED:
        fields["reason"] = unit.reason
    elif unit.outcome == FAILED:
        message = f"failed in the run that {event.source} is from"
        fields["error"] = {"class": unit.reason, "message": message, "status": None, "retryable": True}
    return json_line(fields)


def imported_counts(row: dict[str, Any]) -> Counts:
    """What an imported trajectory adds to the statistics, as far as its row says.

    Tools that it names and did not call are there too: they are tools of its run.
    """
    stats, turns = row.get("tool_stats"), row.get("conversations")
    said = [turn.get("value") for turn in turns if _is_answer(turn)] if isinstance(turns, list) else []
    reasoned = sum(isinstance(value, str) and _THOUGHT.search(value) is not None for value in said)
    tools = {
        name: _numbers(given)
        for name, given in (stats.items() if isinstance(stats, dict) else ())
        if isinstance(given, dict)
    }
    calls = _count(row.get("api_calls"))
    return Counts(calls, reasoned, len(said) - reasoned, None, tools) if row else NO_COUNTS


def imported_prompt(row: dict[str, Any]) -> str | None:
    """The prompt that an imported row answers: its first human turn, or what a row without turns says."""
    turns = row.get("conversations")
    if isinstance(turns, list) and turns:
        values = [
            turn.get("value") for turn in turns if isinstance(turn, dict) and turn.get("from") == "human"
        ]
        return values[0] if values and isinstance(values[0], str) else None
    prompt = row.get("prompt")
    return prompt if isinstance(prompt, str) else None


def _read(row: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row's values, and the same with each value's own text where that can stand in a view as it is."""
    given = row_object(row)
    if b"\\u" in row:
        # An escape may be half a character, which only reading it can tell.
        return given, given
    try:
        row.decode()
        return given, msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return given, given


def _asked(place: Place, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The only turn that is known where the conversation is lost."""
    prompt = imported_prompt(given) or imported_prompt(row_object(place.row))
    return [] if prompt is None else [{"from": "human", "value": prompt}]


def _metadata(frame: Frame, place: Place, given: dict[str, Any]) -> dict[str, Any]:
    """`batch_num` is ours, model and time are the row's, and the planned row has fields of its own."""
    there = given.get("metadata")
    known = there if isinstance(there, dict) else {}
    own = own_fields(row_object(place.row), frame.template)
    return {
        "batch_num": place.batch,
        "timestamp": known.get("timestamp"),
        "model": known.get("model"),
        **in_form(own, frame.own),
    }


def _tools(name: str, given: dict[str, Any], exact: dict[str, Any], nothing: dict[str, Any]) -> Any:
    """What a row says of its tools; with the other tools of the run where it does not know them all."""
    found = given.get(name)
    if not isinstance(found, dict):
        return None
    return exact[name] if nothing.keys() <= found.keys() else nothing | found


def _is_answer(turn: object) -> bool:
    return isinstance(turn, dict) and turn.get("from") == "gpt"


def _numbers(given: dict[str, Any]) -> tuple[int, int, int]:
    return _count(given.get("count")), _count(given.get("success")), _count(given.get("failure"))


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < _TOO_MANY else 0
