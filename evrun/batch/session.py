"""One session on a batch run: what somebody typed, checked against what is there, becomes a first commit."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path

import anyio
from anyio import to_thread

from eventlog.events import Event, SettingsChanged
from eventlog.storage import LogWriter
from projections import BatchState, RowSource, Snapshots, Views, open_views

from ..caps import caps_now
from ..effects.memory import suit_many_small_objects
from ..effects.signals import watch_signals
from ..errors import Stopped, UsageFault, leaf
from ..executors import Cluster
from ..tools import Prepared, Toolbox
from . import opening
from .comparison import Comparison
from .control import Control, Ending, Switch
from .endpoint import check_caps_hold, check_endpoint, choose_model, price_of
from .judge_setting import check_judge
from .options import Options, check_run_name, resolve
from .plan import Scan
from .quality import rules_of
from .settings import Settings, settings_from_record
from .tool_sources import prepare_tools, same_tools, toolsets_left_out
from .work import Beginning, Result, Ui, Work

Connect = Callable[[Settings], Awaitable[Cluster | None]]
"""Connects to the cluster that settings ask for; null where they ask for none."""


async def run_batch(
    options: Options,
    environment: Mapping[str, str],
    ui: Ui,
    switch: Switch | None = None,
    *,
    connect: Connect | None = None,
) -> Result:
    """Begin or continue a batch run, and work until it is done or told to end.

    With a `switch` that is how it is told, and signals are left to whoever has them; else signals tell it.
    `connect` gives the cluster that the settings ask for, where it is not the usual one.

    Raises:
        UsageFault: refused; nothing was spent and nothing was changed.
        Stopped: a signal came before anything was changed.
        LogLocked, LogRefused: the log is in use, or not whole.
    """
    check_run_name(options.run_name)
    there = opening.check_name_is_free(options)
    session = _Session(options, environment, ui, connect)
    try:
        async with anyio.create_task_group() as group:
            if switch is None:
                await group.start(watch_signals, session.interrupted, session.leave)
            else:
                switch.connect(lambda: session.interrupted(signal.SIGINT))
            result = await (session.resume() if there else session.begin())
            group.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        raise leaf(error) from error
    finally:
        await session.leave_cluster()
    return result


def run_batch_sync(options: Options, environment: Mapping[str, str], ui: Ui) -> Result:
    """`run_batch` for a process that does nothing else, and whose memory may be managed for it."""
    suit_many_small_objects()
    return anyio.run(run_batch, options, environment, ui)


class _Session:
    def __init__(
        self, options: Options, environment: Mapping[str, str], ui: Ui, connect: Connect | None
    ) -> None:
        self._connect = connect
        self._options = options
        self._environment = environment
        self._ui = ui
        self._control = Control()
        self._work = Work(options, environment, ui, self._control)

    def interrupted(self, number: int) -> None:
        """The first signal came."""
        self._ui.note("stopping: calls in flight finish, nothing new starts (once more to leave at once)")
        self._control.stop(Ending("interrupted", 128 + number, f"ended by {signal.Signals(number).name}"))

    def leave(self) -> None:
        """Before leaving at once: no tool of ours may live on."""
        self._work.kill_tools()

    async def begin(self) -> Result:
        """Begin a new run."""
        options = self._options
        assert options.dataset is not None
        settings = resolve(options, None, self._environment)
        scanned = await self._scan(options.dataset, settings)
        settings = await choose_model(opening.with_model_of(scanned, settings), self._environment)
        check_endpoint(settings, self._environment)
        await to_thread.run_sync(check_judge, settings)
        caps = caps_now({}, options.caps)
        await self._check_caps(caps, settings)
        prepared = await prepare_tools(settings, self._environment)
        await self._join_cluster(settings)
        self._go_on()
        with closing(await self._open_writer()) as writer:
            views = await to_thread.run_sync(self._open_views, writer)
            if views.state.sequence > 0:
                # Somebody was quicker: the name was free when it was looked at, before the lock was taken.
                opening.refuse_used_name(options)
            async with self._work.tools(writer, prepared) as toolbox:
                self._go_on()
                first: list[Event] = [
                    opening.started(options, settings, scanned, toolbox),
                    opening.opened(writer.epoch, os.getpid()),
                    *opening.recapped({}, caps),
                ]
                self._say_left_out(settings, prepared, toolbox)
                further = opening.first_plan(options.dataset, settings, scanned)
                del scanned  # it goes when the plan is made, not when the run ends
                return await self._work.run(writer, views, settings, Beginning(first, (), further), toolbox)

    async def resume(self) -> Result:
        """Go on with a run."""
        options = self._options
        with closing(await self._open_writer()) as writer:
            views = await to_thread.run_sync(self._open_views, writer)
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
        # A run that was imported may not know its model.
        settings = await choose_model(resolve(self._options, recorded, self._environment), self._environment)
        rows = RowSource(writer.reader())
        await to_thread.run_sync(
            opening.check_plan_options, self._options, recorded, settings, state.batch, rows
        )
        # All that this resume intends is one commit, so that a crash leaves all of it or nothing.
        caps = caps_now(state.ledger.caps, self._options.caps)
        first: list[Event] = opening.recapped(state.ledger.caps, caps)
        first += opening.orphaned(state.ledger)
        more: Iterable[Event] = ()
        further: Iterable[Event] = ()
        new_rows = False
        if self._options.dataset is not None or not state.batch.plan_complete:
            path = self._options.dataset or Path(settings.dataset)
            scanned = await self._scan(path, settings)
            compared = await to_thread.run_sync(opening.comparison, scanned, state.batch, settings)
            new_rows = bool(compared.new)
            self._say_compared(compared)
            more = opening.replanned(state.batch, compared)
            further = opening.further_plan(path, settings, state.batch, scanned, compared)
            del scanned, compared  # they go when the plan is made, not when the run ends
        if rules_of(recorded) != rules_of(settings):
            more = chain(more, opening.rejudged(writer.reader(), state.batch, settings))
        prepared = None
        if new_rows or self._work.left(state):
            check_endpoint(settings, self._environment)
            await to_thread.run_sync(check_judge, settings)
            await self._check_caps(caps, settings)
            await self._join_cluster(settings)
        if new_rows or self._work.left(state) or not same_tools(recorded, settings):
            prepared = await prepare_tools(settings, self._environment)
        async with self._work.tools(writer, prepared, state.batch.toolsets) as toolbox:
            self._go_on()
            change = opening.changed(state.batch, settings, toolbox)
            self._say_changes(change)
            self._say_unjudged(recorded, settings, state.batch)
            opened = opening.opened(writer.epoch, os.getpid())
            first = [opened, *([change] if change else []), *first]
            return await self._work.run(writer, views, settings, Beginning(first, more, further), toolbox)

    async def leave_cluster(self) -> None:
        """Nothing more is to be done there."""
        if self._work.cluster is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._work.cluster.close)

    async def _join_cluster(self, settings: Settings) -> None:
        """Connect to the cluster that is asked for, if one is, before anything is written."""
        if self._connect is None:
            from ..executors.opening import connect  # noqa: PLC0415 (it is built on this package)

            self._connect = connect
        self._work.cluster = await self._connect(settings)

    async def _check_caps(self, caps: Mapping[str, int], settings: Settings) -> None:
        """Refuse what no cap could hold. The table of prices is read in a thread: it takes a while."""
        if caps:
            price = await to_thread.run_sync(price_of, settings)
            check_caps_hold(caps, settings, price)

    async def _scan(self, path: Path, settings: Settings) -> Scan:
        return await to_thread.run_sync(
            partial(opening.scan_dataset, path, settings, skip_bad_rows=settings.skip_bad_rows)
        )

    async def _open_writer(self) -> LogWriter:
        return await to_thread.run_sync(opening.open_writer, self._options.directory, self._ui.note)

    def _open_views(self, writer: LogWriter) -> Views:
        directory = self._options.directory
        return open_views(directory, writer.reader(), Snapshots(directory / "log"))

    def _go_on(self) -> None:
        ending = self._control.ending
        if ending is not None:
            raise Stopped(f"{ending.reason} before anything was changed", ending.exit_code)

    def _say_left_out(self, settings: Settings, prepared: Prepared, toolbox: Toolbox) -> None:
        missing = toolsets_left_out(settings, toolbox)
        if missing:
            self._ui.note(f"distribution {settings.distribution}: evrun does not have {', '.join(missing)}")
        if prepared.unused:
            self._ui.note(f"not offered, because --toolsets does not name it: {', '.join(prepared.unused)}")

    def _say_compared(self, compared: Comparison) -> None:
        if not compared.new and not compared.gone:
            return
        rows = f"dataset: {compared.known} rows known, {compared.rows_new} new, {compared.rows_gone} gone"
        more = len(compared.new) - compared.rows_new
        self._ui.note(f"{rows}; {more} known ones have more samples, or are back" if more else rows)

    def _say_unjudged(self, recorded: Settings, settings: Settings, batch: BatchState) -> None:
        """A judge looks at what ends from now on, and at nothing else."""
        ended = batch.counts["kept"] + batch.counts["discarded"]
        if settings.judge_text is None or settings.judge_text == recorded.judge_text or not ended:
            return
        self._ui.note(
            f"the judge scores what ends from now on; {ended} finished trajectories stay as they are"
        )

    def _say_changes(self, change: SettingsChanged | None) -> None:
        for name, (before, now) in (change.changes if change else {}).items():
            self._ui.note(f"changed against the record: {name} {_short(before)} -> {_short(now)}")
        if change is not None and change.toolsets is not None:
            self._ui.note("changed against the record: what the model is told of its tools")


def _short(value: object, limit: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
