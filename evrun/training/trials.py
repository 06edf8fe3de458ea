"""Rollouts that a learner asks for, and what it is told of them: made from what is recorded of them."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from eventlog.events import RolloutFinished, RolloutJudged
from projections import Rollout, TrainingState, adapter_digest, loads_lenient, trial_unit

from ..batch.control import Control
from ..journal import Journal
from .blobs import Blobs, Refused, entries_of, read_files
from .jobs import judged_in_step, run_jobs
from .learner_tools import RunEnding
from .opening import Prepared
from .places import Places
from .rollouts import RolloutRunner, rollout_ended
from .working import Job


class TrialRunner:
    """Runs what learners ask for. Each rollout is a unit of its own, recorded like any other."""

    def __init__(
        self,
        prepared: Prepared,
        rollouts: RolloutRunner,
        *,
        journal: Journal,
        control: Control,
        blobs: Blobs,
        places: Places,
    ) -> None:
        self._prepared = prepared
        self._journal = journal
        self._control = control
        self._blobs = blobs
        self._places = places
        self._rollouts = rollouts

    def for_learner(self, unit: str) -> Callable[[list[str], Path, int], Awaitable[list[dict[str, Any]]]]:
        """What the call `unit` of the learner may ask for, with the number of its tool call.

        A tool call that was cut short comes again under its number, and gets what is recorded.
        """
        return partial(self._run, unit)

    async def _run(self, learner: str, ids: list[str], adapter: Path, number: int) -> list[dict[str, Any]]:
        tasks = self._prepared.tasks
        known = {*tasks.train, *tasks.val}
        strangers = [task for task in ids if task not in known]
        if strangers:
            raise ValueError(f"run_agent: {', '.join(strangers[:5])}: no task of data.train or data.val")
        try:
            files = read_files(adapter)
        except Refused as error:
            raise ValueError(f"run_agent: the adapter: {error}") from error
        digest = adapter_digest(entries_of(files))
        place = self._places.adapter(digest, files)
        jobs, asked = [], Counter[str]()
        for task in ids:
            asked[task] += 1
            place_in_call = f"{number}" if asked[task] == 1 else f"{number}-{asked[task]}"
            unit = trial_unit(learner, digest, task, place_in_call)
            jobs.append(Job(unit, task, tasks.rows[task], place, digest, "learner"))
        retries = self._prepared.config.trainer.retries
        left = [job for job in jobs if not rollout_ended(self._state.rollouts.get(job.unit), retries)]
        await run_jobs(self._prepared.config, self._control, self._rollouts, left, judged_in_step)
        if any(not rollout_ended(self._state.rollouts.get(job.unit), retries) for job in left):
            raise RunEnding
        return [trial_result(self._blobs, self._state.rollouts.get(job.unit), job) for job in jobs]

    @property
    def _state(self) -> TrainingState:
        return self._journal.state.training


def trial_result(blobs: Blobs, rollout: Rollout | None, job: Job) -> dict[str, Any]:
    """One rollout: ``{"id", "status", "score", "feedback", "output", "error", "extra"}``; null: unknown."""
    result: dict[str, Any] = {
        "id": job.task_id, "status": "error", "score": None, "feedback": None, "output": None,
        "error": "the run is stopping", "extra": None,
    }  # fmt: skip
    if rollout is None or not rollout.finished:
        return result
    finished = blobs.event(rollout.finished)
    assert isinstance(finished, RolloutFinished)
    result |= {
        "status": finished.status,
        "output": _value(finished.output),
        "error": finished.message,
        "extra": _value(finished.extra),
    }
    if rollout.judged:
        judged = blobs.event(rollout.judged)
        assert isinstance(judged, RolloutJudged)
        result |= {"score": judged.score, "feedback": judged.feedback}
        if judged.error is not None:
            result |= {"status": "judge_error", "error": judged.error}
    return result


def _value(data: bytes | None) -> Any:
    return None if data is None else loads_lenient(data)
