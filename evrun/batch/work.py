"""The work of one session: the first commit, the plan, the run, the last commit, the views."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, NamedTuple, Protocol

import anyio
from anyio import to_thread

from eventlog.errors import AppendError
from eventlog.events import Event, Recorded, RunFinished, SessionClosed, SettingsChanged, encode_event
from eventlog.storage import LogWriter
from projections import RowSource, RunState, Views, result_report

from ..budget import Budget, prompt_parts
from ..effects.clock import monotonic
from ..effects.containers import Containers
from ..effects.limiter import Limiter
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor, find_secrets
from ..errors import EvrunError
from ..executors import Cluster
from ..journal import Journal
from ..loop import Caller
from ..otel import live_tracing
from ..tools import Prepared, Toolbox, open_toolbox
from .control import Control
from .endpoint import open_client, price_of
from .headers import secret_variables
from .opening import units_to_retry, units_to_work_on
from .options import Options
from .plan import commits_of
from .runner import BatchRunner
from .sending import Services
from .settings import Settings, in_words
from .tool_calls import ToolPlace, ToolRunner
from .tool_sources import Definitions, remembered_toolbox

SERVERS = ".servers"
"""What the marker of a run's MCP servers ends with: they live as long as the session, and no attempt's end
is theirs."""


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


def report_of(result: Result, options: Options) -> dict[str, Any]:
    """The one object of ``evrun run --json`` about a session that has ended."""
    return result_report(
        result.state,
        run=options.run_name,
        dir=str(options.directory),
        state_name=result.name,
        exit_code=result.exit_code,
        reason=result.reason,
        chain=result.chain.hex(),
    )


class Beginning(NamedTuple):
    """What a session writes before it works: its intent, in one commit, and the plan that follows from it.

    `more` is of the same commit as `first`, and may be so much that it is never held, but for its bytes.
    """

    first: list[Event]
    more: Iterable[Event]
    further: Iterable[Event]


class Work:
    """Works on an opened run. An error of the log, the endpoint or the embedded model ends it as `failed`.

    `cluster` is set where sessions run on one.
    """

    def __init__(self, options: Options, environment: Mapping[str, str], ui: Ui, control: Control) -> None:
        self._options = options
        self._environment = environment
        self._ui = ui
        self._control = control
        self._began = monotonic()
        self._marker: str | None = None
        self._containers: Containers | None = None
        self.cluster: Cluster | None = None

    def left(self, state: RunState) -> bool:
        """Whether there is anything to do."""
        counts = state.batch.counts
        if self._control.stopping:
            return False
        again = units_to_retry(state.batch, self._options)
        return bool(counts["open"] or counts["pending"]) or next(again, None) is not None

    def kill_tools(self) -> None:
        """End all processes that tools of this run have started, also those of earlier sessions."""
        if self._marker is not None:
            kill_orphans(self._marker)
            kill_orphans(f"{self._marker}{SERVERS}")
        if self._containers is not None:
            self._containers.end_all_at_once()

    @asynccontextmanager
    async def tools(
        self, writer: LogWriter, prepared: Prepared | None, remembered: Definitions | None = None
    ) -> AsyncIterator[Toolbox]:
        """The session's tools, open as long as the context; with nothing prepared those that are remembered.

        What earlier sessions have left running is ended first.
        """
        if prepared is None:
            yield remembered_toolbox(remembered or {})
            return
        self._marker = writer.log_id.hex()
        await to_thread.run_sync(self.kill_tools)
        servers = f"{self._marker}{SERVERS}"
        try:
            async with open_toolbox(prepared, self._environment, marker=servers) as toolbox:
                yield toolbox
        finally:
            if prepared.servers:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(kill_orphans, servers)

    async def run(
        self,
        writer: LogWriter,
        views: Views,
        settings: Settings,
        beginning: Beginning,
        toolbox: Toolbox,
    ) -> Result:
        """Do the work, close the session, and write the views."""
        journal = Journal(writer, views, self._ui.see)
        known = views.state.ledger.total.settled_calls > 0 and not _elsewhere(beginning.first)
        try:
            await self._record(journal, beginning)
            if self.left(views.state):
                await self._work(journal, writer, views, settings, toolbox, known=known)
        except (AppendError, EvrunError, BaseExceptionGroup) as error:
            self._control.fail_by(error)
        await self._close(journal, views.state)
        await to_thread.run_sync(self._finish, views)
        return self._result(writer, views)

    async def _record(self, journal: Journal, beginning: Beginning) -> None:
        intent = chain(beginning.first, beginning.more)
        # In a thread: of a large run it takes a while to find all that a resume changes.
        payloads = await to_thread.run_sync(lambda: [encode_event(event) for event in intent])
        await journal.record_encoded(payloads)
        del payloads
        for events in commits_of(beginning.further):
            if self._control.stopping:
                return
            await journal.record(*events)

    async def _work(
        self,
        journal: Journal,
        writer: LogWriter,
        views: Views,
        settings: Settings,
        toolbox: Toolbox,
        *,
        known: bool,
    ) -> None:
        from ..executors.opening import open_executor  # noqa: PLC0415 (it is built on this package)

        assert self._marker is not None
        secrets = find_secrets(self._environment, *secret_variables(settings))
        redactor = Redactor(secrets | toolbox.secrets)
        price = price_of(settings)
        self._containers = Containers(self._marker)
        place = ToolPlace(
            (self._options.directory / "work").resolve(), self._marker, redactor, self._containers
        )
        async with (
            open_client(settings, self._environment) as client,
            live_tracing(settings.otel, self._options.directory, self._ui.note),
        ):
            self._ui.note(f"model {settings.model} at {settings.base_url or 'a port of its own'}")
            self._ui.note(f"settings: {in_words(settings) or 'the defaults'}")
            budget = self._budget(journal, views.state)
            services = Services(
                journal,
                Caller(journal, client, price, redactor, budget, any_success=known),
                Limiter(settings.rpm, settings.tpm),
                self._control,
                ToolRunner(journal, toolbox, place),
                price,
                budget,
            )
            units = units_to_work_on(views.state.batch, self._options)
            try:
                async with open_executor(
                    self.cluster, services, settings, self._environment,
                    marker=self._marker, redactor=redactor, note=self._ui.note,
                ) as executor:  # fmt: skip
                    runner = BatchRunner(services, settings, views, RowSource(writer.reader()), executor)
                    await runner.run(units, lambda: self._ui.progress(views.state))
            finally:
                self._ui.progress(views.state)
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(kill_orphans, self._marker)
                    await self._containers.end_all()

    def _budget(self, journal: Journal, state: RunState) -> Budget:
        before_ns = sum(session.worked_ns for session in state.batch.sessions[:-1])

        def active_ns() -> int:
            return before_ns + round((monotonic() - self._began) * 1e9)

        parts = prompt_parts(state.ledger, state.batch)
        budget = Budget(state.ledger, active_ns, self._ui.note, parts=parts)
        journal.watch(budget.see)
        return budget

    async def _close(self, journal: Journal, state: RunState) -> None:
        """Write the session's end, if the log takes it."""
        ending = self._control.ending
        events: list[Event] = []
        if ending is None and state.batch.finished_ns is None:
            events.append(RunFinished(dict(state.batch.counts)))
        name, reason = ("finished", None) if ending is None else (ending.state, ending.reason)
        active_ns = round((monotonic() - self._began) * 1e9)
        try:
            await journal.record(*events, SessionClosed(journal.session, name, reason, active_ns))
        except (AppendError, EvrunError) as error:
            self._control.fail_by(error)

    def _finish(self, views: Views) -> None:
        try:
            views.finish()
        except OSError as error:
            # The log is the truth and it is whole; a full disk must not hide why the run ended.
            self._ui.note(f"views could not be written: {error}; `evrun replay` makes them again")

    def _result(self, writer: LogWriter, views: Views) -> Result:
        ending, chain = self._control.ending, writer.durable.chain
        if ending is not None:
            return Result(views.state, ending.state, ending.exit_code, ending.reason, chain)
        code = 3 if views.state.batch.counts["failed"] else 0
        return Result(views.state, "done", code, None, chain)


def _elsewhere(first: list[Event]) -> bool:
    """Whether this session asks another endpoint, or with another key, than those before."""
    changes = [event.changes.keys() for event in first if isinstance(event, SettingsChanged)]
    return any(names & {"base_url", "api_key_env", "api", "headers"} for names in changes)
