"""ShareGPT turns as messages again: the inverse of `render_conversation`."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .answer import ToolCall
from .escape import extract, unescape_tags
from .jsontext import json_text
from .messages import Message
from .sharegpt import NO_REASONING, SYSTEM_PROMPT_MARK

_CALL_OPEN, _CALL_CLOSE = "<tool_call>\n", "\n</tool_call>"
_RESPONSE_OPEN, _RESPONSE_CLOSE = "<tool_response>\n", "\n</tool_response>"
_THINK_OPEN, _THINK_CLOSE = "<think>\n", "\n</think>\n"
_json = json.JSONDecoder()
# The last key of a block; what follows it is what `embed` wrote.
_LAST_KEY = re.compile(r', "(?:arguments|content)"')


def parse_conversation(turns: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The messages that the turns were rendered from.

    The system turn made at save time gives a system message only where it holds a system prompt. A call
    without a result gets the id ``call_<turn>_<n>``. Blocks that others serialised anew are read too.

    Raises:
        ValueError: a turn is not in this format.
    """
    messages: list[Message] = []
    answers = 0
    for place, turn in enumerate(turns):
        source, value = turn["from"], turn["value"]
        if source == "system":
            messages.extend(_system_messages(value, first=place == 0))
        elif source == "gpt":
            answers += 1
            messages.append(_assistant_message(value, answers))
        elif source == "tool":
            messages.extend(_tool_messages(value, messages))
        elif source == "human":
            messages.append(Message("user", value))
        else:
            raise ValueError(f"turn {place}: unknown source {source!r}; expected system, human, gpt or tool")
    return messages


def _system_messages(value: str, *, first: bool) -> list[Message]:
    if not first:
        return [Message("system", value)]
    # The list of tools is one line without "<", so the first closing tag on its own line is the real one.
    guide = value.partition("\n</tools>\n")[2]
    _, mark, prompt = guide.partition(SYSTEM_PROMPT_MARK)
    return [Message("system", prompt)] if mark else []


def _assistant_message(value: str, number: int) -> Message:
    reasoning = None
    if value.startswith(NO_REASONING):
        value = value[len(NO_REASONING) :]
    elif value.startswith(_THINK_OPEN):
        thought, mark, rest = value[len(_THINK_OPEN) :].partition(_THINK_CLOSE)
        if mark:
            reasoning, value = unescape_tags(thought), rest
    text, *blocks = value.split(_CALL_OPEN)
    if blocks:
        # The newline before the first call is ours; there is none where there is no text.
        text = text.removesuffix("\n")
    calls = [_call(block, f"call_{number}_{n}") for n, block in enumerate(blocks)]
    return Message("assistant", unescape_tags(text), reasoning, calls)


def _call(block: str, identity: str) -> ToolCall:
    head, arguments = _read_block(block.partition(_CALL_CLOSE)[0], "arguments")
    return ToolCall(identity, str(head["name"]), arguments)


def _tool_messages(value: str, before: list[Message]) -> list[Message]:
    blocks = value.removeprefix(_RESPONSE_OPEN).removesuffix(_RESPONSE_CLOSE)
    results = []
    for block in blocks.split(f"{_RESPONSE_CLOSE}\n{_RESPONSE_OPEN}"):
        head, content = _read_block(block, "content")
        results.append(Message("tool", content, tool_call_id=head["tool_call_id"], name=head["name"]))
    calls = before[-1].tool_calls if before else []
    for call, result in zip(_called(calls, results), results, strict=False):
        call.id = result.tool_call_id or call.id
    return results


def _called(calls: list[ToolCall], results: list[Message]) -> list[ToolCall]:
    """The calls that the results answer: all, or where some have no result, the next ones of their names."""
    if len(calls) <= len(results):
        return calls
    left = list(calls)
    answered = []
    for result in results:
        call = next((call for call in left if call.name == result.name), left[0])
        left = left[left.index(call) + 1 :] or left
        answered.append(call)
    return answered


def _read_block(block: str, last: str) -> tuple[dict[str, Any], str]:
    """The head of a block's object, and the text of its last value."""
    try:
        return _read_own_block(block)
    except ValueError:
        value = json.loads(block)
    if not isinstance(value, dict) or last not in value or "name" not in value:
        raise ValueError(f"not a block of this format: {block[:80]!r}")
    text = value.pop(last)
    return {"tool_call_id": None} | value, text if isinstance(text, str) else json_text(text)


def _read_own_block(block: str) -> tuple[dict[str, Any], str]:
    if not (block.startswith('{"') and block.endswith("}")):
        raise ValueError("not written by evrun")
    head: dict[str, Any] = {}
    at = 1
    while _LAST_KEY.match(block, at) is None:
        key, at = _json.raw_decode(block, block.index('"', at))
        head[key], at = _json.raw_decode(block, at + len(": "))
    match = _LAST_KEY.match(block, at)
    return head, extract(block[match.end() : -1]) if match else ""
