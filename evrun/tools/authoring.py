"""How somebody's own Python functions are marked as tools: `from evrun.tools import tool`.

::

    from evrun.tools import tool

    @tool(safe_to_repeat=True, concurrent=True)
    def weather(city: str, days: int = 1) -> dict:
        \"\"\"Return the weather of a city.

Args:
            city: Its name.
            days: So many days ahead.
        \"\"\"
        return {"city": city, "sky": "clear", "days": days}
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__evrun_tool__"
DEFAULT_TIMEOUT_S = 60.0


class Marked(msgspec.Struct, frozen=True):
    """What a decorator said about a function."""

    name: str | None = None
    safe_to_repeat: bool = False
    concurrent: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    safe_to_repeat: bool = False,
    concurrent: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    safe_to_repeat: bool = False,
    concurrent: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> F | Callable[[F], F]:
    """Mark a function as a tool for `--tools FILE.py`; it stays an ordinary function.

    Its schema comes from its type hints, its description from its docstring. `name` is what the model calls
    it (default: the function's). `safe_to_repeat`: a call that a crash cut short may simply be made again;
    without it the prompt begins again. `concurrent`: it may run beside other calls of the same turn.
    `timeout_s` bounds one call.
    """
    marked = Marked(name, safe_to_repeat, concurrent, timeout_s)

    def mark(function: F) -> F:
        setattr(function, MARK, marked)
        return function

    return mark if function is None else mark(function)
