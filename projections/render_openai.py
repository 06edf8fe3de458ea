"""A finished unit of a batch line as a line of OpenAI's output and error files. Pure."""

from typing import Any

from eventlog.events import PromptFailed

from .batch_lines import batch_request
from .conversation import Attempt, Turn
from .jsontext import decode_text, json_line, loads_lenient
from .render_rows import Place

_MARK = b'"custom_id"'


def batch_line_id(row: bytes) -> str | None:
    """The `custom_id` of a row that is a line of an OpenAI batch file; null for any other row."""
    if _MARK not in row and b"\\u" not in row:
        return None
    try:
        value = loads_lenient(row)
    except ValueError:
        return None
    if not isinstance(value, dict) or batch_request(value) is None:
        return None
    return str(value["custom_id"])


def output_line(place: Place, custom_id: str, attempt: Attempt) -> bytes:
    """A line of `openai_output.jsonl`: the answer whole, as the endpoint gave it."""
    return _line(place, custom_id, _answered(attempt), None)


def error_line(place: Place, custom_id: str, attempt: Attempt | None, ending: PromptFailed) -> bytes:
    """A line of `openai_errors.jsonl`; the answer stands in it where one came that could not be used."""
    response = None if attempt is None else _answered(attempt)
    if response is None and ending.status is not None:
        response = {"status_code": ending.status, "request_id": None, "body": None}
    return _line(place, custom_id, response, {"code": ending.error_class, "message": ending.message})


def _line(place: Place, custom_id: str, response: Any, error: Any) -> bytes:
    return json_line({"id": place.unit, "custom_id": custom_id, "response": response, "error": error})


def _answered(attempt: Attempt) -> dict[str, Any] | None:
    turns = attempt.answered_turns
    if not turns or attempt.open_turn is not None:
        return None
    return {"status_code": 200, "request_id": turns[-1].request_id, "body": _body(turns[-1])}


def _body(turn: Turn) -> Any:
    body = turn.body or b""
    try:
        return loads_lenient(body)
    except ValueError:
        return decode_text(body)
