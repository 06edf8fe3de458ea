"""The batch runner: so many workers, one queue of units, one switch to end it."""

from collections.abc import Callable, Iterator

import anyio

from eventlog.errors import NotWritten
from eventlog.events import PromptStarted
from eventlog.storage import Ticket
from projections import RowSource, Views

from ..effects.clock import monotonic
from ..executors import Executor, Lost, Session
from .briefs import Briefs
from .decide import reason_to_supersede, superseded
from .sending import Services
from .settings import Settings

VIEW_INTERVAL_S = 0.5
GRACE_S = 30.0
"""So long calls in flight may take after the run was told to end."""


class BatchRunner:
    """Works on all open and pending units of a run until they are done or the run is told to end."""

    def __init__(
        self,
        services: Services,
        settings: Settings,
        views: Views,
        rows: RowSource,
        executor: Executor,
    ) -> None:
        self._executor = executor
        self._s = services
        self._settings = settings
        self._briefs = Briefs(settings)
        self._views = views
        self._rows = rows
        self._batch = services.journal.state.batch

    async def run(self, units: Iterator[str], watch: Callable[[], None]) -> None:
        """Work on `units` until there are no more or the run is told to end, and calls in flight have ended.

        `units` is gone through while the run goes on, by all workers together. `watch` is called a few times
        a second, to show progress. Errors come as an exception group; one of `eventlog.errors.AppendError`
        means that the log cannot be written.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_views, watch)
            async with anyio.create_task_group() as workers:
                group.start_soon(self._end_in_time, workers.cancel_scope)
                for _ in range(min(self._settings.concurrency, len(self._batch.units))):
                    workers.start_soon(self._worker, units)
            group.cancel_scope.cancel()

    async def _worker(self, queue: Iterator[str]) -> None:
        try:
            await self._take_units(queue)
        except NotWritten as error:
            # A full disk: calls in flight may still finish, and be recorded where there is room again.
            self._s.control.fail(1, f"the log cannot be written: {error}")

    async def _take_units(self, queue: Iterator[str]) -> None:
        behind: Ticket | None = None
        for unit in queue:
            if self._s.control.stopping:
                break
            if behind is not None and self._s.budget.capped:
                # The next unit may have to wait for what this commit frees: it must not be left undecided.
                await behind
            # The end of one unit becomes durable with the beginning of the next, in one sync.
            before, behind = behind, await self._work_on(unit)
            if before is not None:
                await before
        if behind is not None:
            await behind

    async def _work_on(self, unit: str) -> Ticket | None:
        """Work on a unit until its boundary; where whoever works on it is lost, once more."""
        while True:
            session = await self._session(unit)
            try:
                return await self._executor.work_on(session)
            except Lost:
                if self._s.control.stopping:
                    return None

    async def _session(self, unit: str) -> Session:
        """The session that comes next: the attempt that was left open goes on where it can."""
        row = self._rows.row_of(self._batch.units[unit])
        attempt = self._batch.open.get(unit)
        if attempt is not None:
            there = self._executor.directory_there(unit, attempt.attempt)
            brief = self._briefs.brief(unit, row, attempt.toolsets, self._batch.toolsets)
            reason = reason_to_supersede(
                attempt, brief, self._briefs.digest, self._s.tools.safe_to_repeat, directory_there=there
            )
            if reason is None:
                return Session(unit, brief, attempt.attempt, None)
            await self._s.journal.record(superseded(attempt, reason))
        toolsets = self._briefs.drawn(unit, row, self._batch.toolsets)
        brief = self._briefs.brief(unit, row, toolsets, self._batch.toolsets)
        number = self._batch.units[unit].attempt + 1
        return Session(unit, brief, number, PromptStarted(unit, number, toolsets, self._briefs.digest))

    async def _keep_views(self, watch: Callable[[], None]) -> None:
        """Keep the files that people look at close to the log, at a bounded cost."""
        async with anyio.create_task_group() as group:
            while True:
                await anyio.sleep(VIEW_INTERVAL_S)
                work = self._views.begin_refresh(monotonic)
                await _to_its_end(self._views.begin_flush())
                if work is not None:
                    group.start_soon(_to_its_end, work)
                watch()

    async def _end_in_time(self, scope: anyio.CancelScope) -> None:
        """After the run was told to end, give calls in flight a bounded time."""
        await self._s.control.stopped()
        await anyio.sleep(GRACE_S)
        scope.cancel()


async def _to_its_end(work: Callable[[], None]) -> None:
    """Do work on files in a thread; whoever is told to end waits for it."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(work)
