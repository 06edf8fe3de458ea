r"""How foreign text is put into tagged turns so that it cannot break them, and is taken out again exactly.

Free text: a tag such as ``<think>`` gets a backslash after its ``<``. One that has backslashes there already
gets one more, so that taking one away from each gives the text back.

JSON in JSON: argument texts and tool results that are JSON objects stand in the turn as objects, verbatim,
so spacing, key order, repeated keys and the spelling of numbers survive. Only ``<`` becomes ``\u003c``, which
means the same to a JSON reader. A text that spells ``\u003c`` itself and has no ``<`` stands unchanged,
marked by a space before the colon, which a JSON reader ignores. Everything else, invalid JSON above all,
stands as a JSON string.
"""

import json
import re

import msgspec

_NAMES = "think|tools|tool_call|tool_response|REASONING_SCRATCHPAD"
_TAG = re.compile(rf"<(\\*/?(?:{_NAMES})>)")
_ESCAPED_TAG = re.compile(rf"<\\(\\*/?(?:{_NAMES})>)")
_LESS = "\\u003c"
_JSON_SPACE = " \t\n\r"

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def escape_tags(text: str) -> str:
    """The text with no tag in it; equal to the text where it had none."""
    if "<" not in text:
        return text
    return _TAG.sub(r"<\\\1", text)


def unescape_tags(text: str) -> str:
    """The inverse of `escape_tags`."""
    return _ESCAPED_TAG.sub(r"<\1", text) if "<\\" in text else text


def json_string(text: str | None) -> str:
    """A JSON string without ``<`` in it, or ``null``."""
    return _encoder.encode(text).decode().replace("<", _LESS)


def embed(text: str, openings: tuple[str, ...]) -> str:
    """What stands after a key: a colon, and the text as JSON if it is valid and begins so, else as a string.

    `openings` are the characters that the JSON may begin with.
    """
    if text.lstrip(_JSON_SPACE).startswith(openings) and _is_json(text):
        if _LESS not in text:
            return ": " + text.replace("<", _LESS)
        if "<" not in text:
            return " : " + text
    return ": " + json_string(text)


def extract(rest: str) -> str:
    """The inverse of `embed`: `rest` is all from the end of the key to the end of the value.

    Raises:
        ValueError: `embed` did not write this.
    """
    if rest.startswith(" : "):
        return rest[3:]
    if not rest.startswith(": "):
        raise ValueError(f"expected a colon, found {rest[:20]!r}")
    value = rest[2:]
    if not value.startswith('"'):
        return value.replace(_LESS, "<")
    text = json.loads(value)
    if not isinstance(text, str):
        raise ValueError(f"expected a string, found {value[:20]!r}")  # noqa: TRY004 (the caller reads ValueError)
    return text


def is_json_object(text: str) -> bool:
    """Whether a text, such as a tool call's arguments, is one whole and valid JSON object."""
    return text.lstrip(_JSON_SPACE).startswith("{") and _is_json(text)


def _is_json(text: str) -> bool:
    try:
        _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
