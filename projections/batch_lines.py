"""Lines of OpenAI's batch files: a row that is a request by itself, with an answer as its end. Pure."""

import json
from typing import Any

from .templates import template_fields

_KEYS = ("custom_id", "url", "body")
_NOT_OWN = frozenset({"model", "messages", "stream"})
_SAME_SAID = (("max_tokens", "max_completion_tokens"), ("reasoning_effort", "reasoning"))
"""Fields that say one thing in two spellings: a line's own takes the place of both."""


def is_batch_line(row: dict[str, Any]) -> bool:
    """Whether a row is such a line, perhaps a bad one: it has what they have, and no prompt or messages."""
    return (
        row.get("prompt") is None
        and all(key in row for key in _KEYS)
        and row.get("messages") is None
        and row.get("conversations") is None
    )


def batch_request(row: dict[str, Any]) -> dict[str, Any] | None:
    """The request body of a row that is such a line; null where it is none."""
    body = row.get("body")
    return body if isinstance(body, dict) and is_batch_line(row) else None


def batch_identity(row: dict[str, Any]) -> str:
    """What such a line is known by: its name and all that it asks, as canonical JSON."""
    known = {"custom_id": row["custom_id"], "body": row["body"]}
    return json.dumps(known, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def with_own_fields(body: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """A request body with a line's own fields in the place of those of the run; `body` for any other row.

    The model is the run's, which is the lines' own unless a resume changed it.
    """
    asked = batch_request(row)
    if asked is None:
        return body
    own = {name: value for name, value in asked.items() if name not in _NOT_OWN}
    replaced = {name for pair in _SAME_SAID if own.keys() & set(pair) for name in pair}
    return {name: value for name, value in body.items() if name not in replaced} | own


def own_tools(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools that a line offers, as ``{"name", "description", "parameters"}``."""
    request = batch_request(row)
    tools = None if request is None else request.get("tools")
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)] if tools else []
    return [tool for tool in functions if isinstance(tool, dict) and "name" in tool]


def asking_fields(row: dict[str, Any], template: str) -> frozenset[str]:
    """The fields of a row that are what it asks; all others are carried along."""
    if is_batch_line(row):
        return frozenset({"body"})
    empty = {name for name in ("prompt", "messages", "conversations") if not row.get(name)}
    if isinstance(row.get("prompt"), str):
        return frozenset(empty | ({"prompt"} & template_fields(template)))
    turns = "messages" if row.get("messages") is not None else "conversations"
    return frozenset(empty | ({turns} if isinstance(row.get(turns), list) else set()))
