"""Conversations as messages: what an attempt said, and what goes on the wire.

Messages hold text without lone surrogates: U+FFFD stands in their place, since neither a request nor a view
can carry them. The log keeps the bytes as they came.
"""

from typing import Any, Literal

import msgspec

from .answer import Answer, ToolCall
from .conversation import Attempt, Turn
from .escape import is_json_object
from .jsontext import clean_text, decode_text, json_text

Role = Literal["system", "user", "assistant", "tool"]


class Message(msgspec.Struct, gc=False):
    """One message: `tool_call_id` and `name` are of a tool, `reasoning`, `tool_calls`, `blocks` of the model.

    `blocks` are those of an answer in Anthropic's dialect, as they came. `given` is the message as a dataset
    row holds it in OpenAI's shape, which is how it is sent; null for others.
    """

    role: Role
    content: str
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None
    given: dict[str, Any] | None = None
    blocks: list[dict[str, Any]] | None = None


def attempt_messages(attempt: Attempt) -> list[Message]:
    """What the model said in an attempt so far, and what its tools gave back, paired by id, in call order.

    An answer that holds nothing at all is left out; a tool call without a result has no tool message.
    """
    messages: list[Message] = []
    for turn, answer in zip(attempt.answered_turns, attempt.answers(), strict=True):
        if says_something(answer):
            said = (answer.text, answer.reasoning, answer.tool_calls)
            messages.append(Message("assistant", *said, blocks=answer.blocks))
            messages.extend(_tool_messages(turn, answer))
    return messages


def says_something(answer: Answer) -> bool:
    """Whether an answer holds anything to stand in a conversation."""
    return bool(answer.text or answer.tool_calls or answer.reasoning)


def request_messages(messages: list[Message], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages as they go on the wire, in OpenAI's shape.

    `settings` gives `ephemeral_system_prompt`, added to the end of the first system message (or standing as
    one), and `prefill`, a list of messages injected after the system messages. Reasoning is not sent back:
    endpoints disagree about where, and some refuse it. Only Anthropic's dialect asks for it back: an answer
    in it has its `blocks` here too.
    """
    ephemeral = settings.get("ephemeral_system_prompt")
    prefill = settings.get("prefill") or []
    if not ephemeral and not prefill:
        return [_wire(message) for message in messages]
    split = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
    systems = [_wire(message) for message in messages[:split]]
    if ephemeral and systems:
        systems[0]["content"] = _with_text(systems[0].get("content"), "\n\n" + clean_text(ephemeral))
    elif ephemeral:
        systems.append({"role": "system", "content": clean_text(ephemeral)})
    return [*systems, *prefill, *map(_wire, messages[split:])]


def _with_text(content: Any, text: str) -> Any:
    """A message's content with a text at its end: a string, or a list of parts as rows may hold it."""
    return [*content, {"type": "text", "text": text}] if isinstance(content, list) else (content or "") + text


def _wire(message: Message) -> dict[str, Any]:
    if message.given is not None:
        return dict(message.given)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if not message.tool_calls and message.blocks is None:
        return {"role": message.role, "content": message.content}
    blocks = {} if message.blocks is None else {"blocks": message.blocks}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content, **blocks}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": _wire_arguments(call)},
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": message.content or None, "tool_calls": calls, **blocks}


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
