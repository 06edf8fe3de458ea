"""Rollouts: an agent works on a task, a judge scores what came of it; every attempt durable, tried again."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from anyio import to_thread

from eventlog.errors import AppendError
from eventlog.events import Event, RolloutFinished, RolloutStarted
from projections import SUPERSEDED, Rollout, agent_messages, request_messages

from ..agents import AgentCalls
from ..agents.leading import divergence, interrupted_tool, lead
from ..batch.brief import Brief
from ..batch.control import Control
from ..batch.endpoint import prices_of
from ..batch.sending import Services
from ..batch.settings import Settings, settings_record
from ..budget import Budget
from ..effects.backoff import backoff_s
from ..effects.clock import CallIds, monotonic
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor
from ..journal import Journal
from .agent_context import Given, NoCalls
from .agents import TrainingAgent
from .blobs import Blobs, fitting
from .config import TrainingConfig
from .judge_llm import JudgeModel, ask_judge
from .judges import TrainingJudge, Verdict
from .outcomes import OK, TIMEOUT, Outcome, as_json, failed, outcome_of, outcome_of_error
from .own_spending import Held, OwnSpending

EVALUATION = "evaluation"
NO_JUDGE_MODEL = "no model is configured for the judge: give judge.params.model, or model"
_LONGEST_FEEDBACK = 20_000


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


Conclude = Callable[[Job, int, float | None, str | None, bytes | None, str | None, int], Event]
"""Makes the event that ends a job: (job, attempt, score, feedback, extra as JSON, error, wall_ms)."""


def rollout_ended(rollout: Rollout | None, retries: int) -> bool:
    """Whether nothing more is to be done: it was judged, or failed once more often than it is tried again."""
    return rollout is not None and (bool(rollout.judged) or rollout.failures > retries)


class RolloutRunner:
    """Brings jobs to their end. `services` is null where no model is configured.

    `settings` are those of the agent's binding: its model, and `prompt_timeout`, which is the agent's time.
    `agent` and `judge` are open (`async with`). `directory` is where an attempt (unit, number) works.
    """

    def __init__(
        self,
        services: Services | None,
        settings: Settings,
        agent: TrainingAgent,
        judge: TrainingJudge,
        *,
        config: TrainingConfig,
        blobs: Blobs,
        journal: Journal,
        control: Control,
        budget: Budget,
        redactor: Redactor,
        directory: Callable[[str, int], Path],
        marker: str,
        ids: CallIds,
        judge_model: JudgeModel | None = None,
    ) -> None:
        self._s = services
        self._settings = settings
        self._record = settings_record(settings)
        self._price_of = prices_of(settings)
        self._tools = [] if services is None else services.tools.definitions(settings.toolsets or [])
        self._agent = agent
        self._judge = judge
        self._config = config
        self._retries = config.trainer.retries
        self._blobs = blobs
        self._journal = journal
        self._training = journal.state.training
        self._control = control
        self._redactor = redactor
        self._directory = directory
        self._marker = marker
        bound = config.agent.bound if agent.pays_itself else None
        self._own = OwnSpending(bound, journal=journal, budget=budget, control=control, ids=ids)
        self._judge_model = judge_model

    async def run(self, job: Job, conclude: Conclude) -> None:
        """Bring a job to its end (`rollout_ended`), or return when the run is ending.

        `conclude` is asked for an "ok" attempt's judgement; for the role evaluation also where the last try
        failed.

        Raises:
            RunFailed, AppendError: the run cannot go on.
        """
        while not self._control.stopping:
            rollout = self._training.rollouts.get(job.unit)
            if rollout is not None and rollout_ended(rollout, self._retries):
                await self._tell_failure(job, rollout, conclude)
                return
            if rollout is not None and rollout.status == OK:
                await self._judge_recorded(job, rollout, conclude)
            else:
                if rollout is not None and rollout.failures:
                    await self._control.sleep(backoff_s(rollout.failures - 1))
                await self._attempt(job, rollout, conclude)

    # One attempt.

    async def _attempt(self, job: Job, rollout: Rollout | None, conclude: Conclude) -> None:
        number, carried = self._number(job, rollout)
        started = RolloutStarted(job.unit, number, job.task_id, job.adapter_name, carried)
        held = await self._own.begin(job.unit, number, job.role, started)
        if held is None:
            return
        ended = False
        try:
            ended = await self._work_on(job, held, conclude, carried=carried)
        finally:
            if not ended:
                # Another error may be on its way, and counts more than a log that takes nothing.
                with suppress(AppendError):
                    await self._own.abandon(held, "the run was stopped before the agent had ended")

    def _number(self, job: Job, rollout: Rollout | None) -> tuple[int, bool]:
        """The number of the next attempt, and whether it is one that was left open."""
        open_attempt = self._training.open.get(job.unit)
        if open_attempt is not None:
            return open_attempt.attempt, True
        return 1 if rollout is None else rollout.attempt + 1, False

    async def _work_on(self, job: Job, held: Held, conclude: Conclude, *, carried: bool) -> bool:
        """Let the agent work; whether the attempt has ended. It has not where it goes on with the run."""
        calls = self._calls(job, held.attempt)
        hindered = await self._hindered(calls, job, carried=carried)
        if hindered is not None:
            await self._end(job, held, hindered, 0, conclude)
            return True
        await self._prepare(calls)
        began = monotonic()
        outcome = await lead(calls, lambda: self._outcome(calls, job))
        wall_ms = round((monotonic() - began) * 1000)
        await self._end_processes(calls)
        if calls.broken is not None:
            raise calls.broken
        outcome = self._judged_end(calls, outcome)
        if outcome is None:
            return False
        if outcome.messages is None and outcome.error_class != SUPERSEDED:
            outcome = outcome._replace(messages=self._conversation(calls))
        await self._end(job, held, outcome, wall_ms, conclude)
        return True

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
            await self._clear(calls.unit, calls.number)

    async def _clear(self, unit: str, attempt: int) -> None:
        """Remove an attempt's directory; mostly there is none, since it is made when it is asked for."""
        directory = self._directory(unit, attempt)
        for place in (directory, _copy_beside(directory)):
            if place.exists():
                await to_thread.run_sync(partial(shutil.rmtree, place, ignore_errors=True))

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
        given = Given(job.task, adapter, self._config.agent.params, self._marker, self._redactor)
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
            await self._s.tools.end(self._journal.state.open_attempt(calls.unit))
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

    # Its end, and the judge.

    async def _end(self, job: Job, held: Held, outcome: Outcome, wall_ms: int, conclude: Conclude) -> None:
        """Record the end of an attempt, with all of this moment in one commit, and have it judged."""
        finished = outcome.event(job.unit, held.attempt, wall_ms)
        spent = self._own.end(held, [outcome.reported])
        *large, events = fitting([*outcome.blobs(self._blobs), *spent, finished])
        for part in large:
            await self._journal.record(*part)
        if not outcome.is_ok:
            if self._is_last(job, outcome):
                events.append(conclude(job, held.attempt, None, None, None, outcome.why, 0))
            await self._journal.record(*events)
            return
        if self._judge.is_quick:
            await self._journal.record(*events, *await self._judgement(job, finished, conclude))
        else:
            behind = self._journal.record(*events)
            if self._judge.asks_model:
                await behind
            judged = await self._judgement(job, finished, conclude)
            await behind
            if judged:
                await self._journal.record(*judged)
        await self._clear(job.unit, held.attempt)

    async def _tell_failure(self, job: Job, rollout: Rollout, conclude: Conclude) -> None:
        """Tell an evaluation of an attempt that became the last one because fewer are made than before."""
        if job.role != EVALUATION or rollout.judged:
            return
        finished = self._blobs.event(rollout.finished)
        assert isinstance(finished, RolloutFinished)
        why = f"{finished.status}: {finished.error_class}: {finished.message}"
        await self._journal.record(conclude(job, finished.attempt, None, None, None, why, 0))

    def _is_last(self, job: Job, outcome: Outcome) -> bool:
        """Whether a failed attempt is the last at an evaluation's task, which has to be told."""
        if job.role != EVALUATION or outcome.error_class == SUPERSEDED:
            return False
        return self._training.rollouts[job.unit].failures + 1 > self._retries

    async def _judge_recorded(self, job: Job, rollout: Rollout, conclude: Conclude) -> None:
        """Have an attempt judged that ended before, perhaps in an earlier session."""
        finished = self._blobs.event(rollout.finished)
        assert isinstance(finished, RolloutFinished)
        judged = await self._judgement(job, finished, conclude)
        if judged:
            await self._journal.record(*judged)

    async def _judgement(self, job: Job, finished: RolloutFinished, conclude: Conclude) -> tuple[Event, ...]:
        """What the judge says of the output as it is recorded; nothing where the run is ending first."""
        output = None if finished.output is None else msgspec.json.decode(finished.output)
        began = monotonic()
        said = await self._asked(job, finished.attempt, output)
        if said is None:
            return ()
        verdict = self._clean(said)
        wall_ms = round((monotonic() - began) * 1000)
        extra = None if verdict.extra is None else as_json(verdict.extra, self._redactor)
        return (
            conclude(job, finished.attempt, verdict.score, verdict.feedback, extra, verdict.error, wall_ms),
        )

    async def _asked(self, job: Job, attempt: int, output: Any) -> Verdict | None:
        if not self._judge.asks_model:
            return await self._judge.judge(job.task, output)
        if self._judge_model is None:
            return Verdict(None, error=NO_JUDGE_MODEL)
        return await ask_judge(self._judge_model, self._judge.rubric, job.unit, attempt, job.task, output)

    def _clean(self, verdict: Verdict) -> Verdict:
        feedback, error = verdict.feedback, verdict.error
        return verdict._replace(
            feedback=None if feedback is None else self._redactor.clean_text(feedback)[:_LONGEST_FEEDBACK],
            error=None if error is None else self._redactor.clean_text(error)[:_LONGEST_FEEDBACK],
        )


def _copy_beside(directory: Path) -> Path:
    """Where an attempt's copy of the adapter is."""
    return directory.with_name(f"{directory.name}-adapter")
