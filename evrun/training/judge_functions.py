"""The built-in judges that need no model: exact, contains, regex, json-equal, numeric. Pure.

Each takes the task, the agent's output and the judge's parameters, and gives a score (1.0 or 0.0) and a word
about it. What is expected stands in the task's field `answer`, or in that which the parameter `field` names.
This file needs nothing but the standard library: `regex` runs from it in a process of its own, because
nothing else can stop a pattern that never ends.
"""

import json
import math
import re
from typing import Any

FIELD = "answer"
_SHOWN = 200
_NUMBER = re.compile(r"[-+]?(?:\d[\d,_]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_MARKED = re.compile(r"####\s*(.*)")
_FENCED = re.compile(r"```[a-zA-Z]*\s*\n(.*?)\n\s*```", re.DOTALL)
_TOLERANCE = 1e-6

Said = tuple[float, str | None]


class CannotJudge(ValueError):
    """The task or the parameters do not say what is expected."""


def exact(task: dict[str, Any], output: Any, params: dict[str, Any]) -> Said:
    """The output is what is expected (one of it, where that is a list), but for space around it."""
    found, wanted = _folded(text_of(output).strip(), params), _texts(task, params)
    return _said(any(found == one.strip() for one in wanted), task, output, params)


def contains(task: dict[str, Any], output: Any, params: dict[str, Any]) -> Said:
    """The output holds what is expected (any of it, where that is a list)."""
    found = _folded(text_of(output), params)
    return _said(any(one in found for one in _texts(task, params)), task, output, params)


def regex(task: dict[str, Any], output: Any, params: dict[str, Any]) -> Said:
    """The pattern (any of them, where that is a list) matches somewhere in the output."""
    flags = re.IGNORECASE if params.get("ignore_case") else 0
    wanted = expected(task, params)
    patterns = wanted if isinstance(wanted, list) else [wanted]
    try:
        well = any(re.search(str(pattern), text_of(output), flags) for pattern in patterns)
    except re.error as error:
        raise CannotJudge(f"{wanted!r:.100} is no pattern: {error}") from error
    return _said(well, task, output, params)


def json_equal(task: dict[str, Any], output: Any, params: dict[str, Any]) -> Said:
    """The output is the JSON value that is expected; text is read as JSON, also in a fenced block."""
    wanted = expected(task, params)
    if isinstance(wanted, str):
        wanted = _read(wanted, wanted)
    found = _read(output, None) if isinstance(output, str) else output
    if found is None and isinstance(output, str) and output.strip() != "null":
        return 0.0, f"the output is no JSON: {_short(output)}"
    return _said(_same(found, wanted), task, output, params)


def numeric(task: dict[str, Any], output: Any, params: dict[str, Any]) -> Said:
    """The last number of the output is the one expected, within `tolerance` (relative, 1e-6)."""
    wanted = _number(expected(task, params))
    if wanted is None:
        raise CannotJudge(f"there is no number in {expected(task, params)!r:.100}")
    found = _number(output)
    if found is None:
        return 0.0, f"expected the number {wanted:g}, found none in {_short(text_of(output))}"
    try:
        tolerance = float(params.get("tolerance", _TOLERANCE))
    except (TypeError, ValueError):
        raise CannotJudge(f"tolerance: {params['tolerance']!r} is no number") from None
    well = math.isclose(found, wanted, rel_tol=tolerance, abs_tol=tolerance)
    return (1.0, None) if well else (0.0, f"expected the number {wanted:g}, found {found:g}")


def expected(task: dict[str, Any], params: dict[str, Any]) -> Any:
    """What the task says is right.

    Raises:
        CannotJudge: it does not say.
    """
    field = str(params.get("field", FIELD))
    if task.get(field) is None:
        raise CannotJudge(f"the task has no field {field!r} (judge.params.field); it has {', '.join(task)}")
    return task[field]


def text_of(value: Any) -> str:
    """A value as text: itself, or its JSON; nothing for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _texts(task: dict[str, Any], params: dict[str, Any]) -> list[str]:
    wanted = expected(task, params)
    return [_folded(text_of(one), params) for one in (wanted if isinstance(wanted, list) else [wanted])]


def _folded(text: str, params: dict[str, Any]) -> str:
    return text.casefold() if params.get("ignore_case") else text


def _said(well: bool, task: dict[str, Any], output: Any, params: dict[str, Any]) -> Said:  # noqa: FBT001 (it is the score)
    if well:
        return 1.0, None
    return 0.0, f"expected {_short(text_of(expected(task, params)))}, found {_short(text_of(output))}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _number(value: Any) -> float | None:
    """A number, or the last one in a text; after ``####``, where the text has that. Finite, or null."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        text = text_of(value)
        marked = _MARKED.findall(text)
        found = _NUMBER.findall(marked[-1] if marked else text)
        if not found:
            return None
        number = float(found[-1].replace(",", "").replace("_", ""))
    return number if math.isfinite(number) else None


def _read(text: Any, otherwise: Any) -> Any:
    for candidate in (text.strip(), *reversed(_FENCED.findall(text))):
        try:
            return json.loads(candidate)
        except ValueError:
            continue
    return otherwise


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


BUILT_IN = {
    "exact": exact,
    "contains": contains,
    "regex": regex,
    "json-equal": json_equal,
    "numeric": numeric,
}
"""The judges by name."""
