"""A request in Anthropic's dialect, made of the same settings and messages as one in OpenAI's. Pure.

What the dialect cannot say is refused before a run begins, in `wire_options`.
"""

import json
import re
from itertools import groupby
from typing import Any

import msgspec

from .settings import Settings

EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""The efforts that the dialect knows; which of them a model takes, the endpoint says."""
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_DATA_URL = re.compile(r"data:([\w/+.-]+);base64,(.*)", re.DOTALL)
_SYSTEM = frozenset({"system", "developer"})

Json = dict[str, Any]


def anthropic_request(
    settings: Settings, messages: list[Json], tools: list[Json], choice: str | None
) -> Json:
    """The fields of one Messages request; `choice` is the tool choice of this very call."""
    system = [block for message in messages if message["role"] in _SYSTEM for block in _blocks(message)]
    body: Json = {"model": settings.model, "messages": _turns(messages)}
    if system:
        body["system"] = system
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    if tools and choice is not None:
        named = {"type": "tool", "name": choice}
        body["tool_choice"] = {"type": _CHOICES[choice]} if choice in _CHOICES else named
    values = {
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stream": settings.stream or None,
    }
    return body | {name: value for name, value in values.items() if value is not None} | _output(settings)


def _output(settings: Settings) -> Json:
    """How much to think, and the form of what is said."""
    effort = "none" if settings.reasoning_disabled else settings.reasoning_effort
    output: Json = {}
    fields: Json = {}
    if effort == "none":
        fields["thinking"] = {"type": "disabled"}
    elif effort is not None:
        # Without being asked, newer models think but do not show it.
        fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        output["effort"] = effort
    wanted = settings.response_format or {}
    if wanted.get("type") == "json_schema":
        output["format"] = {"type": "json_schema", "schema": wanted["json_schema"]["schema"]}
    return {**fields, **({"output_config": output} if output else {})}


def _tool(tool: Json) -> Json:
    schema = {"input_schema" if name == "parameters" else name: value for name, value in tool.items()}
    schema.setdefault("input_schema", {"type": "object", "properties": {}})
    return schema


def _turns(messages: list[Json]) -> list[Json]:
    """The turns of both sides, which take turns: results of tools and what follows them are one."""
    said = [(_side(message), _content(message)) for message in messages if message["role"] not in _SYSTEM]
    turns = []
    for side, group in groupby((pair for pair in said if pair[1]), lambda pair: pair[0]):
        blocks = [block for _, content in group for block in content]
        turns.append({"role": side, "content": blocks})
    return turns


def _side(message: Json) -> str:
    return "assistant" if message["role"] == "assistant" else "user"


def _content(message: Json) -> list[Json]:
    if message["role"] in {"tool", "function"}:
        blocks = _blocks(message)
        result: Json = {"type": "tool_result", "tool_use_id": _id(message.get("tool_call_id"))}
        return [{**result, "content": blocks} if blocks else result]
    calls = message.get("tool_calls") or []
    if message.get("blocks") is not None:
        return _as_it_came(message["blocks"], calls)
    return [*_blocks(message), *map(_use, calls)]


def _as_it_came(blocks: list[Json], calls: list[Json]) -> list[Json]:
    """An answer's own blocks; its tool calls with the ids by which their results are told."""
    left = iter(calls)
    sent = []
    for block in blocks:
        if block.get("type") == "tool_use" and (call := next(left, None)) is not None:
            sent.append(_use(call))
        elif block.get("type") != "text" or str(block.get("text") or "").strip():
            sent.append(block)
    return sent


def _use(call: Json) -> Json:
    function = call.get("function") or {}
    given = _arguments(function.get("arguments"))
    return {"type": "tool_use", "id": _id(call.get("id")), "name": function.get("name"), "input": given}


def _arguments(given: Any) -> Any:
    """An object, as the dialect wants it: the text itself, so that no number in it is written otherwise."""
    if isinstance(given, dict):
        return given
    text = str(given or "{}")
    try:
        is_object = isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        is_object = False
    return msgspec.Raw(text.encode("utf-8", "surrogatepass")) if is_object else {"invalid_json": text}


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _id(given: Any) -> str:
    """An id in the letters that the dialect takes; rows may hold ids of other providers."""
    return _NOT_IN_IDS.sub("_", str(given or "")) or "call"


def _blocks(message: Json) -> list[Json]:
    """A message's content as blocks. Empty texts are refused by the dialect, and say nothing."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else content or []
    made = [_block(part) for part in parts]
    return [block for block in made if block.get("type") != "text" or str(block.get("text") or "").strip()]


def _block(part: Any) -> Json:
    """A part of a message; one of an unknown kind goes as it is, for the endpoint to say what it takes."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.get("type") in {"text", "input_text", "output_text"}:
        return {"type": "text", "text": part.get("text")}
    if part.get("type") == "image_url" and isinstance(part.get("image_url"), dict):
        return {"type": "image", "source": _source(str(part["image_url"].get("url")))}
    return dict(part)


def _source(url: str) -> Json:
    inside = _DATA_URL.fullmatch(url)
    if inside is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inside[1], "data": inside[2]}
