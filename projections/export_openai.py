"""Rows as OpenAI's fine-tuning lines: `{"messages": [...], "tools": [...]}`. Pure."""

import re
from typing import Any

import msgspec

from .export_rows import RowLine
from .jsontext import json_line, loads_lenient
from .messages import Message, request_messages
from .sharegpt_parse import parse_conversation

_TOOLS = re.compile(r"<tools>\s*(\[.*?\])\s*</tools>", re.DOTALL)


class _Conversation(msgspec.Struct):
    conversations: Any = None


_conversation = msgspec.json.Decoder(_Conversation)


def openai_line(row: RowLine, reasoning_field: str | None = None) -> bytes | None:
    """The row as a line; null where it is none to learn from: its last message is no answer, or it has none.

    Messages are as they would be sent, tool calls and results paired by id. `tools` is there where the row
    was offered any. What the model thought is left out, or stands in its messages as `reasoning_field`.
    """
    turns = _conversation.decode(row.line).conversations
    try:
        messages = parse_conversation(turns)
    except (ValueError, TypeError, KeyError, AttributeError):
        # A conversation of another program, which is not in this format.
        return None
    if not messages or messages[-1].role != "assistant" or messages[-1].tool_calls:
        return None
    line: dict[str, Any] = {"messages": _sent(messages, reasoning_field)}
    tools = _tools(turns[0])
    if tools:
        line["tools"] = tools
    return json_line(line)


def _sent(messages: list[Message], reasoning_field: str | None) -> list[dict[str, Any]]:
    sent = request_messages(messages, {})
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
