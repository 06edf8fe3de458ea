"""Conversations as messages: what a dataset row asks, what an attempt said, and what goes on the wire.

Messages hold text without lone surrogates: U+FFFD stands in their place, since neither a request nor a view
can carry them. The log keeps the bytes as they came.
"""

import json
import re
from typing import Any, Literal

import msgspec

from .answer import Answer, ToolCall
from .conversation import Attempt, Turn
from .escape import is_json_object
from .jsontext import clean_text, decode_text, json_text

Role = Literal["system", "user", "assistant", "tool"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Message(msgspec.Struct, gc=False):
    """One message: `tool_call_id` and `name` are of a tool, `reasoning` and `tool_calls` of the model."""

    role: Role
    content: str
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None


def prompt_text(row: dict[str, Any]) -> str:
    """The text that a row is known by: its prompt exactly, or all its messages as canonical JSON.

    Raises:
        ValueError: the row asks nothing: no prompt and no messages, a bad turn, no user turn, a blank one.
    """
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        return prompt
    turns = _turns(row)
    _asking(_read_turns(turns))
    return json.dumps(turns, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def row_messages(row: dict[str, Any], settings: dict[str, Any]) -> list[Message]:
    """A row's messages, up to and with the user turn that is its prompt; what trajectories show.

    `settings` gives `template` (``{field}`` of the row, ``{prompt}`` for the prompt, ``{{`` for a brace) and
    `system_prompt`, which leads where the row has no system message of its own.

    Raises:
        ValueError: as `prompt_text`, or the template names a field that the row does not have.
    """
    prompt = row.get("prompt")
    messages = [Message("user", clean_text(prompt))] if isinstance(prompt, str) else _row_turns(row)
    template = settings.get("template") or "{prompt}"
    if template != "{prompt}":
        messages[-1].content = _filled(template, row, messages[-1].content)
    system = settings.get("system_prompt")
    if system and all(message.role != "system" for message in messages):
        messages.insert(0, Message("system", clean_text(system)))
    return messages


def attempt_messages(attempt: Attempt) -> list[Message]:
    """What the model said in an attempt so far, and what its tools gave back, paired by id, in call order.

    An answer that holds nothing at all is left out; a tool call without a result has no tool message.
    """
    messages: list[Message] = []
    for turn, answer in zip(attempt.answered_turns, attempt.answers(), strict=True):
        if says_something(answer):
            messages.append(Message("assistant", answer.text, answer.reasoning, answer.tool_calls))
            messages.extend(_tool_messages(turn, answer))
    return messages


def says_something(answer: Answer) -> bool:
    """Whether an answer holds anything to stand in a conversation."""
    return bool(answer.text or answer.tool_calls or answer.reasoning)


def request_messages(messages: list[Message], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages as they go on the wire, in OpenAI's shape.

    `settings` gives `ephemeral_system_prompt`, added to the end of the first system message (or standing as
    one), and `prefill`, a list of messages injected after the system messages. Reasoning is not sent back:
    endpoints disagree about where, and some refuse it.
    """
    ephemeral = settings.get("ephemeral_system_prompt")
    prefill = settings.get("prefill") or []
    split = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
    systems = [_wire(message) for message in messages[:split]]
    if ephemeral and systems:
        systems[0]["content"] += "\n\n" + clean_text(ephemeral)
    elif ephemeral:
        systems.append({"role": "system", "content": clean_text(ephemeral)})
    return [*systems, *prefill, *map(_wire, messages[split:])]


def _wire(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": _wire_arguments(call)},
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": message.content or None, "tool_calls": calls}


def _wire_arguments(call: ToolCall) -> str:
    """Argument text that every server can read: some parse it again and fail the request on bad JSON."""
    if is_json_object(call.arguments):
        return call.arguments
    return json_text({"invalid_json": call.arguments})


def _tool_messages(turn: Turn, answer: Answer) -> list[Message]:
    return [
        Message("tool", decode_text(turn.results[n].content), tool_call_id=call.id, name=call.name)
        for n, call in enumerate(answer.tool_calls)
        if n in turn.results
    ]


def _filled(template: str, row: dict[str, Any], prompt: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name == "prompt":
            return prompt
        if name not in row:
            raise ValueError(f"the template names {{{name}}}, which the row does not have")
        return clean_text(row[name]) if isinstance(row[name], str) else json_text(row[name])

    return _FIELD.sub(value, template)


def _turns(row: dict[str, Any]) -> list[Any]:
    turns = row.get("messages")
    if turns is None:
        turns = row.get("conversations")
    if not isinstance(turns, list) or not turns:
        raise ValueError("no prompt, and no list of messages or conversations")
    return turns


def _row_turns(row: dict[str, Any]) -> list[Message]:
    """The turns of a row up to its last user turn; what follows it is an answer from elsewhere."""
    messages = _read_turns(_turns(row))
    return messages[: _asking(messages) + 1]


def _asking(messages: list[Message]) -> int:
    """The place of the last user turn."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            if not messages[place].content.strip():
                raise ValueError("blank prompt: the last user turn has no text")
            return place
    raise ValueError("no user turn among the messages")


def _read_turns(turns: list[Any]) -> list[Message]:
    names: dict[str, str] = {}
    messages = []
    for number, turn in enumerate(turns, 1):
        try:
            message = _read_turn(turn, names)
        except ValueError as error:
            raise ValueError(f"message {number}: {error}") from error
        names.update((call.id, call.name) for call in message.tool_calls)
        messages.append(message)
    return messages


def _read_turn(turn: Any, names: dict[str, str]) -> Message:
    if not isinstance(turn, dict):
        raise ValueError("not an object")  # noqa: TRY004 (one error for all that is wrong with a row)
    spelled = turn.get("role", turn.get("from"))
    role = _ROLES.get(spelled) if isinstance(spelled, str) else None
    if role is None:
        raise ValueError(f"unknown role {spelled!r}; expected system, user, assistant or tool")
    content = _read_content(turn.get("content", turn.get("value")))
    if role == "assistant":
        reasoning = turn.get("reasoning", turn.get("reasoning_content"))
        calls = _read_calls(turn.get("tool_calls"))
        return Message(role, content, clean_text(reasoning) if isinstance(reasoning, str) else None, calls)
    if role == "tool":
        identity = str(turn.get("tool_call_id") or "")
        name = turn.get("name") or names.get(identity) or "unknown"
        return Message(role, content, tool_call_id=identity, name=str(name))
    return Message(role, content)


def _read_content(content: Any) -> str:
    if content is None:
        return ""
    parts = [content] if isinstance(content, str) else content
    if not isinstance(parts, list):
        raise ValueError("content is neither text nor a list of text parts")  # noqa: TRY004 (as above)
    return clean_text("".join(map(_read_part, parts)))


def _read_part(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    if isinstance(text, str):
        return text
    raise ValueError("content has a part that is not text; images are not supported in messages")


def _read_calls(raw: Any) -> list[ToolCall]:
    calls = []
    for item in raw if isinstance(raw, list) else []:
        function = item.get("function", item) if isinstance(item, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ValueError("a tool call without a function name")  # noqa: TRY004 (as above)
        arguments = function.get("arguments", "{}")
        text = clean_text(arguments) if isinstance(arguments, str) else json_text(arguments)
        calls.append(ToolCall(str(item.get("id") or ""), clean_text(function["name"]), text))
    return calls
