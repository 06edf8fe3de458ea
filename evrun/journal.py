"""The journal: events go into the log here, and come back out of it, durable, into the folds and views.

Events are folded only once they are durable, in the order of the log, on the event loop's thread: so no
state and no file ever shows what a crash could undo.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from eventlog.events import Event, Recorded, decode_event, encode_event
from eventlog.storage import LogWriter, Ticket
from projections import RunState

from .errors import RunFailed


class Folded(Protocol):
    """Where durable events go: into the run's state, and into its views."""

    @property
    def state(self) -> RunState:
        """What the events so far add up to."""

    def apply(self, record: Recorded) -> None:
        """Fold one more; one that was folded before changes nothing."""


class Journal:
    """The one way by which the acting side writes.

    `state` is what the durable events say, `has_written` whether anything was handed over. `see` (if any) is
    shown each event after it was folded. Must be used on one running event loop.
    """

    def __init__(
        self, writer: LogWriter, views: Folded, see: Callable[[Recorded], None] | None = None
    ) -> None:
        self._writer = writer
        self._views = views
        self._see = see
        self._watchers: list[Callable[[Recorded], None]] = []
        self._broken: Exception | None = None
        self.has_written = False

    @property
    def state(self) -> RunState:
        """What the durable events of this run say."""
        return self._views.state

    @property
    def session(self) -> int:
        """The number of this session."""
        return self._writer.epoch

    def watch(self, watcher: Callable[[Recorded], None]) -> None:
        """Have `watcher` called with each event, once it is durable and folded."""
        self._watchers.append(watcher)

    def record(self, *events: Event) -> Ticket:
        """Hand events over as one commit; await what comes back to know them durable and folded.

        Nothing can come between the call and the queue. Awaiting raises `NotWritten` where the events are
        certainly absent (a full disk; the journal stays usable) and `OutcomeUnknown` where they are perhaps
        there, after which nothing can be written any more.

        Raises:
            EventTooLarge, LogClosed: nothing was queued.
            RunFailed: a fold or view failed before; the log is whole.
        """
        self._check()
        return self._writer.submit_async(
            [encode_event(event) for event in events], on_durable=lambda ticket: self._fold(ticket, events)
        )

    def record_encoded(self, payloads: Sequence[bytes]) -> Ticket:
        """As `record`, of events that are too many to be held: they are made anew from their bytes."""
        self._check()
        return self._writer.submit_async(
            payloads, on_durable=lambda ticket: self._fold(ticket, map(decode_event, ticket.payloads))
        )

    def _check(self) -> None:
        if self._broken is not None:
            raise RunFailed(f"a view or fold failed: {self._broken!r}") from self._broken
        self.has_written = True

    def _fold(self, ticket: Ticket, events: Iterable[Event]) -> None:
        try:
            for sequence, event in enumerate(events, ticket.first_sequence):
                record = Recorded(sequence, ticket.time_ns, self._writer.epoch, event)
                self._views.apply(record)
                for watcher in self._watchers:
                    watcher(record)
                if self._see is not None:
                    self._see(record)
        except Exception as error:  # noqa: BLE001 (kept, and raised to whoever writes next: the log is safe)
            self._broken = self._broken or error
