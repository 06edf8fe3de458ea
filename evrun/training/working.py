"""Working on one attempt of a rollout: its agent is led to an end, wherever its session is."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from anyio import to_thread

from projections import SUPERSEDED, agent_messages, request_messages

from ..agents import AgentCalls
from ..agents.leading import divergence, interrupted_tool, lead
from ..batch.brief import Brief
from ..batch.control import Control
from ..batch.sending import Services
from ..batch.settings import Settings, settings_record
from ..batch.tool_calls import ToolPlace, ToolRunner
from ..effects.clock import monotonic
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor
from ..journal import Journal
from ..prices import Price
from ..tools import Toolbox
from .agent_context import Given, NoCalls
from .agents import TrainingAgent
from .outcomes import TIMEOUT, Outcome, as_json, failed, outcome_of, outcome_of_error
from .places import Places

PriceOf = Callable[[str], Price | None]


class Job(NamedTuple):
    """What is to be worked on. `adapter` is its directory (null: none), `adapter_name` what it is.

    `role` is what it is for: rollout, evaluation, learner.
    """

    unit: str
    task_id: str
    task: dict[str, Any]
    adapter: Path | None
    adapter_name: str
    role: str = "rollout"


class Worked(NamedTuple):
    """What came of an attempt, and how long its agent worked; without an outcome it goes on with the run."""

    outcome: Outcome | None
    wall_ms: int = 0


class Hands(Protocol):
    """Who works on attempts that are recorded as begun. `pays_itself` is the agent's."""

    pays_itself: bool

    async def work(self, job: Job, number: int, *, carried: bool) -> Worked:
        """Work on an attempt, which was left open before if it is `carried`, until its agent has ended.

        Raises:
            Lost: whoever worked on it is gone; the attempt is open still.
            RunFailed, AppendError: the run cannot go on.
        """

    async def clear(self, unit: str, number: int) -> None:
        """Remove an attempt's directory: what is worth keeping is recorded."""


class AttemptTools(ToolRunner):
    """Runs the tools of rollouts, in the directories of this session's attempts."""

    def __init__(self, journal: Journal, toolbox: Toolbox, place: ToolPlace, places: Places) -> None:
        super().__init__(journal, toolbox, place)
        self._places = places

    def directory(self, unit: str, attempt: int) -> Path:
        """Where an attempt's tools work."""
        return self._places.attempt(unit, attempt)


