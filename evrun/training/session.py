"""One session on a training run: opened or gone on with, worked on, closed; for training or evaluating."""

import os
import signal
from collections.abc import Awaitable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio
from anyio import to_thread

from eventlog.errors import AppendError
from eventlog.events import Event, RunFinished, SessionClosed
from eventlog.storage import LogWriter, log_exists
from projections import RunState, TrainingViews, open_training_views

from ..batch import opening as batch_opening
from ..batch.control import Control, Ending, Switch
from ..batch.work import Result, Ui
from ..effects.clock import monotonic
from ..effects.orphans import kill_orphans
from ..effects.signals import watch_signals
from ..errors import EvrunError, Stopped, UsageFault, leaf
from ..journal import Journal
from .assembly import Opened, assembled
from .config import TrainingConfig
from .config_file import config_from_record
from .means import Means
from .opening import Prepared, changed, check_name_is_free, first_events, prepare, reach, run_directory
from .replacing import put_aside, remove_unbegun, standing_above
from .restoring import bring_up, restored, training_counts
from .starting import Start, starting_point

DISABLE = "disable"
GRACE_S = 30.0
"""So long calls in flight may take after the run was told to end."""
VIEW_INTERVAL_S = 0.5


class Goal(Protocol):
    """What a session is for."""

    trains: bool

    async def work(self, means: Means) -> None:
        """Work until it is reached, or the run is told to end."""

    async def capped(self, means: Means, cap: str) -> None:
        """What is done when a cap has stopped the work, out of what is kept back for it."""


class Told(NamedTuple):
    """How a session is to be."""

    config: TrainingConfig
    environment: Mapping[str, str]
    ui: Ui
    accept_changes: bool


async def run_session(told: Told, goal: Goal, switch: Switch | None) -> Result:
    """Open the run, work towards the goal, and close the session.

    With a `switch` that is how it is told to end, and signals are left to whoever has them.

    Raises:
        UsageFault: refused; nothing was spent and nothing was changed.
        Stopped: a signal came before anything was changed.
        LogLocked, LogRefused: the log is in use, or not whole.
    """
    session = Session(told, goal)
    try:
        async with anyio.create_task_group() as group:
            if switch is None:
                await group.start(watch_signals, session.interrupted, session.leave)
            else:
                switch.connect(lambda: session.interrupted(signal.SIGINT))
            result = await session.run()
            group.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        raise leaf(error) from error
    return result


