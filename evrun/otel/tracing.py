"""From a run's log to a collector: once, or beside a session that goes on."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

from anyio import to_thread

from eventlog.errors import EventLogError
from eventlog.storage import LogReader
from projections import Span, SpanFold, recorded

from .cursor import read_cursor, write_cursor
from .sending import CollectorDown, Sender, traces_url

SPANS_AT_ONCE = 500
INTERVAL_S = 2.0
LONGEST_WAIT_S = 60.0


class _Reading:
    """Follows a log and sends what has ended since it last looked. For one thread."""

    def __init__(self, directory: Path, sender: Sender) -> None:
        self._directory = directory
        self._sender = sender
        self._reader = LogReader.open(directory / "log")
        self._fold = SpanFold(self._reader.log_id)
        self._sent_to = read_cursor(directory, sender.url)
        self._next = 1
        self._pending: list[Span] = []

    def close(self) -> None:
        """Let go of the log."""
        self._reader.close()

    def send(self) -> int:
        """Send all that has ended; how many spans that was.

        Raises:
            CollectorDown: not all of it was taken; the next call goes on from there.
            EventLogError: the log cannot be read.
        """
        self._reader.refresh()
        sent = 0
        while self._pending or self._next <= self._reader.end.sequence:
            self._fill()
            if self._pending:
                self._sender.send(self._pending)
            sent += len(self._pending)
            self._pending = []
            self._sent_to = max(self._sent_to, self._next - 1)
            write_cursor(self._directory, self._sender.url, self._sent_to)
        return sent

    def _fill(self) -> None:
        for record in recorded(self._reader, self._next, self._reader.end.sequence):
            self._next = record.sequence + 1
            spans = self._fold.apply(record)
            if record.sequence > self._sent_to:
                self._pending += spans
            if len(self._pending) >= SPANS_AT_ONCE:
                return


def send_run(directory: Path, collector: str) -> int:
    """Send the spans of a run that a collector does not have yet; how many that was.

    Raises:
        UsageFault: no address, or OpenTelemetry is not installed.
        CollectorDown: it did not take all of them.
        EventLogError: the log cannot be read.
    """
    sender = Sender(traces_url(collector))
    try:
        with closing(_Reading(directory, sender)) as reading:
            return reading.send()
    finally:
        sender.close()


class LiveTracing:
    """Sends beside a session, in a thread of its own; a collector that is down holds up nothing."""

    def __init__(self, directory: Path, sender: Sender, note: Callable[[str], None]) -> None:
        self._directory = directory
        self._sender = sender
        self._note = note
        self._stop = threading.Event()
        self._down = False
        self._thread = threading.Thread(target=self._run, name="evrun-otel", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Send what is left, once, and end."""
        self._stop.set()
        self._thread.join()
        self._sender.close()

    def _run(self) -> None:
        wait_s = INTERVAL_S
        try:
            with closing(_Reading(self._directory, self._sender)) as reading:
                while True:
                    last = self._stop.wait(wait_s)
                    wait_s = INTERVAL_S if self._try(reading) else min(wait_s * 2, LONGEST_WAIT_S)
                    if last:
                        return
        except (EventLogError, OSError) as error:
            self._note(f"spans are not sent any more: {error}; `evrun otel` sends them later")

    def _try(self, reading: _Reading) -> bool:
        try:
            reading.send()
        except CollectorDown as error:
            if not self._down:
                self._note(f"{error}; the run goes on, and `evrun otel` sends them later")
            self._down = True
            return False
        self._down = False
        return True


@asynccontextmanager
async def live_tracing(
    collector: str | None, directory: Path, note: Callable[[str], None]
) -> AsyncIterator[None]:
    """Send spans to a collector as long as the context, and what is left at its end; null: to nobody."""
    if collector is None:
        yield
        return
    live = LiveTracing(directory, Sender(traces_url(collector)), note)
    try:
        yield
    finally:
        await to_thread.run_sync(live.finish, abandon_on_cancel=True)
