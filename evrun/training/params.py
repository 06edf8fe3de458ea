"""The parameters of built-in parts: their names and types. Those of own parts are the user's."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ..errors import UsageFault

ASKING: dict[str, type] = {
    "max_tokens": int, "temperature": float, "top_p": float, "reasoning_effort": str, "extra_body": dict,
    "request_timeout": float, "stream": bool,
}  # fmt: skip
"""What every built-in part that asks a model can be told of its requests."""
CHATTING: dict[str, type] = {
    **ASKING, "max_turns": int, "seed": int, "toolsets": list, "tools": list, "response_format": dict,
    "tool_choice": str,
}  # fmt: skip
JUDGING: dict[str, type] = {**ASKING, "seed": int}
OWN: dict[str, type] = {"max_turns": int, "max_tokens": int, "request_timeout": float}
"""What is heard of the parameters of the user's own parts, where it is of this type."""
CHAT_ALONE = ("model", "template")
LLM_ALONE = ("model", "rubric", "rubric_file")
JUDGES: dict[str, tuple[str, ...]] = {
    "exact": ("field", "ignore_case"),
    "contains": ("field", "ignore_case"),
    "regex": ("field", "ignore_case"),
    "json-equal": ("field",),
    "numeric": ("field", "tolerance"),
    "llm": (*LLM_ALONE, *JUDGING),
}
"""The built-in judges, each with its parameters."""

_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    list: "a list of texts",
    dict: "a map",
}


def check_names(where: str, params: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse parameters that a built-in part does not have.

    Raises:
        UsageFault: with the nearest that it has.
    """
    for name in params:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise UsageFault(f"unknown key {where}.{name}", hint)


def check_learner(name: str, params: Mapping[str, Any]) -> None:
    """Refuse parameters that a built-in learner does not have, or not of this type.

    Raises:
        UsageFault: naming the key.
    """
    if name == "reflect":
        from .reflect import Params as Known  # noqa: PLC0415 (only where it is asked for)
    elif name == "gepa":
        from .gepa_params import Params as Known  # type: ignore[assignment] # noqa: PLC0415 (likewise)
    else:
        return
    fields = {field.name for field in msgspec.structs.fields(Known)}
    own = {key: value for key, value in params.items() if key in fields or key not in ASKING}
    check_names("evolver.params", own, fields)
    try:
        msgspec.convert(own, Known)
    except msgspec.ValidationError as error:
        where, _, what = str(error).partition(" - at `$.")[::-1]
        key = f"evolver.params.{where.rstrip('`')}" if where else "evolver.params"
        raise UsageFault(
            f"{key}: {what or error}", f"docs/training-learners.md has those of {name}"
        ) from error


def options(
    where: str, params: Mapping[str, Any], kinds: Mapping[str, type], *, strict: bool
) -> dict[str, Any]:
    """The parameters that are options of a request; with `strict` they are evrun's own to understand.

    Raises:
        UsageFault: strictly, one is of another type.
    """
    found: dict[str, Any] = {}
    for name, kind in kinds.items():
        value = params.get(name)
        if value is None:
            continue
        fits = isinstance(value, (int, float) if kind is float else kind)
        fits &= kind is bool or not isinstance(value, bool)
        fits &= kind is not list or all(isinstance(one, str) for one in value)
        if not fits and strict:
            raise UsageFault(f"{where}.{name}: expected {_WORDS[kind]}, found {value!r}")
        if fits:
            found[name] = value
    return found
