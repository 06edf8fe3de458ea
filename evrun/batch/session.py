"""One session on a batch run, from what somebody typed to the last view."""

import gc
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio

from eventlog.errors import AppendError
from eventlog.events import Event, Recorded, RunFinished, SessionClosed, SettingsChanged
from eventlog.storage import LogWriter
from projections import RowSource, RunState, Views, open_views

from ..effects.clock import monotonic
from ..effects.limiter import Limiter
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor
from ..effects.signals import watch_signals
from ..errors import EvrunError, RunFailed, UsageFault, leaf
from ..journal import Journal
from ..loop import Caller
from ..prices import PriceBook
from . import opening
from .attempt import Services
from .control import Control, Ending
from .endpoint import check_endpoint, choose_model, open_client
from .options import Options, check_run_name, resolve
from .runner import BatchRunner
from .settings import Settings, settings_from_record
from .tool_calls import ToolRunner


class Ui(Protocol):
    """What a session tells a person while it works."""

    def note(self, text: str) -> None:
        """Say one thing, once."""

    def progress(self, state: RunState) -> None:
        """Show how far the run is; called a few times a second."""

    @property
    def see(self) -> Callable[[Recorded], None] | None:
        """Shown each event after it is durable and folded, where not null."""


class Result(NamedTuple):
    """How a session ended: the run's state, its exit code, and why it is not done (null where it is)."""

    state: RunState
    name: str
    exit_code: int
    reason: str | None
    chain: bytes


class Plan(NamedTuple):
    """What a session will do before it works: its first commit, further events, units to try again."""

    first: list[Event]
    further: Iterable[Event]


async def run_batch(options: Options, environment: Mapping[str, str], ui: Ui) -> Result:
    """Begin or continue a batch run, and work until it is done or told to end.

    Raises:
        UsageFault: refused; nothing was spent and nothing was changed.
        RunFailed: it could not go on; what was done is kept.
        LogLocked, LogRefused: the log is in use, or not whole.
    """
    check_run_name(options.run_name)
    there = opening.check_name_is_free(options)
    session = _Session(options, environment, ui)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch_signals, session.interrupted, session.kill_children)
            result = await (session.resume() if there else session.begin())
            group.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        raise leaf(error) from error
    return result


def run_batch_sync(options: Options, environment: Mapping[str, str], ui: Ui) -> Result:
    """`run_batch` for callers without an event loop."""
    # What lives long here is acyclic: the collector would walk every unit again and again for nothing.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    return anyio.run(run_batch, options, environment, ui)


