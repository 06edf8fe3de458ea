"""Server-sent events: the bytes of a streamed answer as the JSON objects that came. Pure."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_BOM = b"\xef\xbb\xbf"
_BEGINNINGS = (b"data:", b"event:", b":", b"id:", b"retry:")
_DONE = b"[DONE]"


class NotAnEvent(ValueError):
    """A piece of the stream that is no JSON, though the stream went on after it."""


def is_stream(body: bytes) -> bool:
    """Whether a body is a stream of events, whatever its content type says. No JSON begins like one."""
    return body[:64].removeprefix(_BOM).lstrip().startswith(_BEGINNINGS)


def values_of(body: bytes) -> Iterator[dict[str, Any] | None]:
    """The objects in a stream's events, and null for its mark of the end (`[DONE]`).

    Comments, names and ids of events are passed over. What a cut leaves of the last event is no event.

    Raises:
        NotAnEvent: something between two events is no JSON object.
    """
    held: bytes | None = None
    for data in _data_of(body):
        if held is not None:
            raise NotAnEvent(held[:80].decode("utf-8", "replace"))
        if data.strip() == _DONE:
            yield None
            continue
        values = _values(data)
        if values is None:
            held = data
        else:
            yield from values


def _data_of(body: bytes) -> Iterator[bytes]:
    """The data of each event. The last one counts without the blank line that should follow it."""
    lines: list[bytes] = []
    # A character of several bytes holds no byte of a line end, so bytes can be split before they are decoded.
    for line in body.removeprefix(_BOM).splitlines():
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif not line and lines:
            yield b"\n".join(lines)
            lines = []
    if lines:
        yield b"\n".join(lines)


def _values(data: bytes) -> list[dict[str, Any] | None] | None:
    """The object in an event; several where a server leaves out the blank lines; null: it is none."""
    value = _object(data)
    if value is not None:
        return [value]
    lines = data.split(b"\n")
    found = [_object(line) for line in lines if line.strip() and line.strip() != _DONE]
    if len(lines) == 1 or None in found:
        return None
    return [*found, *([None] if lines[-1].strip() == _DONE else [])]


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = _decode(data)
    except (ValueError, RecursionError):
        value = _decoded_leniently(data)
    return value if isinstance(value, dict) else None


def _decoded_leniently(data: bytes) -> Any:
    """What only the standard library reads: halves of characters; null where it cannot either."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
