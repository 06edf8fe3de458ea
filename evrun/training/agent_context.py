"""What an agent is given beside its task and its adapter: durable calls, and what it works on and with."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio

from ..agents import AgentCalls, CallRefused, Completion, Context
from ..agents.calls import Stop
from ..agents.endpoint_asked import Asked, Reply
from ..agents.endpoint_errors import error_reply
from ..batch.brief import Brief
from ..batch.control import Control
from ..effects.clock import monotonic
from ..effects.secrets import Redactor

T = TypeVar("T")

NO_MODEL = "no model is configured for the agent: give `model` (or agent.params.model)"


class NoCalls:
    """The calls of an attempt where no model is configured: there are none. The face of `AgentCalls`."""

    def __init__(self, unit: str, number: int, directory: Path, brief: Brief, control: Control) -> None:
        self.unit = unit
        self.number = number
        self.directory = directory
        self.brief = brief
        self.stop: Stop | None = None
        self.broken: Exception | None = None
        self.in_flight = 0
        self.unclaimed = 0
        self.refused = False
        self.stopped = anyio.Event()
        self._control = control
        self._deadline = monotonic() + brief.settings.prompt_timeout

    @property
    def left_s(self) -> float:
        """Seconds that the attempt has left."""
        return self._deadline - monotonic()

    @property
    def stopping(self) -> bool:
        """Whether the run is ending."""
        return self._control.stopping

    async def ask(self, _asked: Asked) -> Reply:
        """Why there is no answer."""
        return error_reply(400, NO_MODEL, "no_model")

    async def tool(self, name: str, _arguments: dict[str, Any]) -> str:
        """Why there is no result."""
        return f'{{"error": "no tool {name} is here: {NO_MODEL}"}}'


class Given(NamedTuple):
    """What an attempt works on: the task, its adapter's directory (null: none), the parameters.

    `marker` and `redactor` are the run's, for what is a program.
    """

    task: dict[str, Any]
    adapter: Path | None
    params: dict[str, Any]
    marker: str
    redactor: Redactor


class AgentContext:
    """An attempt as the code of an `async` agent sees it.

    `unit` and `attempt` name it; `task`, `adapter` and `params` are what it is also called with; `model` is
    the configured one (empty: none); `tools` are the definitions of the tools that it was given, as requests
    carry them. Once the attempt has `ended`, nothing more is answered, whoever still asks.
    """

    def __init__(self, calls: AgentCalls | NoCalls, given: Given) -> None:
        self._calls = Context(calls)  # type: ignore[arg-type]  # the same face
        self._directory = calls.directory
        self.unit = calls.unit
        self.attempt = calls.number
        self.task = given.task
        self.adapter = given.adapter
        self.params = given.params
        self.model = calls.brief.settings.model
        self.tools = self._calls.tools
        self.ended = False

    @property
    def directory(self) -> Path:
        """The attempt's private directory, made when it is asked for; at first it is empty."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._directory

    async def complete(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        model: str | None = None,
        **options: Any,
    ) -> Completion:
        """Ask a model: recorded, under the run's caps, paid once; in a later session answered from the log.

        `messages` and `tools` are in OpenAI's shape; `options` are further fields of the request and count
        more than the run's settings.

        Raises:
            CallRefused: there is no answer, and why.
        """
        self._check()
        return await self._calls.complete(messages, tools=tools, model=model, **options)

    async def tool(self, name: str, /, **arguments: Any) -> Any:
        """Run one of the run's tools: recorded when it begins and ends; later its recorded result is given.

        The result is what a model would be given, as JSON: mostly an object with `error` (null or a text).
        """
        self._check()
        return await self._calls.tool(name, **arguments)

    def _check(self) -> None:
        if self.ended:
            raise CallRefused(400, "evrun: this attempt has ended", paused=False)


class PlainContext:
    """The same for a plain function, which runs in a thread: calls block until they are answered."""

    def __init__(self, context: AgentContext, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._open: set[asyncio.Task[Any]] = set()
        self.unit = context.unit
        self.attempt = context.attempt
        self.task = context.task
        self.adapter = context.adapter
        self.params = context.params
        self.model = context.model
        self.tools = context.tools

    @property
    def directory(self) -> Path:
        """As `AgentContext.directory`."""
        return self._context.directory

    def complete(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        model: str | None = None,
        **options: Any,
    ) -> Completion:
        """As `AgentContext.complete`."""
        return self._wait(self._context.complete(messages, tools=tools, model=model, **options))

    def tool(self, name: str, /, **arguments: Any) -> Any:
        """As `AgentContext.tool`."""
        return self._wait(self._context.tool(name, **arguments))

    async def end(self) -> None:
        """Nothing more is answered: the thread cannot be stopped, but what it asks can."""
        self._context.ended = True
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(self._known(work), self._loop).result()

    async def _known(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await work
        finally:
            self._open.discard(task)
