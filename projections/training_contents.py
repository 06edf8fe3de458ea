"""Contents that a training run's log holds, looked up when they are needed: no state has to hold them."""

from typing import TypeVar

from eventlog.errors import MalformedEvent
from eventlog.events import BlobStored, Event, decode_event

from .load import Log
from .training import TrainingState

_Kind = TypeVar("_Kind", bound=Event)


class Contents:
    """Gives events by their sequence, and files' contents by their digest."""

    def __init__(self, log: Log, training: TrainingState) -> None:
        self._log = log
        self._training = training

    def event(self, sequence: int, kind: type[_Kind]) -> _Kind:
        """The event with this sequence, which is of this kind.

        Raises:
            EventLogError: the log cannot be read, or is not the one that the state is from.
        """
        if sequence > self._log.end.sequence:
            self._log.refresh()
        event = decode_event(self._log.read_one(sequence).payload)
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
