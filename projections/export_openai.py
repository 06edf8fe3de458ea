"""Rows as OpenAI's fine-tuning lines: `{"messages": [...], "tools": [...]}`. Pure."""

import re
from typing import Any

import msgspec

from .asking import row_messages
from .export_rows import RowLine
from .jsontext import json_line, loads_lenient
from .load import Log
from .messages import Message, request_messages
from .rows_source import RowSource
from .sharegpt_parse import parse_conversation
from .state import RunState

_TOOLS = re.compile(r"<tools>\s*(\[.*?\])\s*</tools>", re.DOTALL)


class _Conversation(msgspec.Struct):
    conversations: Any = None


class _Place(msgspec.Struct):
    prompt_id: str
    sample: int


_conversation = msgspec.json.Decoder(_Conversation)
_place = msgspec.json.Decoder(_Place)


def openai_line(
    row: RowLine, asked: list[Message] | None = None, reasoning_field: str | None = None
) -> bytes | None:
    """The row as a line; null where it is none to learn from: its last message is no answer, or it has none.

    Messages are as they would be sent, tool calls and results paired by id. Where `asked` (the dataset row's
    own messages) are given, parts of theirs that are no text, such as images, are what they were. `tools` is
    there where the row was offered any. What the model thought is left out, or stands in its messages as
    `reasoning_field`.
    """
    turns = _conversation.decode(row.line).conversations
    try:
        messages = parse_conversation(turns)
    except (ValueError, TypeError, KeyError, AttributeError):
        # A conversation of another program, which is not in this format.
        return None
    if not messages or messages[-1].role != "assistant" or messages[-1].tool_calls:
        return None
    line: dict[str, Any] = {"messages": _sent(messages, asked or [], reasoning_field)}
    tools = _tools(turns[0])
    if tools:
        line["tools"] = tools
    return json_line(line)


def _sent(messages: list[Message], asked: list[Message], reasoning_field: str | None) -> list[dict[str, Any]]:
    sent = request_messages(messages, {})
    for message, own, shown in zip(messages, asked, sent, strict=False):
        parts = None if own.given is None else own.given.get("content")
        if isinstance(parts, list) and (own.role, own.content) == (message.role, message.content):
            shown["content"] = parts
    if reasoning_field is not None:
        for message, shown in zip(messages, sent, strict=True):
            if message.reasoning is not None:
                shown[reasoning_field] = message.reasoning
    return sent


def _tools(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools that a system turn lists."""
    found = _TOOLS.search(turn["value"]) if turn["from"] == "system" else None
    try:
        listed = loads_lenient(found[1]) if found else []
    except ValueError:
        listed = []
    named = [tool for tool in listed if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    return [_function(tool) for tool in named]


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    names = ("name", "description", "parameters")
    return {
        "type": "function",
        "function": {name: tool[name] for name in names if tool.get(name) is not None},
    }


class AskedMessages:
    """Gives the messages of the dataset row that an exported row answers, looked up in the log."""

    def __init__(self, log: Log, state: RunState) -> None:
        self._batch = state.batch
        self._rows = RowSource(log)

    def of(self, row: RowLine) -> list[Message]:
        """The messages; none where the row asks nothing that could be sent, or stands in no plan."""
        place = _place.decode(row.line)
        unit = self._batch.units.get(f"prompt:{place.prompt_id}.{place.sample}")
        try:
            return [] if unit is None else row_messages(self._rows.row_of(unit), self._batch.settings)
        except ValueError:
            return []
