"""Answers as server-sent events, in all the ways in which servers send them."""

from typing import Any

import msgspec

from .anthropic import events_of

_encode = msgspec.json.Encoder().encode
STREAMS = frozenset({"pieces", "crlf", "comments", "done", "error", "events", "usage"})
"""What a rule may say about a stream; the package's docstring says what each means."""


def stream_of(whole: bytes, how: dict[str, Any] | None = None, *, usage: bool = True) -> bytes:
    """A chat completion as chunks, and the mark of the end; with its usage where that was asked for."""
    how = how or {}
    parsed = msgspec.json.decode(whole)
    counted = parsed.pop("usage", None)
    parsed["object"] = "chat.completion.chunk"
    size = how.get("pieces", 1 << 20)
    chunks: list[dict[str, Any]] = []
    for choice in parsed["choices"]:
        deltas = _deltas(choice["message"], size)
        chunks += [_chunk(parsed, choice["index"], delta, None) for delta in deltas]
    chunks += [_chunk(parsed, choice["index"], {}, choice["finish_reason"]) for choice in parsed["choices"]]
    if counted is not None and usage and how.get("usage", True):
        chunks.append({**parsed, "choices": [], "usage": counted})
    return _written([("", chunk) for chunk in chunks], how, mark=True)


def message_stream_of(whole: bytes, how: dict[str, Any] | None = None) -> bytes:
    """A message of Anthropic's dialect as its events."""
    how = how or {}
    events = events_of(whole, how.get("pieces", 1 << 20))
    return _written([(event["type"], event) for event in events], how, mark=False)


def _written(events: list[tuple[str, dict[str, Any]]], how: dict[str, Any], *, mark: bool) -> bytes:
    if "events" in how:
        events = events[: how["events"]]
    if "error" in how:
        kind = "" if mark else "error"
        value = {"error": how["error"]} if mark else {"type": "error", "error": how["error"]}
        events = [*events, (kind, value)]
    whole = how.get("done", True) and not {"events", "error"} & how.keys()
    end = "\r\n" if how.get("crlf") else "\n"
    parts = []
    for kind, value in events:
        name = f"event: {kind}{end}" if kind else ""
        comment = f": still here{end}{end}" if how.get("comments") else ""
        parts.append(f"{comment}{name}data: ".encode() + _encode(value) + (end + end).encode())
    if mark and whole:
        parts.append(f"data: [DONE]{end}{end}".encode())
    return b"".join(parts)


def _chunk(top: dict[str, Any], index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {**top, "choices": [{"index": index, "delta": delta, "finish_reason": reason}]}


def _deltas(message: dict[str, Any], size: int) -> list[dict[str, Any]]:
    """A message in pieces: its texts cut, its tool calls one after the other, each with its index."""
    deltas: list[dict[str, Any]] = [{"role": message["role"], "content": ""}]
    for name, value in message.items():
        if isinstance(value, str) and name != "role":
            deltas += [{name: value[at : at + size]} for at in range(0, len(value), size)]
        elif name == "tool_calls":
            for index, call in enumerate(value):
                deltas += _call_deltas(index, call, size)
        elif name == "reasoning_details":
            for index, detail in enumerate(value):
                text = detail["text"]
                deltas += [
                    {name: [{**detail, "index": index, "text": text[at : at + size]}]}
                    for at in range(0, len(text), size)
                ]
        elif name != "role" and value is not None:
            deltas.append({name: value})
    return deltas


def _call_deltas(index: int, call: dict[str, Any], size: int) -> list[dict[str, Any]]:
    text = call["function"]["arguments"]
    begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return [{"tool_calls": [piece]} for piece in (begun, *more)]
