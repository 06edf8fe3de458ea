"""The whole state of a run: what happened to its units, and where its money went."""

from eventlog.events import Recorded

from .batch import BatchState
from .spend import Ledger


class RunState:
    """The two folds side by side; the ledger says whose money moved, and the units take it from there."""

    def __init__(self) -> None:
        self.batch = BatchState()
        self.ledger = Ledger()

    def apply(self, record: Recorded) -> None:
        """Fold one record. Records come in the order of the log, each once."""
        booking = self.ledger.apply(record)
        self.batch.apply(record)
        if booking is not None:
            call = booking.call
            self.batch.book(call.unit, call.attempt, booking.settled_nano_usd, record.event)

    @property
    def sequence(self) -> int:
        """The sequence of the newest record; 0 before the first."""
        return self.batch.sequence
