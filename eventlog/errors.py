"""Every error the event log can raise, as one tree.

::

    EventLogError
    ├── LogRefused                 the log cannot be opened for writing; nothing was changed
    │   ├── LogLost                durable events are gone or altered (W > end)
    │   ├── LogUnreadable          a read failed, so nothing can be said about the bytes
    │   ├── LogUnsupported         a format version or feature flag this program does not know
    │   └── LogTampered            an anchor kept elsewhere disagrees with the log
    ├── LogLocked                  another process holds the log
    ├── AppendError                an append did not succeed
    │   ├── NotWritten             certainly absent; the handle stays usable (a full disk, for instance)
    │   ├── OutcomeUnknown         perhaps there, perhaps not; the handle is poisoned for good
    │   └── LogClosed              certainly absent: the handle was closed, poisoned or fenced before
    ├── NotCompressed              a segment stays plain; nothing is lost, and it can be tried again
    ├── EventTooLarge              one commit may hold 256 MiB; nothing was written
    └── EventError                 bytes that are not an event this program knows
        ├── UnknownEvent           a type, or a version of a type, from a newer evrun
        └── MalformedEvent         bytes that are no event at all

A message says what, where, what was found, what was expected, and what to do.
"""

from dataclasses import dataclass


class EventLogError(Exception):
    """The root of all errors of the event log."""


@dataclass(frozen=True)
class Problem:
    """Where and how a log is not what durable evidence promises.

    `segment` is a file name, `offset_bytes` a place in it; sequences are event numbers (0: none).
    """

    segment: str
    offset_bytes: int
    last_good_sequence: int
    promised_sequence: int
    what: str


class LogRefused(EventLogError):
    """The log cannot be opened for writing; nothing was changed."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class LogLost(LogRefused):
    """Durable events are gone or altered."""


class LogUnreadable(LogRefused):
    """A read failed; never taken for the end of the log."""


class LogUnsupported(LogRefused):
    """A format version or a feature flag that this program does not know; not damage."""


class LogTampered(LogRefused):
    """A digest kept elsewhere disagrees with the log."""


class LogLocked(EventLogError):
    """Another process holds the log.

    `holder` is what that process wrote about itself: pid, host, started_at, session (whatever is known).
    """

    def __init__(self, message: str, holder: dict[str, str]) -> None:
        super().__init__(message)
        self.holder = holder


class AppendError(EventLogError):
    """An append did not succeed."""


class NotWritten(AppendError):
    """The events are certainly absent and the handle stays usable."""


class OutcomeUnknown(AppendError):
    """The events may or may not be there; the handle is poisoned and every later append is refused."""


class LogClosed(AppendError):
    """The handle was closed, poisoned or fenced earlier; the events are certainly absent."""


class EventTooLarge(EventLogError):
    """One commit may hold at most 256 MiB of events; nothing was written."""


class NotCompressed(EventLogError):
    """A segment could not be compressed, or its plain file not be removed; nothing is lost."""


class EventError(EventLogError):
    """Bytes that are not an event this program knows."""


class UnknownEvent(EventError):
    """A type, or a version of a type, that a newer evrun wrote: upgrade to read it."""


class MalformedEvent(EventError):
    """Bytes that are no event."""
