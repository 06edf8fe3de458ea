"""Who works on tasks: `chat`, a function of the user's own, or a program."""

import asyncio
import copy
import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Protocol, Self

import anyio

from ..agents import AgentCalls
from ..effects.foreign import in_a_task, in_daemon_thread
from ..errors import UsageFault
from ..own.code import run_file
from .agent_command import CommandAgent
from .agent_context import AgentContext, Given, NoCalls, PlainContext
from .authoring import RunOutput
from .chat import chat
from .config import CHAT, TrainingConfig

COMMAND = "command:"
OPTION = "agent.name"
_HINT = "for example agent.name: my_agent.py:run, with: async def run(task, adapter, ctx): …"
_CONTEXT = ("ctx", "context")
_PARAMS = "params"


def _unheard(_text: str) -> None:
    """Nobody listens."""


class TrainingAgent(Protocol):
    """Works on attempts while its context is open.

    `pays_itself`: what it reports to have spent counts. `is_program`: each of its attempts begins in an empty
    directory, and may leave processes behind.
    """

    pays_itself: bool
    is_program: bool

    async def __aenter__(self) -> Self:
        """Ready to work."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing of it is left."""

    async def run(self, calls: AgentCalls | NoCalls, given: Given) -> RunOutput:
        """Work on an attempt; whatever it raises is the attempt's error. May be cancelled."""


class Form(NamedTuple):
    """How a function wants to be called: with which names beside the task and its adapter."""

    context: str | None
    params: bool
    is_async: bool


class FunctionAgent:
    """Calls a function, `async` on the loop, plain in a thread of its own."""

    is_program = False

    def __init__(self, function: Callable[..., Any], form: Form, *, pays_itself: bool = True) -> None:
        self._function = function
        self._form = form
        self.pays_itself = pays_itself

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def run(self, calls: AgentCalls | NoCalls, given: Given) -> RunOutput:
        """Call it; anything but a `RunOutput` is the output itself."""
        # Neither its next attempt nor its judge may find the task changed.
        given = given._replace(task=copy.deepcopy(given.task), params=copy.deepcopy(given.params))
        context = AgentContext(calls, given)
        try:
            if self._form.is_async:
                found = await in_a_task(lambda: self._called(given, context))
            else:
                found = await self._in_a_thread(given, context)
        finally:
            context.ended = True
        return found if isinstance(found, RunOutput) else RunOutput(found)

    async def _in_a_thread(self, given: Given, context: AgentContext) -> Any:
        plain = PlainContext(context, asyncio.get_running_loop())
        try:
            return await in_daemon_thread(lambda: self._called(given, plain))
        finally:
            with anyio.CancelScope(shield=True):
                await plain.end()

    def _called(self, given: Given, context: AgentContext | PlainContext) -> Any:
        named: dict[str, Any] = {}
        if self._form.context is not None:
            named[self._form.context] = context
        if self._form.params:
            named[_PARAMS] = given.params
        return self._function(given.task, given.adapter, **named)


def load_agent(
    config: TrainingConfig,
    note: Callable[[str], None] = _unheard,
    environment: Mapping[str, str] = os.environ,
) -> TrainingAgent:
    """The agent that the configuration names; `async with` it before it works.

    `note` hears what programs do; those variables of `environment` that they are to have are given to them.

    Raises:
        UsageFault: no such file, module, function or form; with what to do.
    """
    name = config.agent.name
    if name == CHAT:
        return FunctionAgent(chat, Form("ctx", params=True, is_async=True), pays_itself=False)
    if name.startswith(COMMAND):
        return _program(name.removeprefix(COMMAND), config.agent.params, note, environment)
    function = _function(name, config.agent.params)
    return FunctionAgent(function, form_of(function, name))


