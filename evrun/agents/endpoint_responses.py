"""A whole response of the Responses API told as its events. Pure: the same response gives the same bytes."""

from collections.abc import Iterator
from typing import Any

from .endpoint_chat import pieces
from .endpoint_json import NotJson, read_json, write_json

_ENDS = {"failed": "response.failed", "incomplete": "response.incomplete"}
_Events = Iterator[tuple[str, dict[str, Any]]]


def responses_stream(whole: bytes) -> bytes:
    """The server-sent events of a response.

    Raises:
        NotJson: this is no response.
    """
    response = read_json(whole)
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(output, list):
        raise NotJson("it has no list of output items")
    events = enumerate(_events(response, output))
    return b"".join(_told(number, kind, fields) for number, (kind, fields) in events)


def _told(number: int, kind: str, fields: dict[str, Any]) -> bytes:
    data = write_json({"type": kind, "sequence_number": number, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _events(response: dict[str, Any], output: list[Any]) -> _Events:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for place, item in enumerate(output):
        if not isinstance(item, dict):
            raise NotJson(f"output item {place} is no object")
        yield from _item(place, item)
    end = _ENDS.get(str(response.get("status")), "response.completed")
    yield end, {"response": response}


def _item(place: int, item: dict[str, Any]) -> _Events:
    where = {"item_id": item.get("id") or f"item_{place}", "output_index": place}
    empty, told = _told_by(where, item)
    begun = {**item, **empty, **({"status": "in_progress"} if "status" in item else {})}
    yield "response.output_item.added", {"output_index": place, "item": begun}
    yield from told
    yield "response.output_item.done", {"output_index": place, "item": item}


def _told_by(where: dict[str, Any], item: dict[str, Any]) -> tuple[dict[str, Any], _Events]:
    """What an item has not yet got when it is added, and the events that bring it."""
    match item:
        case {"type": "function_call", "arguments": str(text)}:
            return {"arguments": ""}, _text(where, "response.function_call_arguments", "arguments", text)
        case {"type": "custom_tool_call", "input": str(text)}:
            return {"input": ""}, _text(where, "response.custom_tool_call_input", "input", text)
        case {"type": "message", "content": list(parts)}:
            return {"content": []}, _parts(where, parts)
        case {"type": "reasoning"}:
            return _reasoning(where, item)
        case _:
            return {}, iter(())


def _reasoning(where: dict[str, Any], item: dict[str, Any]) -> tuple[dict[str, Any], _Events]:
    held = {name: item[name] for name in ("summary", "content") if isinstance(item.get(name), list)}

    def told() -> _Events:
        for place, part in enumerate(held.get("summary", ())):
            yield from _summary({**where, "summary_index": place}, part)
        yield from _parts(where, held.get("content", []))

    return {name: [] for name in held}, told()


def _summary(where: dict[str, Any], part: Any) -> _Events:
    text = _text_of(part, "text")
    yield "response.reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}
    yield from _text(where, "response.reasoning_summary_text", "text", text)
    yield "response.reasoning_summary_part.done", {**where, "part": part}


def _parts(where: dict[str, Any], parts: list[Any]) -> _Events:
    for place, part in enumerate(parts):
        yield from _part({**where, "content_index": place}, part)


def _part(where: dict[str, Any], part: Any) -> _Events:
    match part:
        case {"type": "output_text"}:
            text = _text_of(part, "text")
            noted = part.get("annotations") or []
            yield "response.content_part.added", {**where, "part": {**part, "text": "", "annotations": []}}
            for piece in pieces(text):
                yield "response.output_text.delta", {**where, "delta": piece, "logprobs": []}
            for place, annotation in enumerate(noted):
                told = {**where, "annotation_index": place, "annotation": annotation}
                yield "response.output_text.annotation.added", told
            logprobs = part.get("logprobs") or []
            yield "response.output_text.done", {**where, "text": text, "logprobs": logprobs}
        case {"type": "refusal"}:
            text = _text_of(part, "refusal")
            yield "response.content_part.added", {**where, "part": {**part, "refusal": ""}}
            yield from _text(where, "response.refusal", "refusal", text)
        case {"type": "reasoning_text"}:
            text = _text_of(part, "text")
            yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
            yield from _text(where, "response.reasoning_text", "text", text)
        case dict():
            yield "response.content_part.added", {**where, "part": part}
        case _:
            raise NotJson("a part of its output is no object")
    yield "response.content_part.done", {**where, "part": part}


def _text(where: dict[str, Any], kind: str, name: str, text: str) -> _Events:
    for piece in pieces(text):
        yield f"{kind}.delta", {**where, "delta": piece}
    yield f"{kind}.done", {**where, name: text}


def _text_of(part: Any, name: str) -> str:
    text = part.get(name) if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise NotJson(f"a part of its output has no {name}")
    return text
