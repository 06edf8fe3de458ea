"""What a program asks and what it gets, as the endpoint hands them on. Pure."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from .endpoint_json import NotJson, read_json, write_json

PATHS = ("chat/completions", "responses", "embeddings")
"""What can be asked of a model, below the address."""


class Asked(msgspec.Struct, frozen=True):
    """What a program asked.

    `path` is one of `PATHS`; `body` the canonical JSON of what was sent, without ``stream`` and
    ``stream_options`` (keys sorted, no spaces): two requests are the same if their bodies are. `as_written`
    is that JSON with the keys in the program's own order, and what should be sent on, because the order of
    a schema's properties is the order in which a model fills them in. Empty, it is as `body`.
    """

    path: str
    body: bytes
    as_written: bytes = b""


class Reply(msgspec.Struct, frozen=True):
    """What a program gets: a status, a JSON body (whole, never a stream), headers such as retry-after."""

    status: int
    body: bytes
    headers: dict[str, str] = {}


Handler = Callable[[Asked], Awaitable[Reply]]
"""Answers what is asked; what it raises is a 500 for the program, so it keeps what the run has to know."""


class Question(msgspec.Struct, frozen=True):
    """What was asked, and how the program wants the answer told."""

    asked: Asked
    stream: bool
    include_usage: bool


def read_question(path: str, raw: bytes) -> Question:
    """A request's body, read.

    Raises:
        NotJson: it is no JSON object, or its ``stream`` is neither true nor false.
    """
    given = read_json(raw)
    if not isinstance(given, dict):
        raise NotJson(f"a JSON object was expected, this is {_kind(given)}")
    options = given.pop("stream_options", None)
    stream = given.pop("stream", None)
    if not (stream is None or isinstance(stream, bool)):
        raise NotJson(f"stream must be true or false, this is {_kind(stream)}")
    asked = Asked(path, write_json(given, ordered=True), write_json(given))
    return Question(asked, stream is True and path != "embeddings", _wants_usage(options))


def _wants_usage(options: Any) -> bool:
    return isinstance(options, dict) and options.get("include_usage") is True


def _kind(value: Any) -> str:
    names = {str: "a string", list: "a list", dict: "an object", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number")