def _program(
    command: str, params: dict[str, Any], note: Callable[[str], None], environment: Mapping[str, str]
) -> CommandAgent:
    if not command.strip():
        raise UsageFault(f"{OPTION} command: names no command", "for example command:python agent.py")
    return CommandAgent(command, passed_variables(params), note, environment)


def passed_variables(params: dict[str, Any]) -> list[str]:
    """The names of variables that a program is to have beside a few harmless ones.

    Raises:
        UsageFault: the parameter that names them has another form.
    """
    passed = params.get("env", [])
    if not isinstance(passed, list) or not all(isinstance(one, str) for one in passed):
        raise UsageFault(
            f"agent.params.env: expected a list of names of variables, found {passed!r:.100}",
            "for example env: [ANTHROPIC_API_KEY]",
        )
    return passed


def form_of(function: Callable[..., Any], name: str) -> Form:
    """How a function wants to be called.

    Raises:
        UsageFault: it wants something that is not given, or does not take task and adapter.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageFault(f"{OPTION} {name}: {error}", _HINT) from error
    wants = [one for one in parameters if one.kind not in {one.VAR_KEYWORD, one.VAR_POSITIONAL}]
    places = [one for one in wants if one.kind is not one.KEYWORD_ONLY]
    if len(places) < 2 and all(one.kind is not one.VAR_POSITIONAL for one in parameters):  # noqa: PLR2004
        raise UsageFault(f"{OPTION} {name}: it does not take a task and an adapter", _HINT)
    context, params = None, False
    for one in [one for one in wants if one not in places[:2]]:
        if one.name in _CONTEXT and one.kind is not one.POSITIONAL_ONLY:
            context = one.name
        elif one.name == _PARAMS and one.kind is not one.POSITIONAL_ONLY:
            params = True
        elif one.default is one.empty:
            raise UsageFault(
                f"{OPTION} {name}: it wants {one.name!r}, which evrun does not give",
                "beside task and adapter there are ctx and params, by these names",
            )
    return Form(context, params, inspect.iscoroutinefunction(function))


def _function(name: str, params: dict[str, Any]) -> Callable[..., Any]:
    """What `FILE.py:NAME` or `MODULE:NAME` names: a function, or the method `run` of a class."""
    home, colon, attribute = name.rpartition(":")
    if not colon or not home or not attribute.isidentifier():
        forms = "chat, FILE.py:NAME, MODULE:NAME, command:CMD"
        raise UsageFault(f"{OPTION} {name!r}: expected one of {forms}", _HINT)
    module = _module(home, name)
    found = getattr(module, attribute, None)
    if inspect.isclass(found):
        found = _made(found, name, params)
    if found is not None and not inspect.isroutine(found) and callable(getattr(found, "run", None)):
        found = found.run
    if found is None or not callable(found):
        own = [
            key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
        ]
        there = f"it has {', '.join(own)}" if own else _HINT
        raise UsageFault(f"{OPTION} {name}: there is no function or agent {attribute!r}", there)
    function: Callable[..., Any] = found
    return function


def _made(kind: type, name: str, params: dict[str, Any]) -> Any:
    """An agent's class, made once: with `params` where it asks for them."""
    try:
        asks = _PARAMS in inspect.signature(kind).parameters
        return kind(params=copy.deepcopy(params)) if asks else kind()
    except (Exception, SystemExit) as error:
        raise UsageFault(
            f"{OPTION} {name}: it cannot be made: {type(error).__name__}: {error}",
            "a class of an agent is made without arguments, or with params",
        ) from error


def _module(home: str, name: str) -> ModuleType:
    if home.endswith(".py"):
        if not Path(home).is_file():
            raise UsageFault(f"{OPTION} {name}: there is no file {home}", _HINT)
        return run_file(Path(home), OPTION)
    try:
        return importlib.import_module(home)
    except (Exception, SystemExit) as error:
        raise UsageFault(
            f"{OPTION} {name}: {type(error).__name__}: {error}", "mend it, then do this again"
        ) from error
