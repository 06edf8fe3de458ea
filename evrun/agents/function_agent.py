"""An agent that is a Python function: `FILE.py:FUNCTION` or `MODULE:FUNCTION`."""

import importlib
import inspect
import traceback
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from projections import prompt_text

from ..effects.foreign import in_a_task
from ..errors import UsageFault
from ..own.code import run_file
from .calls import AgentCalls
from .context import CallRefused, Context

Function = Callable[[str, Context], Awaitable[Any]]
_HINT = "for example --agent my_agent.py:agent, with: async def agent(prompt, ctx): …"


class AgentEnd(NamedTuple):
    """How an agent ended by itself: null where it did well, else the class of its failure and why."""

    error_class: str | None = None
    message: str = ""


class FunctionAgent:
    """Runs the user's function for an attempt."""

    wants_a_fresh_directory = False
    """What its tools have made belongs to results that are not made again."""

    def __init__(self, function: Function, where: str) -> None:
        self._function = function
        self._where = where

    async def run(self, calls: AgentCalls) -> AgentEnd:
        """Call the function and say how it ended."""
        prompt, context = prompt_text(calls.brief.row), Context(calls)
        try:
            await in_a_task(lambda: self._function(prompt, context))
        except CallRefused as refusal:
            return AgentEnd("agent_refused", f"{self._where}: {refusal}")
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this prompt's end and not the run's)
            return AgentEnd("agent_crashed", f"{_place(error)}{type(error).__name__}: {error}")
        return AgentEnd()


_given: dict[str, FunctionAgent] = {}
GIVEN = "given:"
"""How an agent is recorded that a program handed over: no file or module is known to hold it."""


def hand_over(function: Function) -> str:
    """Take a function as an agent for runs in this process; how it is named in the settings.

    Raises:
        UsageFault: it is not async.
    """
    name = getattr(function, "__qualname__", "agent")
    if not inspect.iscoroutinefunction(function):
        raise UsageFault(f"agent={name}: it is not an async function", hint="async def agent(prompt, ctx): …")
    _given[f"{GIVEN}{name}"] = FunctionAgent(function, name)
    return f"{GIVEN}{name}"


def load_function(spec: str) -> FunctionAgent:
    """The function that an agent's setting names.

    Raises:
        UsageFault: no such file, module or function; it cannot be run; it is not async; with what to do.
    """
    if not spec.startswith(GIVEN):
        return _load(spec)
    if spec not in _given:
        raise UsageFault(
            f"--agent {spec}: this agent was handed over by a program, and is not here",
            hint="go on from that program, or name a file: --agent FILE.py:FUNCTION",
        )
    return _given[spec]


@cache
def _load(spec: str) -> FunctionAgent:
    home, _, name = spec.rpartition(":")
    module = _module(home, spec)
    function = getattr(module, name, None)
    if function is None or not callable(function):
        found = [key for key, value in vars(module).items() if inspect.iscoroutinefunction(value)]
        there = f"it has the async functions {', '.join(found)}" if found else _HINT
        raise UsageFault(f"--agent {spec}: there is no function {name!r}", hint=there)
    if not inspect.iscoroutinefunction(function):
        raise UsageFault(f"--agent {spec}: {name} is not an async function", hint=_HINT)
    return FunctionAgent(function, spec)


def _module(home: str, spec: str) -> ModuleType:
    if home.endswith(".py"):
        if not Path(home).is_file():
            raise UsageFault(f"--agent {spec}: there is no file {home}", hint=_HINT)
        return run_file(Path(home), "--agent")
    try:
        return importlib.import_module(home)
    except (Exception, SystemExit) as error:
        raise UsageFault(
            f"--agent {spec}: {_place(error)}{type(error).__name__}: {error}",
            hint="mend it, then do this again",
        ) from error


def _place(error: BaseException) -> str:
    """Where in the user's code something went wrong: the last line of it that took part."""
    own = str(Path(__file__).parent.parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((own, "<frozen")):
            return f"{Path(frame.filename).name}, line {frame.lineno}: "
    return ""
