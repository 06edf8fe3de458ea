"""The whole state of a run: what happened to its units, and where its money went."""

from eventlog.events import Recorded

from .batch import BatchState
from .conversation import Attempt
from .spend import Ledger
from .training import TrainingState

TRAINING = "training"
"""The kind of a run that trains an adapter; others are "batch"."""


class RunState:
    """The folds side by side; the ledger says whose money moved, and the units take it from there.

    `batch` also knows what is true of any run (`RunFacts`): its settings, sessions, beginning and end.
    """

    def __init__(self) -> None:
        self.batch = BatchState()
        self.training = TrainingState()
        self.ledger = Ledger()

    def apply(self, record: Recorded) -> None:
        """Fold one record. Records come in the order of the log, each once."""
        booking = self.ledger.apply(record)
        self.batch.apply(record)
        training = self.batch.kind == TRAINING
        if training:
            self.training.apply(record, self.ledger)
        if booking is None:
            return
        if training:
            self.training.book(booking, record.event)
        else:
            call = booking.call
            self.batch.book(call.unit, call.attempt, booking.settled_nano_usd, record.event)

    @property
    def is_training(self) -> bool:
        """Whether this is a training run."""
        return self.batch.kind == TRAINING

    def open_attempt(self, unit: str) -> Attempt:
        """The open attempt at a unit, which there must be."""
        return self.training.open[unit] if self.is_training else self.batch.open[unit]

    @property
    def sequence(self) -> int:
        """The sequence of the newest record; 0 before the first."""
        return self.batch.sequence
