"""A run of a log on a forgetful disk, recorded: beside every operation, what was promised by then.

`examination` holds such an episode against the disks that a crash may leave::

    episode = Episode(new_disk())
    writer = open_log(episode.disk)
    episode.append(writer, 20)              # a commit of one event of 20 random bytes
    episode.append(writer, 0, 300, 5)       # a commit of three
    writer.close()
    examined = examine_all(episode, limit=50)
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from ..storage import LogWriter, Ticket
from .forgetful import CrashPoint, ForgetfulFileSystem

LOG = Path("/run/log")
"""Where the helpers here keep their log on a simulated disk."""

_SEGMENT_BYTES = 8 << 10  # a header and eight small commits, so that an episode of a few appends rolls
_START_NS = 1_700_000_000_000_000_000
_TICK_NS = 1_000
_PATIENCE_S = 30


def new_disk(disk: ForgetfulFileSystem | None = None) -> ForgetfulFileSystem:
    """Give a disk (this one, if it is to be of a kind) with /run on it, durable, as a system has it."""
    disk = disk or ForgetfulFileSystem()
    disk.make_directory("/run")
    disk.settle()
    return disk


def open_log(
    disk: ForgetfulFileSystem,
    /,
    *,
    seed: int = 0,
    segment_bytes: int = _SEGMENT_BYTES,
    compress_sealed: bool = False,
) -> LogWriter:
    """Open the log for writing; clock and random bytes come from the arguments alone."""
    ticks = itertools.count(_START_NS, _TICK_NS)
    return LogWriter.open(
        LOG,
        clock_ns=lambda: next(ticks),
        random_bytes=Random(seed).randbytes,
        filesystem=disk,
        first_segment_bytes=segment_bytes,
        largest_segment_bytes=segment_bytes * 4,
        compress_sealed=compress_sealed,
    )


class Promises(NamedTuple):
    """What was true at one moment of an episode.

    `acked` events were surely acknowledged; after a crash the log may end at any of `ends`, the ends of whole
    commits, the last being all that was issued; `events` are the events up to there.
    """

    acked: int
    ends: list[int]
    events: list[bytes]


class Episode:
    """A run on a disk, and what it was promised when.

    `before` are the events that were in the log, acknowledged, when the episode began. Payloads are numbered
    from `first_mark`, so that the commits of several episodes of one log differ.
    """

    def __init__(
        self, disk: ForgetfulFileSystem, before: Sequence[bytes] = (), *, first_mark: int = 0
    ) -> None:
        self.disk = disk
        self.start = disk.operations
        self.before = list(before)
        self.issued: list[tuple[int, list[bytes]]] = []  # operations of the disk by then, the commit
        self.promised: list[tuple[int, int]] = []  # operations of the disk by then, events promised durable
        self._mark = first_mark

    def payloads(self, *sizes: int) -> list[bytes]:
        """Make a commit whose bytes say which it is."""
        self._mark += 1
        return [b"%d.%d|" % (self._mark, size) + Random(self._mark).randbytes(size) for size in sizes]

    def submit(self, writer: LogWriter, *sizes: int) -> Ticket:
        """Issue one commit of events of these sizes."""
        return self.submit_payloads(writer, self.payloads(*sizes))

    def submit_payloads(self, writer: LogWriter, payloads: Sequence[bytes]) -> Ticket:
        """Issue one commit of these events."""
        commit = list(payloads)
        self.issued.append((self.disk.operations, commit))
        return writer.submit(commit)

    def withdraw(self, payloads: Sequence[bytes]) -> None:
        """Note that a commit is certainly absent: it must not be found, as if it had never been issued."""
        self.issued = [(then, commit) for then, commit in self.issued if commit != list(payloads)]

    def promise(self, count: int) -> None:
        """Note that somebody was told that the first `count` events are durable."""
        self.promised.append((self.disk.operations, count))

    def append(self, writer: LogWriter, *sizes: int) -> None:
        """Issue one commit and wait for it."""
        self.promise(self.submit(writer, *sizes).wait(_PATIENCE_S))

    def at(self, point: CrashPoint) -> Promises:
        """Tell what was surely acknowledged at a moment, which ends of commits are legal, and all events.

        A note made after n operations belongs to the moments from n on. Of what was issued nothing may be
        missed: the first operation after the note may already be the commit's.
        """
        promised = (count for then, count in self.promised if then <= point.operations)
        events = list(self.before)
        ends = [len(events)]
        for then, commit in self.issued:
            if then < point.operations + point.torn:
                events += commit
                ends.append(len(events))
        return Promises(max([len(self.before), *promised]), ends, events)

    def crash_points(self) -> Iterator[CrashPoint]:
        """Go through the moments of this episode."""
        return self.disk.crash_points(start=self.start)