class _Session:
    def __init__(self, options: Options, environment: Mapping[str, str], ui: Ui) -> None:
        self._options = options
        self._environment = environment
        self._ui = ui
        self._control = Control()
        self._began = monotonic()
        self._marker: str | None = None

    def interrupted(self, number: int) -> None:
        """The first signal came."""
        self._ui.note("stopping: calls in flight finish, nothing new starts (once more to leave at once)")
        self._control.stop(Ending("interrupted", 128 + number, f"ended by {signal.Signals(number).name}"))

    def kill_children(self) -> None:
        """Before leaving at once: no tool of ours may live on."""
        if self._marker is not None:
            kill_orphans(self._marker)

    async def begin(self) -> Result:
        """Begin a new run."""
        options = self._options
        assert options.dataset is not None
        settings = resolve(options, None, self._environment)
        scanned = opening.scan_dataset(options.dataset, settings, skip_bad_rows=options.skip_bad_rows)
        settings = await choose_model(settings, self._environment)
        check_endpoint(settings, self._environment)
        with closing(opening.open_writer(options.directory, self._ui.note)) as writer:
            views = open_views(options.directory, writer.reader())
            first: list[Event] = [
                opening.started(options, settings, scanned),
                opening.opened(writer.epoch, os.getpid()),
            ]
            plan = Plan(first, opening.first_plan(options.dataset, settings, scanned))
            missing = opening.toolsets_left_out(settings)
            if missing:
                self._ui.note(
                    f"distribution {settings.distribution}: evrun does not have {', '.join(missing)}"
                )
            return await self._work(writer, views, settings, plan)

    async def resume(self) -> Result:
        """Go on with a run."""
        options = self._options
        with closing(opening.open_writer(options.directory, self._ui.note)) as writer:
            views = open_views(options.directory, writer.reader())
            if views.state.sequence > 0:
                return await self._resume(writer, views)
        # A crash came between the log's first segment and its first event: nothing has happened yet.
        if options.dataset is None:
            raise UsageFault(
                f"{options.directory} holds a run that never began, and no dataset was given",
                hint=f"evrun run DATASET --run-name {options.run_name} --resume",
            )
        return await self.begin()

    async def _resume(self, writer: LogWriter, views: Views) -> Result:
        state = views.state
        recorded = settings_from_record(state.batch.settings)
        settings = resolve(self._options, recorded, self._environment)
        change = opening.changed(state.batch, settings)
        further, new_rows = self._further(writer, state, recorded, settings)
        if new_rows or self._work_left(state):
            check_endpoint(settings, self._environment)
        self._say_changes(change)
        first: list[Event] = [opening.opened(writer.epoch, os.getpid()), *([change] if change else [])]
        first += opening.orphaned(state.ledger)
        return await self._work(writer, views, settings, Plan(first, further))

    def _further(
        self, writer: LogWriter, state: RunState, recorded: Settings, settings: Settings
    ) -> tuple[Iterable[Event], bool]:
        """What a resume adds to the plan and to the verdicts of finished units, and whether rows are new."""
        options, parts, new_rows = self._options, [], False
        if options.dataset is not None or not state.batch.plan_complete:
            path = Path(settings.dataset)
            scanned = opening.scan_dataset(path, settings, skip_bad_rows=options.skip_bad_rows)
            compared = opening.comparison(scanned, state.batch, settings)
            new_rows = bool(compared.new)
            if compared.new or compared.gone:
                new, gone = len(compared.new), len(compared.gone)
                self._ui.note(f"dataset: {compared.known} rows known, {new} new, {gone} gone")
            parts.append(opening.further_plan(path, settings, state.batch, scanned, compared))
        if recorded.require_reasoning != settings.require_reasoning:
            parts.append(opening.rejudged(writer.reader(), state.batch, settings))
        return chain(*parts), new_rows

    def _say_changes(self, change: SettingsChanged | None) -> None:
        for name, (before, now) in (change.changes if change else {}).items():
            self._ui.note(f"changed against the record: {name} {before!r} -> {now!r}")

    async def _work(self, writer: LogWriter, views: Views, settings: Settings, plan: Plan) -> Result:
        journal = Journal(writer, views, self._ui.see)
        try:
            await self._record(journal, plan)
            if self._work_left(views.state):
                await self._run_or_close(journal, writer, views, settings)
            await self._close(journal, views.state)
        except* AppendError as group:
            raise RunFailed(
                f"the log cannot be written: {leaf(group)}",
                hint="what was acknowledged is kept; mend the disk, then go on with --resume",
            ) from group
        finally:
            self._finish(views)
        return self._result(writer, views)

    def _finish(self, views: Views) -> None:
        try:
            views.finish()
        except OSError as error:
            # The log is the truth and it is whole; a full disk must not hide why the run ended.
            self._ui.note(f"views could not be written: {error}; `evrun replay` makes them again")

    async def _record(self, journal: Journal, plan: Plan) -> None:
        await journal.record(*plan.first)
        for event in plan.further:
            if self._control.stopping:
                return
            await journal.record(event)

    def _work_left(self, state: RunState) -> bool:
        counts = state.batch.counts
        again = opening.units_to_retry(state.batch, self._options)
        return not self._control.stopping and bool(counts["open"] or counts["pending"] or again)

    async def _run_or_close(
        self, journal: Journal, writer: LogWriter, views: Views, settings: Settings
    ) -> None:
        try:
            await self._run(journal, writer, views, settings)
        except (EvrunError, BaseExceptionGroup) as error:
            known = leaf(error) if isinstance(error, BaseExceptionGroup) else error
            if isinstance(known, EvrunError):
                self._control.stop(Ending("failed", known.exit_code, str(known)))
                await self._close(journal, views.state)
            raise

    async def _run(self, journal: Journal, writer: LogWriter, views: Views, settings: Settings) -> None:
        self._marker = writer.log_id.hex()
        kill_orphans(self._marker)
        redactor = Redactor.from_environment(self._environment, settings.api_key_env)
        prices = PriceBook(settings.prices, local_free=settings.base_url is None)
        price = prices.price_for(settings.model, settings.base_url)
        async with open_client(settings, self._environment) as client:
            self._ui.note(
                f"model {settings.model} at {settings.base_url or 'a port of its own on this machine'}"
            )
            services = Services(
                journal,
                Caller(journal, client, price, redactor),
                Limiter(),
                self._control,
                ToolRunner(journal, self._options.directory / "work", self._marker, redactor),
                price,
            )
            runner = BatchRunner(services, settings, views, RowSource(writer.reader()))
            again = opening.units_to_retry(views.state.batch, self._options)
            await runner.run(again, lambda: self._ui.progress(views.state))

    async def _close(self, journal: Journal, state: RunState) -> None:
        ending = self._control.ending
        events: list[Event] = []
        if ending is None and state.batch.finished_ns is None:
            events.append(RunFinished(dict(state.batch.counts)))
        name, reason = ("finished", None) if ending is None else (ending.state, ending.reason)
        active_ns = round((monotonic() - self._began) * 1e9)
        await journal.record(*events, SessionClosed(journal.session, name, reason, active_ns))

    def _result(self, writer: LogWriter, views: Views) -> Result:
        ending = self._control.ending
        if ending is not None:
            return Result(views.state, ending.state, ending.exit_code, ending.reason, writer.durable.chain)
        code = 3 if views.state.batch.counts["failed"] else 0
        return Result(views.state, "done", code, None, writer.durable.chain)
