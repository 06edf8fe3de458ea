"""JSON text: deterministic lines for the views, and reading JSON from outside that may be bad Unicode.

A line holds no raw U+2028 or U+2029 (some readers take them for line ends; they are written as escapes), no
lone surrogate (UTF-8 cannot hold one; U+FFFD stands in its place), and ends in a newline.
"""

import json
import re
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# Both separators begin with these two bytes in UTF-8.
_SEPARATOR = b"\xe2\x80"


def json_line(value: object) -> bytes:
    """One line of JSON, ending in a newline: the same value gives the same bytes.

    Keys stay in the order of the value. Numbers that JSON cannot hold (NaN, infinities) become null.
    """
    return json_bytes(value) + b"\n"


def json_bytes(value: object) -> bytes:
    """As `json_line`, without the newline."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:
        data = _encoder.encode(clean(value))
    if _SEPARATOR in data:
        # JSON has these characters in strings only, so the escape means the same.
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data


def json_text(value: object) -> str:
    """As `json_bytes`, as text."""
    return json_bytes(value).decode()


def loads_lenient(data: bytes | str) -> Any:
    """The value of JSON from outside.

    What strict reading refuses and Python's does not is read: lone surrogates in escapes or in the bytes
    (each comes out as U+FFFD), NaN, a byte order mark.

    Raises:
        ValueError: it is no JSON, or it is nested too deeply to be read.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text = decode_text(data) if isinstance(data, bytes) else data
    try:
        return clean(json.loads(text.removeprefix("\ufeff")))
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error


def decode_text(data: bytes) -> str:
    """The text of bytes from outside; what is no UTF-8, and each lone surrogate, becomes U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    try:
        return clean_text(data.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def clean_text(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD; two that make a pair become their character."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", _PAIR.sub(_joined, text))


def clean(value: Any) -> Any:
    """A JSON value with `clean_text` applied to all its strings, keys too."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return clean(msgspec.to_builtins(value)) if isinstance(value, msgspec.Struct) else value


def _joined(match: re.Match[str]) -> str:
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")
