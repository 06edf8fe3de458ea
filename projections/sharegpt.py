"""Messages as ShareGPT turns: the format that the Hermes scripts read.

The system turn mentions each pair of tags closing tag first and after the real list, so that a search for
``<tools>…</tools>`` finds the list, and a search of a turn for calls finds only calls.
"""

from typing import Any

import msgspec

from .answer import ToolCall
from .escape import embed, escape_tags, json_string
from .messages import Message

PREAMBLE = (
    "You are an assistant that can call functions while it works on a request. "
    "These are the functions at hand, as one JSON array with the schema of each:\n<tools>\n"
)
GUIDE = (
    "\n</tools>\n"
    "The array ends at </tools> and begins at <tools>. "
    'To call a function, write a JSON object with "name" (a string) and "arguments" (an object) on a line '
    "of its own, ended by a line </tool_call> and begun by a line <tool_call>; several calls may follow one "
    "another. "
    'What each call gave back is a JSON object with "tool_call_id", "name" and "content", ended by a line '
    "</tool_response> and begun by a line <tool_response>. "
    "Call only functions of the array, and answer in plain words when no more calls are needed."
)
SYSTEM_PROMPT_MARK = "\n\nFurther instructions:\n"
NO_REASONING = "<think>\n</think>\n"

_ROLES = {"system": "system", "user": "human"}


def render_conversation(
    messages: list[Message], tools: list[dict[str, Any]], system_prompt: str | None
) -> tuple[list[dict[str, str]], bool]:
    """The turns ``{"from", "value"}``, and whether a tag in free text had to be escaped.

    `tools` are ``{"name", "description", "parameters"}``. The system prompt, or the first message where none
    is given and that is a system message, stands at the end of the system turn. `parse_conversation` gives
    the messages back exactly, with these limits: text has no lone surrogates, and the tool messages after an
    answer are those of its calls, in call order (a call without a result loses its id: the format has no
    place for it).
    """
    if system_prompt is None and messages and messages[0].role == "system":
        system_prompt, messages = messages[0].content, messages[1:]
    turns = [{"from": "system", "value": system_turn(tools, system_prompt)}]
    rest, escaped = render_turns(messages)
    return turns + rest, escaped


def system_turn(tools: list[dict[str, Any]], system_prompt: str | None) -> str:
    """The value of the system turn that is made when a conversation is saved."""
    value = PREAMBLE + _tools_line(tools) + GUIDE
    return value if system_prompt is None else value + SYSTEM_PROMPT_MARK + system_prompt


def render_turns(messages: list[Message]) -> tuple[list[dict[str, str]], bool]:
    """The turns after the system turn, and whether a tag in free text had to be escaped."""
    turns: list[dict[str, str]] = []
    escaped = False
    in_tool_turn = False
    for message in messages:
        if message.role == "tool":
            block = _response_block(message)
            if in_tool_turn:
                turns[-1]["value"] += "\n" + block
            else:
                turns.append({"from": "tool", "value": block})
        elif message.role == "assistant":
            value, touched = _gpt_value(message)
            turns.append({"from": "gpt", "value": value})
            escaped = escaped or touched
        else:
            turns.append({"from": _ROLES[message.role], "value": message.content})
        in_tool_turn = message.role == "tool"
    return turns, escaped


def _tools_line(tools: list[dict[str, Any]]) -> str:
    shown = [
        {
            "name": tool.get("name"),
            "description": tool.get("description"),
            "parameters": tool.get("parameters"),
            "required": None,
        }
        for tool in tools
    ]
    return msgspec.json.encode(shown).decode().replace("<", "\\u003c")


def _gpt_value(message: Message) -> tuple[str, bool]:
    text = escape_tags(message.content)
    escaped = text != message.content
    think = NO_REASONING
    if message.reasoning is not None:
        reasoning = escape_tags(message.reasoning)
        escaped = escaped or reasoning != message.reasoning
        think = f"<think>\n{reasoning}\n</think>\n"
    if not message.tool_calls:
        return think + text, escaped
    calls = "\n".join(map(_call_block, message.tool_calls))
    return f"{think}{text}\n{calls}" if text else think + calls, escaped


def _call_block(call: ToolCall) -> str:
    name, arguments = json_string(call.name), embed(call.arguments, ("{",))
    return f'<tool_call>\n{{"name": {name}, "arguments"{arguments}}}\n</tool_call>'


def _response_block(message: Message) -> str:
    identity, name = json_string(message.tool_call_id), json_string(message.name)
    content = embed(message.content, ("{", "["))
    value = f'{{"tool_call_id": {identity}, "name": {name}, "content"{content}}}'
    return f"<tool_response>\n{value}\n</tool_response>"
