"""The processes that worked on a run, one after the other."""

from typing import Self

import msgspec

from eventlog.events import Recorded, SessionClosed, SessionOpened


class Session(msgspec.Struct):
    """One process incarnation: what it said about itself, and when it was seen.

    `first_ns` and `last_ns` are the times of its opening and its newest record. `reason` is null while it is
    open, and for ever if it crashed; `active_ns` is measured by the session itself, null for a crashed one.
    """

    number: int
    first_ns: int
    last_ns: int
    pid: int
    host: str
    version: str
    reason: str | None = None
    detail: str | None = None
    active_ns: int | None = None

    @classmethod
    def opened(cls, record: Recorded, event: SessionOpened) -> Self:
        """It introduced itself."""
        return cls(record.session, record.time_ns, record.time_ns, event.pid, event.host, event.version)

    def closed(self, event: SessionClosed) -> None:
        """It ended in order."""
        self.reason, self.detail, self.active_ns = event.reason, event.detail, event.active_ns

    @property
    def worked_ns(self) -> int:
        """For how long it worked, as far as the log can say."""
        return self.last_ns - self.first_ns if self.active_ns is None else self.active_ns
