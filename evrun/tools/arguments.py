"""The argument text of a tool call, read and checked; what is wrong goes back to the model in plain words.

Pure. Nothing is guessed: text that does not parse is a problem, never an empty object.
"""

import json
import math
from typing import Any

from .base import Tool

SHOWN = 60
"""So many characters of a wrong value are quoted back."""


def parse_arguments(text: str, tool: Tool) -> dict[str, Any] | str:
    """The arguments of a call, or what is wrong with them, as one sentence for the model.

    An empty text means no arguments, as several endpoints send it; null stands for an optional argument that
    was left out; a whole number may be written as 5.0.
    """
    try:
        value = json.loads(text or "{}", object_pairs_hook=_once_each, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return _not_json(text, error)
    except (ValueError, RecursionError) as error:
        return f"the arguments of {tool.name} are not usable JSON: {error}"
    if not isinstance(value, dict):
        return f"the arguments of {tool.name} must be one JSON object, found {_named(value)}"
    return _fitted(value, tool) if tool.fit is None else tool.fit(value)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{_quoted(name)} is there twice")
        found[name] = value
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _not_json(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return (
            "the arguments must be one JSON object and nothing else, "
            f"found more after it at character {error.pos}: {_quoted(text[error.pos :])}"
        )
    return f"the arguments are not JSON ({error.msg} at character {error.pos}): {_quoted(text)}"


def _fitted(value: dict[str, Any], tool: Tool) -> dict[str, Any] | str:
    properties: dict[str, Any] = tool.parameters["properties"]
    required: list[str] = tool.parameters["required"]
    given = {name: item for name, item in value.items() if item is not None or name not in properties}
    missing = [name for name in required if name not in given]
    if missing:
        return f"{tool.name} needs the argument{'s'[: len(missing) > 1]} {', '.join(missing)}"
    unknown = [name for name in given if name not in properties]
    if unknown:
        names = ", ".join(_quoted(name) for name in unknown)
        return f"{tool.name} has no argument {names}; it has {', '.join(properties)}"
    fitted = {}
    for name, item in given.items():
        schema = properties[name]
        fitted[name] = _as_whole(item) if schema["type"] == "integer" else item
        problem = _misfit(fitted[name], schema)
        if problem is not None:
            return f"{tool.name}: the argument {name} must be {problem}, found {_named(item)}"
    return fitted


def _as_whole(item: object) -> object:
    return int(item) if isinstance(item, float) and item.is_integer() else item


def _misfit(item: Any, schema: dict[str, Any]) -> str | None:
    """What a value must be and is not; null if it fits."""
    kind = schema["type"]
    if kind == "string":
        return None if isinstance(item, str) else "a string"
    wanted = "a whole number" if kind == "integer" else "a number"
    right = isinstance(item, int) if kind == "integer" else isinstance(item, int | float)
    if not right or isinstance(item, bool) or (isinstance(item, float) and not math.isfinite(item)):
        return wanted
    if "minimum" in schema and item < schema["minimum"]:
        return f"{wanted} of at least {schema['minimum']}"
    return None


def _named(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return f"the {'string' if isinstance(value, str) else 'number'} {_quoted(value)}"


def _quoted(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:
        # Python refuses to write out whole numbers of more than some thousand digits.
        return "(too long to show)"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
