"""What was found, in words that fit on a line."""

import json
from typing import Any


def kind(value: Any) -> str:
    """A JSON value: what it is, and how it begins."""
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    name = names.get(type(value), "an array" if isinstance(value, list) else "an object")
    return name if value is None else f"{name} {shown(json.dumps(value).encode())}"


def shown(text: bytes, limit: int = 60) -> str:
    """The beginning of a text, quoted."""
    cut = text[:limit].decode("utf-8", "replace")
    return repr(cut + "…" if len(text) > limit else cut)
