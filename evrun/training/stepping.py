"""One step: its rollouts, the learner's call, the boundary. Everything recorded is used, nothing repeated."""

import hashlib

import msgspec
from anyio import to_thread

from eventlog.events import EpochStarted, Event, StepStarted
from projections import OpenStep, rollout_summary, rollout_unit

from ..effects.clock import now_ns
from .blobs import Content, fitting
from .committing import Boundary, Moment
from .jobs import judged_in_step, run_jobs
from .means import Means
from .planning import Chunk, checkpoint_tags, ends_epoch, next_chunk
from .restoring import show_step
from .rollouts import rollout_ended
from .working import Job


class Stepper:
    """Works on the open step, or begins the next one."""

    def __init__(self, means: Means) -> None:
        self._m = means
        self._config = means.prepared.config
        self._train = means.prepared.tasks.train

    async def step(self) -> bool:
        """Bring the next step to its boundary; false where none is left, or the run is stopping."""
        if self._m.control.stopping:
            return False
        if self._m.state.current is None:
            chunk = next_chunk(self._m.state, self._train, self._config)
            if chunk is None:
                return False
            await self._begin(chunk)
        current = self._current()
        if current.returned is None:
            await self._roll_out(current)
            if not self._rolled_out(current):
                return False
            if not await self._learn(current):
                return False
        if self._m.state.current is not None:
            await self._commit(await self._boundary(current, self._tags(current)))
        return True

    async def bootstrap(self) -> bool:
        """Let the learner make the first adapter, as step 0; false where the run is stopping."""
        current = self._m.state.current
        if current is None or current.returned is None:
            await self._m.learner.call("bootstrap", 0, 0, is_epoch_end=False)
        current = self._m.state.current
        if current is None or current.returned is None:
            return False
        await self._commit(await self._boundary(current, []))
        return True

    async def _begin(self, chunk: Chunk) -> None:
        known = self._m.prepared.tasks.rows
        rows = {task: Content(msgspec.json.encode(known[task])) for task in chunk.tasks}
        events: list[Event] = list(self._m.blobs.missing(rows))
        if chunk.order is not None:
            events.append(EpochStarted(chunk.epoch, chunk.order))
        digests = [hashlib.sha256(rows[task].data).digest() for task in chunk.tasks]
        events.append(StepStarted(chunk.step, chunk.epoch, chunk.tasks, self._m.state.head, digests))
        for part in fitting(events):
            await self._m.journal.record(*part)

    async def _roll_out(self, current: OpenStep) -> None:
        """Run what is left of the step's rollouts, so many at once."""
        files = self._m.blobs.files(self._m.state.files)
        adapter = self._m.places.adapter(current.parent[:16], files)
        jobs = [
            Job(
                rollout_unit(current.step, task), task, self._m.prepared.tasks.rows[task], adapter,
                current.parent, "rollout",
            )
            for task in current.tasks
            if not rollout_ended(current.rollouts[task], self._config.trainer.retries)
        ]  # fmt: skip
        await run_jobs(self._config, self._m.control, self._m.rollouts, jobs, judged_in_step)

    def _rolled_out(self, current: OpenStep) -> bool:
        retries = self._config.trainer.retries
        return all(rollout_ended(rollout, retries) for rollout in current.rollouts.values())

    async def _learn(self, current: OpenStep) -> bool:
        """Show the learner what came of it; false where the run stopped before it had an answer."""
        floor, summary = self._config.trainer.coverage_min, rollout_summary(current)
        coverage = summary.coverage or 0.0
        if not summary.scored or coverage < floor:
            note = f"the learner was not called: {summary.errors} of {len(current.tasks)} tasks have no score"
            self._m.note(f"step {current.step}: {note}")
            skipped = self._m.committer.skipped(current, note, self._tags(current), self._moment())
            await self._commit(skipped)
            return True
        if self._m.control.stopping:
            return False
        self._m.views.write_material(current)
        await self._m.learner.call(
            "step", current.step, current.epoch, is_epoch_end=ends_epoch(self._m.state, self._train)
        )
        return current.returned is not None

    async def _boundary(self, current: OpenStep, tags: list[str]) -> Boundary:
        """What ends the step: in a thread, since a template's own check may take its time."""
        return await to_thread.run_sync(self._m.committer.boundary, current, tags, self._moment())

    async def _commit(self, boundary: Boundary) -> None:
        """Git objects, then the boundary, then refs and views: what comes after it can be made again."""
        step = self._m.state.current
        assert step is not None
        self._m.tree.add(boundary.objects)
        await self._m.journal.record(*boundary.events)
        show_step(self._m)
        self._m.places.drop(f"step:{step.step}/")

    def _tags(self, current: OpenStep) -> list[str]:
        ends = ends_epoch(self._m.state, self._train)
        return checkpoint_tags(current.step, current.epoch, self._config, ends=ends)

    def _moment(self) -> Moment:
        return Moment(now_ns() // 10**9, self._m.active_ns())

    def _current(self) -> OpenStep:
        current = self._m.state.current
        assert current is not None
        return current
