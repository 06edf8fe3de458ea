"""What the tools of a learner are called with: told to learners, and looked at before anything happens."""

from typing import Any, NamedTuple

LLM = "llm"


class _Kind(NamedTuple):
    """A tool: its sentence, its arguments as JSON schemas, which of them it needs, what is in its result."""

    description: str
    arguments: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    result: tuple[str, ...]


_CHECK = (
    "Whether an adapter (the working copy, or the directory `path` in the workspace) keeps its template's "
    "rules: {passed, issues: [{path, check, problem}]}."
)
_BUDGET = "What the run has spent, and what is left of its caps (null: no cap)."
_RUN = (
    "Run tasks of the train or validation split with an adapter (the working copy, or the directory "
    "`adapter` in the workspace): {results: [{id, status, score, feedback, output, error, extra, judge}]}. "
    "What it costs counts against the run's caps."
)
_ASK = (
    "Ask the run's model: {content, reasoning, finish_reason, tool_calls, usage}. Recorded, held under the "
    "caps, paid once. Other arguments are further fields of the request."
)
_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_MESSAGES: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
_SAMPLING: dict[str, dict[str, Any]] = {
    "max_tokens": {"type": "integer"},
    "temperature": {"type": "number"},
}
_TOOLS = {
    "check_spec": _Kind(_CHECK, {"path": _TEXT}, (), ("passed", "issues")),
    "budget": _Kind(_BUDGET, {}, (), ()),
    "run_agent": _Kind(_RUN, {"task_ids": _TEXTS, "adapter": _TEXT}, ("task_ids",), ("results",)),
    LLM: _Kind(
        _ASK,
        {"messages": _MESSAGES, **_SAMPLING},
        ("messages",),
        ("content", "reasoning", "finish_reason", "tool_calls", "usage"),
    ),
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "array": list,
    "object": dict,
    "integer": int,
    "number": (int, float),
}


def described(*, with_model: bool) -> list[dict[str, Any]]:
    """The tools, as learners and programs are told of them."""
    return [
        {
            "name": name,
            "description": kind.description,
            "source": "run",
            "input_schema": {
                "type": "object",
                "required": list(kind.required),
                "properties": kind.arguments,
                "additionalProperties": name == LLM,
            },
            "output_schema": {"type": "object", "properties": {one: {} for one in kind.result}},
        }
        for name, kind in _TOOLS.items()
        if with_model or name != LLM
    ]


def problem_of(name: str, arguments: dict[str, Any]) -> str | None:
    """What is wrong with a call; null where it may be made. A null argument is one that was not given."""
    kind = _TOOLS.get(name)
    if kind is None:
        return f"there is no tool {name}; there is {', '.join(_TOOLS)}"
    unknown = [one for one in arguments if one not in kind.arguments]
    if unknown and name != LLM:
        there = ", ".join(kind.arguments) or "none"
        return f"{name}: there is no argument {', '.join(unknown)}; there is {there}"
    for one in kind.required:
        if arguments.get(one) is None:
            return f"{name}: the argument {one} is missing"
    if arguments.get("stream"):
        return f"{name}: answers come whole here: leave stream out"
    for one, value in arguments.items():
        schema = kind.arguments.get(one)
        if value is not None and schema is not None and not _fits(value, schema):
            return f"{name}: {one} is {value!r:.100}; expected {_words(schema)}"
    return None


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, _TYPES[schema["type"]]) or isinstance(value, bool):
        return False
    items = schema.get("items")
    if items is None or not isinstance(value, list):
        return True
    return all(_fits(one, items) for one in value)


def _words(schema: dict[str, Any]) -> str:
    items = schema.get("items")
    return f"a list of {items['type']}s" if items else f"a value of type {schema['type']}"
