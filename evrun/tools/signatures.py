"""A function's signature as the JSON schema of its arguments, and as the check of what a model gives."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_type_hints

import msgspec

from .base import ToolContext

_ARGUMENTS = re.compile(r"^\s*(Args|Arguments|Parameters)\s*:\s*$")
_SECTION = re.compile(r"^\s*[A-Z][A-Za-z ]+:\s*$")
_ENTRY = re.compile(r"^\s*(?::param\s+)?\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


class Unusable(ValueError):
    """A function that cannot be a tool; the text says what is wrong with it and what to do."""


class Signature(NamedTuple):
    """What a model is told of a function's arguments, how they are checked, and who wants a context."""

    description: str
    parameters: dict[str, Any]
    arguments: type[Any]
    context: str | None

    def fit(self, given: dict[str, Any]) -> dict[str, Any] | str:
        """The arguments, or what is wrong with them; null stands for an optional one that was left out."""
        given = {k: v for k, v in given.items() if v is not None or not self._may_be_left_out(k)}
        try:
            self.values(given)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            return f"the arguments do not fit: {error}"
        return given

    def values(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them: a date is a date then, not its text."""
        found = msgspec.json.decode(msgspec.json.encode(_whole(given)), type=self.arguments)
        return {name: getattr(found, name) for name in self.arguments.__struct_fields__}

    def _may_be_left_out(self, name: str) -> bool:
        return name in self.parameters["properties"] and name not in self.parameters["required"]


def _whole(value: Any) -> Any:
    """The same with 5.0 written as 5, which stands for a fraction as well as for a whole number."""
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def signature_of(function: Callable[..., Any]) -> Signature:
    """The signature of a function with type hints.

    Raises:
        Unusable: it has none, or one that cannot be said in JSON.
    """
    description, described = read_docstring(inspect.getdoc(function) or "")
    hints = _hints(function)
    fields: list[Any] = []
    context = None
    for name, parameter in inspect.signature(function).parameters.items():
        if hints.get(name) is ToolContext:
            context = name
            continue
        fields.append(_field(name, parameter, hints, described.get(name)))
    try:
        arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        schema = _schema(arguments)
    except (TypeError, NameError) as error:
        raise Unusable(f"its arguments cannot be said in JSON: {error}") from error
    return Signature(description, schema, arguments, context)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise Unusable(f"its type hints cannot be read: {error}") from error


def _field(
    name: str, parameter: inspect.Parameter, hints: Mapping[str, Any], description: str | None
) -> tuple[Any, ...]:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise Unusable(f"its argument {parameter} cannot be given by name; write each argument out")
    if name not in hints:
        raise Unusable(f"its argument {name} has no type hint; write {name}: str, for example")
    hint = hints[name]
    if description:
        hint = msgspec_described(hint, description)
    return (name, hint) if parameter.default is parameter.empty else (name, hint, parameter.default)


def msgspec_described(hint: Any, description: str) -> Any:
    """A type hint with a description for the schema."""
    from typing import Annotated  # noqa: PLC0415

    return Annotated[hint, msgspec.Meta(description=description)]


def _schema(arguments: type[Any]) -> dict[str, Any]:
    (_,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    own = components.pop("Arguments")
    schema = {
        "type": "object",
        "properties": own["properties"],
        "required": own["required"],
        "additionalProperties": False,
    }
    return {**schema, "$defs": dict(components)} if components else schema


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """A function's description, and its arguments' from an `Args:` section or `:param x:` lines."""
    description: list[str] = []
    described: dict[str, str] = {}
    inside, last = False, ""
    for line in text.splitlines():
        if _ARGUMENTS.match(line):
            inside = True
        elif (inside and _SECTION.match(line)) or line.lstrip().startswith((":return", ":raise")):
            break
        elif (inside or line.lstrip().startswith(":param")) and (entry := _ENTRY.match(line)):
            last = entry[1]
            described[last] = entry[2].strip()
        elif inside and last and line.strip():
            described[last] = f"{described[last]} {line.strip()}".strip()
        elif not inside and _SECTION.match(line) and line.strip() in ("Returns:", "Raises:", "Yields:"):
            break
        elif not inside:
            description.append(line)
    return "\n".join(description).strip(), described