class AgentHands:
    """Works with the agent itself, here. `services` is null where no model is configured.

    `settings` and `price_of` are those of the agent's binding; `prompt_timeout` is the agent's time.
    `agent` is open (`async with`), and given `params`. `directory` is where an attempt (unit, number) works.
    """

    def __init__(
        self,
        services: Services | None,
        settings: Settings,
        agent: TrainingAgent,
        *,
        price_of: PriceOf,
        params: dict[str, Any],
        control: Control,
        redactor: Redactor,
        directory: Callable[[str, int], Path],
        marker: str,
    ) -> None:
        self._s = services
        self._settings = settings
        self._record = settings_record(settings)
        self._price_of = price_of
        self._tools = [] if services is None else services.tools.definitions(settings.toolsets or [])
        self._agent = agent
        self._params = params
        self._control = control
        self._redactor = redactor
        self._directory = directory
        self._marker = marker
        self.pays_itself = agent.pays_itself

    async def work(self, job: Job, number: int, *, carried: bool) -> Worked:
        """Let the agent work to its end. Errors as `Hands`."""
        calls = self._calls(job, number)
        hindered = await self._hindered(calls, job, carried=carried)
        if hindered is not None:
            return Worked(hindered)
        await self._prepare(calls)
        began = monotonic()
        outcome = await lead(calls, lambda: self._outcome(calls, job))
        wall_ms = round((monotonic() - began) * 1000)
        await self._end_processes(calls)
        if calls.broken is not None:
            raise calls.broken
        outcome = self._judged_end(calls, outcome)
        if outcome is not None and outcome.messages is None and outcome.error_class != SUPERSEDED:
            outcome = outcome._replace(messages=self._conversation(calls))
        return Worked(outcome, wall_ms)

    async def clear(self, unit: str, number: int) -> None:
        """Remove an attempt's directory; mostly there is none, since it is made when it is asked for."""
        directory = self._directory(unit, number)
        for place in (directory, _copy_beside(directory)):
            if place.exists():
                await to_thread.run_sync(partial(shutil.rmtree, place, ignore_errors=True))

    def _conversation(self, calls: AgentCalls | NoCalls) -> bytes | None:
        """What an agent said to a model and was told, where it asked one and does not say itself."""
        messages = [] if isinstance(calls, NoCalls) else agent_messages(calls.attempt())
        return as_json(request_messages(messages, {}), self._redactor) if messages else None

    def _calls(self, job: Job, number: int) -> AgentCalls | NoCalls:
        brief = Brief(job.task, self._settings, self._record, self._tools, self._seed(job))
        if self._s is None:
            directory = self._directory(job.unit, number)
            return NoCalls(job.unit, number, directory, brief, self._control)
        return AgentCalls(
            self._s, job.unit, brief, number=number, started=None, price_of=self._price_of, role=job.role
        )

    def _seed(self, job: Job) -> int | None:
        """The seed that requests carry; another one for each try at the same task with the same adapter."""
        seed, last = self._settings.seed, job.unit.rpartition(".")[2]
        if seed is None or job.role == "rollout" or not last.isdecimal():
            return seed
        return seed + int(last) - 1

    async def _hindered(self, calls: AgentCalls | NoCalls, job: Job, *, carried: bool) -> Outcome | None:
        """The end of an attempt that cannot begin or go on; null where it can."""
        why = self._cannot_go_on(calls) if carried else None
        if why is not None:
            return failed(SUPERSEDED, why)
        refusal = await self._s.tools.refusal(job.task) if self._s is not None and self._tools else None
        return None if refusal is None else failed(refusal.error_class, refusal.message)

    def _cannot_go_on(self, calls: AgentCalls | NoCalls) -> str | None:
        """Why an attempt that was left open cannot go on; null where it can."""
        if isinstance(calls, NoCalls) or self._s is None:
            return None
        own = calls.attempt().own
        if own is not None and own.tools and not self._agent.is_program and not calls.directory.is_dir():
            return "the directory in which its tools have worked is gone"
        return interrupted_tool(calls, self._s.tools)

    async def _prepare(self, calls: AgentCalls | NoCalls) -> None:
        """No directory, or that of results which are fed back and not made again: it stays as it is."""
        own = None if isinstance(calls, NoCalls) else calls.attempt().own
        if own is None or not own.tools or self._agent.is_program:
            await self.clear(calls.unit, calls.number)

    async def _adapter(self, calls: AgentCalls | NoCalls, job: Job) -> Path | None:
        """The adapter for an attempt: code of the user's own gets a copy that it may write into."""
        if job.adapter is None or not self._agent.pays_itself:
            return job.adapter
        place = _copy_beside(self._directory(calls.unit, calls.number))
        await to_thread.run_sync(partial(shutil.rmtree, place, ignore_errors=True))
        await to_thread.run_sync(shutil.copytree, job.adapter, place)
        return place

    async def _outcome(self, calls: AgentCalls | NoCalls, job: Job) -> Outcome:
        adapter = await self._adapter(calls, job)
        given = Given(job.task, adapter, self._params, self._marker, self._redactor)
        try:
            found = await self._agent.run(calls, given)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this attempt's end and not the run's)
            return outcome_of_error(error, calls.directory, self._redactor)
        if found.log is None:
            return outcome_of(found, calls.directory, self._redactor)
        return await to_thread.run_sync(outcome_of, found, calls.directory, self._redactor)

    async def _end_processes(self, calls: AgentCalls | NoCalls) -> None:
        """Nothing that an attempt has started may outlive it."""
        own = None if isinstance(calls, NoCalls) else calls.attempt().own
        if self._s is not None and own is not None and own.tools:
            await self._s.tools.end(self._s.journal.state.open_attempt(calls.unit))
        elif self._agent.is_program:
            await to_thread.run_sync(kill_orphans, f"{self._marker}/{calls.directory.name}")

    def _judged_end(self, calls: AgentCalls | NoCalls, outcome: Outcome | None) -> Outcome | None:
        """What an attempt's end is recorded as; null where there is none, since it goes on with the run."""
        well = outcome is not None and outcome.is_ok
        diverged = divergence(calls, well=well)
        if diverged is not None:
            return failed(SUPERSEDED, diverged)
        if self._control.stopping and (calls.refused or not well):
            return None
        if not well and calls.stop is not None and calls.stop.unsendable is not None:
            return failed(calls.stop.unsendable.error_class, calls.stop.reason)
        if not well and calls.left_s <= 0:
            limit = f"{self._settings.prompt_timeout:g} s (agent.timeout_min)"
            known = outcome or failed(TIMEOUT, "")
            why = f"the agent was not done within {limit}"
            return known._replace(status=TIMEOUT, error_class=TIMEOUT, message=why, traceback=None)
        if not well and calls.stop is not None:
            made = f"{self._settings.max_turns} model calls were made"
            return failed("max_turns", f"{made}, which are all (agent.params.max_turns)")
        return outcome or failed("stopped", "the agent was ended")


def _copy_beside(directory: Path) -> Path:
    """Where an attempt's copy of the adapter is."""
    return directory.with_name(f"{directory.name}-adapter")
