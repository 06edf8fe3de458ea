"""Rollouts: an agent works on a task, a judge scores what came of it; every attempt durable, tried again."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from eventlog.errors import AppendError
from eventlog.events import Event, RolloutFinished, RolloutStarted
from projections import SUPERSEDED, Rollout

from ..batch.control import Control
from ..budget import Budget
from ..effects.backoff import backoff_s
from ..effects.clock import CallIds, monotonic
from ..effects.secrets import Redactor
from ..executors import Lost
from ..journal import Journal
from .blobs import Blobs, fitting
from .config import TrainingConfig
from .judge_llm import JudgeModel, ask_judge
from .judges import TrainingJudge, Verdict
from .outcomes import OK, Outcome, as_json
from .own_spending import Held, OwnSpending
from .working import Hands, Job

EVALUATION = "evaluation"
NO_JUDGE_MODEL = "no model is configured for the judge: give judge.params.model, or model"
_LONGEST_FEEDBACK = 20_000


Conclude = Callable[[Job, int, float | None, str | None, bytes | None, str | None, int], Event]
"""Makes the event that ends a job: (job, attempt, score, feedback, extra as JSON, error, wall_ms)."""


def rollout_ended(rollout: Rollout | None, retries: int) -> bool:
    """Whether nothing more is to be done: it was judged, or failed once more often than it is tried again."""
    return rollout is not None and (bool(rollout.judged) or rollout.failures > retries)


class RolloutRunner:
    """Brings jobs to their end. `hands` work on attempts; `judge` is open (`async with`)."""

    def __init__(
        self,
        hands: Hands,
        judge: TrainingJudge,
        *,
        config: TrainingConfig,
        blobs: Blobs,
        journal: Journal,
        control: Control,
        budget: Budget,
        redactor: Redactor,
        ids: CallIds,
        judge_model: JudgeModel | None = None,
    ) -> None:
        self._hands = hands
        self._judge = judge
        self._retries = config.trainer.retries
        self._blobs = blobs
        self._journal = journal
        self._training = journal.state.training
        self._control = control
        self._redactor = redactor
        bound = config.agent.bound if hands.pays_itself else None
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
        ended, why = False, "the run was stopped before the agent had ended"
        try:
            ended = await self._work_on(job, held, conclude, carried=carried)
        except Lost as loss:
            # It is open still: the next look at it goes on with it, as a resume would.
            why = str(loss)
        finally:
            if not ended:
                # Another error may be on its way, and counts more than a log that takes nothing.
                with suppress(AppendError):
                    await self._own.abandon(held, why)

    def _number(self, job: Job, rollout: Rollout | None) -> tuple[int, bool]:
        """The number of the next attempt, and whether it is one that was left open."""
        open_attempt = self._training.open.get(job.unit)
        if open_attempt is not None:
            return open_attempt.attempt, True
        return 1 if rollout is None else rollout.attempt + 1, False

    async def _work_on(self, job: Job, held: Held, conclude: Conclude, *, carried: bool) -> bool:
        """Let the agent work; whether the attempt has ended. It has not where it goes on with the run."""
        worked = await self._hands.work(job, held.attempt, carried=carried)
        if worked.outcome is None:
            return False
        await self._end(job, held, worked.outcome, worked.wall_ms, conclude)
        return True

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
        await self._hands.clear(job.unit, held.attempt)

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
