"""What a dataset row asks: its messages, and the text that it is known by. Pure.

A row has a `prompt`; or `messages` (`conversations`), in OpenAI's shape or in ShareGPT's; or it is a line of
an OpenAI batch file; or it has none of these, and a template makes its prompt from its fields.
"""

import json
from typing import Any

import msgspec

from .answer import ToolCall
from .batch_lines import batch_identity, batch_request, is_batch_line
from .jsontext import clean_text, json_text
from .messages import Message, Role
from .templates import PLAIN, fill, template_fields

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
_OPENAI_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def prompt_text(row: dict[str, Any], template: str = PLAIN) -> str:
    """The text that a row is known by: its prompt exactly, or all its messages as canonical JSON.

    Under a template that names other fields, these count too, as far as it names them: they, and not the
    template's words, make one prompt another.

    Raises:
        ValueError: the row asks nothing: no prompt and no messages, a bad turn, no user turn, a blank one.
    """
    if is_batch_line(row):
        return batch_identity(row)
    named = template_fields(template)
    others = named - {"prompt"}
    if not others:
        return _asked_text(row)
    fields = {name: row[name] for name in others if name in row}
    asked = _asked_text(row) if "prompt" in named or _has_turns(row) else None
    return _canonical({"fields": fields, "asked": asked})


def row_messages(row: dict[str, Any], settings: dict[str, Any]) -> list[Message]:
    """A row's messages, up to and with the user turn that is its prompt; what trajectories show.

    `settings` gives `template` and `system_prompt`, which leads where the row has no system message of its
    own. The messages of a batch line are all of its body's.

    Raises:
        ValueError: as `prompt_text`, or the template names a field that the row does not have.
    """
    request = batch_request(row)
    if request is not None:
        messages = _sendable(_read_turns(_some_turns(request.get("messages"))))
    else:
        messages = _asked(row, settings.get("template") or PLAIN)
    system = settings.get("system_prompt")
    if system and all(message.role != "system" for message in messages):
        messages.insert(0, Message("system", clean_text(system)))
    return messages


def lenient_messages(turns: Any) -> list[Message]:
    """The messages of a request that was sent as it is; what is none that we know is shown as its JSON."""
    names: dict[str, str] = {}
    messages: list[Message] = []
    for turn in turns if isinstance(turns, list) else []:
        try:
            message = _read_turn(turn, names)
        except ValueError:
            message = Message("user", clean_text(json_text(turn)))
        names.update((call.id, call.name) for call in message.tool_calls)
        messages.append(message)
    return messages


def _asked(row: dict[str, Any], template: str) -> list[Message]:
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        messages = [Message("user", clean_text(prompt))]
    elif "prompt" in template_fields(template) or _has_turns(row):
        messages = _row_turns(row)
    else:
        messages = [Message("user", "")]
    if template == PLAIN:
        return messages
    messages[-1] = _templated(messages[-1], template, row)
    return messages


def _templated(asked: Message, template: str, row: dict[str, Any]) -> Message:
    """A user turn under a template, which takes its text; parts that are not text stand after that."""
    given = asked.given
    content = None if given is None else given["content"]
    parts = content if isinstance(content, list) else []
    others = [part for part in parts if not _is_text(part)]
    own = "".join(_read_part(part) for part in parts if _is_text(part)) if others else asked.content
    text = fill(template, row, clean_text(own))
    if not text.strip():
        raise ValueError("blank prompt: the template is filled with nothing but space")
    if given is None:
        return msgspec.structs.replace(asked, content=text)
    sent = [{"type": "text", "text": text}, *others] if others else text
    shown = text + "".join(map(_read_part, others))
    return msgspec.structs.replace(asked, content=shown, given={**given, "content": sent})


def _asked_text(row: dict[str, Any]) -> str:
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        return prompt
    turns = _turns(row)
    _asking(_read_turns(turns))
    return _canonical(turns)


def _canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _has_turns(row: dict[str, Any]) -> bool:
    turns = row.get("messages")
    turns = row.get("conversations") if turns is None else turns
    return not isinstance(row.get("prompt"), str) and isinstance(turns, list) and bool(turns)


def _turns(row: dict[str, Any]) -> list[Any]:
    turns = row.get("messages")
    return _some_turns(row.get("conversations") if turns is None else turns)


def _some_turns(turns: Any) -> list[Any]:
    if not isinstance(turns, list) or not turns:
        raise ValueError("no prompt, and no list of messages or conversations")
    return turns


def _row_turns(row: dict[str, Any]) -> list[Message]:
    """The turns of a row up to its last user turn; what follows it is an answer from elsewhere."""
    messages = _read_turns(_turns(row))
    return _sendable(messages[: _asking(messages) + 1])


def _sendable(messages: list[Message]) -> list[Message]:
    for number, message in enumerate(messages, 1):
        legacy = message.given is not None and message.given["role"] == "function"
        if message.role == "tool" and not message.tool_call_id and not legacy:
            raise ValueError(f"message {number}: a tool turn without a tool_call_id, which no endpoint takes")
    return messages


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
    given = turn if spelled in _OPENAI_ROLES and "role" in turn and "value" not in turn else None
    if role == "assistant":
        reasoning = turn.get("reasoning", turn.get("reasoning_content"))
        thought = clean_text(reasoning) if isinstance(reasoning, str) else None
        return Message(role, content, thought, _read_calls(turn.get("tool_calls")), given=given)
    if role == "tool":
        identity = str(turn.get("tool_call_id") or "")
        name = turn.get("name") or names.get(identity) or "unknown"
        return Message(role, content, tool_call_id=identity, name=str(name), given=given)
    return Message(role, content, given=given)


def _read_content(content: Any) -> str:
    if content is None:
        return ""
    parts = [content] if isinstance(content, str) else content
    if not isinstance(parts, list):
        raise ValueError("content is neither text nor a list of parts")  # noqa: TRY004 (as above)
    return clean_text("".join(map(_read_part, parts)))


def _read_part(part: Any) -> str:
    """A part as text; one that is none is sent as it is, and only its kind is shown."""
    text = part.get("text") if isinstance(part, dict) else part
    if isinstance(text, str):
        return text
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind not in {"", "text"}:
        return f"[{kind}]"
    raise ValueError('content has a part that is neither text nor an object with a "type"')


def _is_text(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))


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
