"""Contents that a training run's log holds, looked up when they are needed: no state has to hold them."""

from collections import OrderedDict
from typing import TypeVar

from eventlog.errors import MalformedEvent
from eventlog.events import (
    BlobStored,
    EvaluationAttemptJudged,
    Event,
    EvolverReturned,
    Recorded,
    RolloutFinished,
    RolloutJudged,
    StepCommitted,
    StepStarted,
    decode_event,
)

from .load import Log
from .training import TrainingState

_Kind = TypeVar("_Kind", bound=Event)
_ENTRY_BYTES = 512
"""About what an event takes beside the bytes in it."""


class Contents:
    """Gives events by their sequence, and files' contents by their digest.

    Those that were shown to `keep` last stay in memory, up to `keep_bytes`: a step's files are made of events
    that have just happened.
    """

    def __init__(self, log: Log, training: TrainingState, keep_bytes: int = 4 << 20) -> None:
        self._log = log
        self._training = training
        self._keep_bytes = keep_bytes
        self._kept: OrderedDict[int, tuple[Event, int]] = OrderedDict()
        self._held_bytes = 0

    def keep(self, record: Recorded) -> None:
        """This event may soon be asked for."""
        size = _size_of(record.event)
        if size is None or size > self._keep_bytes:
            return
        self._kept[record.sequence] = record.event, size
        self._held_bytes += size
        while self._held_bytes > self._keep_bytes:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._held_bytes -= dropped

    def event(self, sequence: int, kind: type[_Kind]) -> _Kind:
        """The event with this sequence, which is of this kind.

        Raises:
            EventLogError: the log cannot be read, or is not the one that the state is from.
        """
        kept = self._kept.get(sequence)
        event = self._read(sequence) if kept is None else kept[0]
        if not isinstance(event, kind):
            found = type(event).__name__
            raise MalformedEvent(f"sequence {sequence}: expected {kind.__name__}, found {found}")
        return event

    def blob(self, digest: bytes) -> bytes:
        """The content with this digest. Errors as `event`."""
        sequence = self._training.blobs.get(digest)
        if sequence is None:
            raise MalformedEvent(f"the log holds no content with the digest {digest.hex()}")
        return self.event(sequence, BlobStored).data

    def blob_or_null(self, digest: bytes) -> bytes | None:
        """As `blob`; null where the log does not hold it."""
        return self.blob(digest) if digest in self._training.blobs else None

    def _read(self, sequence: int) -> Event:
        if sequence > self._log.end.sequence:
            self._log.refresh()
        return decode_event(self._log.read_one(sequence).payload)


def _size_of(event: Event) -> int | None:
    """About how many bytes an event takes; null for one that no view looks up."""
    match event:
        case BlobStored(data=data):
            return len(data) + _ENTRY_BYTES
        case RolloutFinished():
            values = event.output, event.messages, event.extra
            return _ENTRY_BYTES * (1 + len(event.files)) + sum(len(one or b"") for one in values)
        case RolloutJudged() | EvaluationAttemptJudged():
            return _ENTRY_BYTES + len(event.extra or b"") + len(event.feedback or "")
        case EvolverReturned():
            trees = event.adapter, event.state, event.output
            return _ENTRY_BYTES * (1 + sum(len(one or []) for one in trees)) + len(event.extra or b"")
        case StepCommitted():
            return _ENTRY_BYTES * (1 + len(event.state) + sum(len(one.files) for one in event.commits))
        case StepStarted():
            return _ENTRY_BYTES * (1 + len(event.tasks))
        case _:
            return None