class Session:
    """A process at work on a training run."""

    def __init__(self, told: Told, goal: Goal) -> None:
        self._told = told
        self._goal = goal
        self._control = Control()
        self._began = monotonic()
        self._before_ns = 0
        self._marker: str | None = None
        self._start: Start | None = None
        self._directory = run_directory(told.config)

    def interrupted(self, number: int) -> None:
        """The first signal came."""
        self._told.ui.note(
            "stopping: calls in flight finish, nothing new starts (once more to leave at once)"
        )
        ending = Ending("interrupted", 128 + number, f"ended by {signal.Signals(number).name}")
        self._control.stop(ending)

    def leave(self) -> None:
        """Before leaving at once: nothing of ours may live on."""
        if self._marker is not None:
            kill_orphans(self._marker)

    async def run(self) -> Result:
        """Open, work, close."""
        config = self._told.config
        prepared = await to_thread.run_sync(prepare, config, self._told.environment)
        there = log_exists(self._directory / "log")
        if there and self._goal.trains and config.trainer.resume_mode == DISABLE:
            # What it may start from can be a version of the run that is put aside.
            self._start = await to_thread.run_sync(self._starting_point, prepared)
            await to_thread.run_sync(put_aside, config, self._told.ui.note)
            there = False
        if not there:
            await to_thread.run_sync(check_name_is_free, config)
        above = standing_above(self._directory)
        try:
            with closing(await self._open_writer()) as writer:
                return await self._with_log(writer, prepared)
        finally:
            remove_unbegun(self._directory, above)

    async def _open_writer(self) -> LogWriter:
        return await to_thread.run_sync(batch_opening.open_writer, self._directory, self._told.ui.note)

    async def _with_log(self, writer: LogWriter, prepared: Prepared) -> Result:
        self._marker = writer.log_id.hex()
        await to_thread.run_sync(kill_orphans, self._marker)
        views = await to_thread.run_sync(open_training_views, self._directory, writer.reader())
        self._before_ns = sum(session.worked_ns for session in views.state.batch.sessions)
        commits = await to_thread.run_sync(self._beginning, writer, views, prepared)
        journal = Journal(writer, views, self._told.ui.see)
        session = Opened(writer, views, journal, self._marker, self._control, self._active_ns)
        try:
            async with assembled(prepared, self._told.environment, session, self._told.ui) as means:
                self._go_on()
                for events in commits:
                    await journal.record(*events)
                await to_thread.run_sync(restored, means)
                await self._work(means)
        except (AppendError, EvrunError, BaseExceptionGroup) as error:
            if not journal.has_written:
                raise
            self._control.fail_by(error)
        await self._close(journal, views)
        return self._result(writer, views.state)

    def _beginning(self, writer: LogWriter, views: TrainingViews, prepared: Prepared) -> list[list[Event]]:
        """What this session writes before it works.

        Raises:
            UsageFault: refused.
        """
        config, state = self._told.config, views.state
        if state.sequence == 0:
            start = self._start or self._starting_point(prepared)
            short = reach(prepared) if self._goal.trains else None
            if short is not None:
                self._told.ui.note(short)
            return first_events(prepared, writer.epoch, start)
        if not state.is_training:
            hint = "choose another trainer.run_name"
            raise UsageFault(f"{self._directory} holds a run of prompts", hint=hint)
        if self._goal.trains and state.batch.finished_ns is not None:
            bring_up(views, writer.reader(), config)
            raise UsageFault(
                f"{self._directory} holds a run that is finished",
                hint="choose another trainer.run_name; or trainer.resume_mode=disable, which puts it aside",
            )
        recorded = config_from_record(state.batch.settings)
        change = changed(prepared, recorded, state.training, accept=self._told.accept_changes)
        opened = batch_opening.opened(writer.epoch, os.getpid())
        recapped = batch_opening.recapped(state.ledger.caps, prepared.caps)
        first = [opened, *([change] if change else []), *recapped]
        return [[*first, *batch_opening.orphaned(state.ledger)]]

    def _starting_point(self, prepared: Prepared) -> Start:
        config = self._told.config
        return starting_point(Path(config.trainer.tree_dir), prepared.template, config.start_from)

    async def _work(self, means: Means) -> None:
        """Work towards the goal; where a cap has stopped that, what is done out of its reserve."""
        await self._phase(means, self._goal.work(means))
        ending, exhausted = self._control.ending, means.run_state.batch.exhausted
        if ending is None or ending.state != "paused" or exhausted is None:
            return
        self._control.reopen()
        try:
            await self._phase(means, self._goal.capped(means, exhausted.cap))
        finally:
            self._control.stop(ending)

    async def _phase(self, means: Means, work: Awaitable[None]) -> None:
        """Do it; once it is told to end, calls in flight have a bounded time."""
        async with anyio.create_task_group() as others:
            others.start_soon(self._keep_views, means)
            with anyio.CancelScope() as scope:
                others.start_soon(self._end_in_time, scope)
                await work
            others.cancel_scope.cancel()

    async def _end_in_time(self, scope: anyio.CancelScope) -> None:
        await self._control.stopped()
        await anyio.sleep(GRACE_S)
        scope.cancel()

    async def _keep_views(self, means: Means) -> None:
        """Keep the files that people look at close to the log, and show how far it is."""
        while True:
            await anyio.sleep(VIEW_INTERVAL_S)
            means.views.refresh(monotonic)
            self._told.ui.progress(means.run_state)

    def _active_ns(self) -> int:
        return self._before_ns + round((monotonic() - self._began) * 1e9)

    def _go_on(self) -> None:
        ending = self._control.ending
        if ending is not None:
            raise Stopped(f"{ending.reason} before anything was changed", ending.exit_code)

    async def _close(self, journal: Journal, views: TrainingViews) -> None:
        """Write the session's end, if the log takes it, and the views."""
        ending, state = self._control.ending, views.state
        events: list[Event] = []
        if ending is None and self._goal.trains:
            events.append(RunFinished(training_counts(state.training)))
        name, reason = ("finished", None) if ending is None else (ending.state, ending.reason)
        if ending is None and not self._goal.trains and state.batch.finished_ns is None:
            name, reason = "interrupted", "training is not done"
        active_ns = round((monotonic() - self._began) * 1e9)
        try:
            await journal.record(*events, SessionClosed(journal.session, name, reason, active_ns))
        except (AppendError, EvrunError) as error:
            self._control.fail_by(error)
        try:
            await to_thread.run_sync(views.finish)
        except OSError as error:
            # The log is the truth and it is whole; a full disk must not hide why the run ended.
            self._told.ui.note(f"views could not be written: {error}; `evrun replay` makes them again")

    def _result(self, writer: LogWriter, state: RunState) -> Result:
        ending, chain = self._control.ending, writer.durable.chain
        if ending is not None:
            return Result(state, ending.state, ending.exit_code, ending.reason, chain)
        return Result(state, "done", 3 if self._missing(state) else 0, None, chain)

    def _missing(self, state: RunState) -> bool:
        """Whether some task of the session's goal has no score."""
        training = state.training
        if self._goal.trains:
            return any(record.rollouts.errors for record in training.steps)
        newest = training.evaluations[max(training.evaluations)]
        return any(rollout.score is None for rollout in newest.rollouts.values())
