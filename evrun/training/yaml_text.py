"""YAML as evrun's files use it: plain values, no name twice, and every plain value also as it was written."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import yaml

from ..errors import UsageFault

__all__ = ["Parsed", "read_yaml", "write_yaml"]


class Parsed(NamedTuple):
    """What a text says, and the same with every plain value as it was written: 1.10 is 1.1, and "1.10"."""

    value: Any
    words: Any


class _Values(yaml.SafeLoader):
    """The loader of plain values, which refuses a name that is given twice in one map."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 (as inherited)
        names: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in names:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the name {key.value!r} is given twice", key.start_mark
                    )
                names.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_yaml(text: str, where: str) -> Parsed:
    """A YAML text; `where` says in messages what it is.

    Raises:
        UsageFault: it is no YAML, or gives a name twice.
    """
    try:
        value = yaml.load(text, Loader=_Values)  # noqa: S506 (a safe loader)
        return Parsed(value, yaml.load(text, Loader=yaml.BaseLoader))  # noqa: S506 (it makes only texts)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageFault(f"{where}: {_reason(error)}", "expected YAML, for example 'epochs: 2'") from error


def write_yaml(value: Any) -> str:
    """A value as YAML: its names in the order given, texts in their own letters."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)


def _reason(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is not None and problem:
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    return " ".join(str(error).split())
