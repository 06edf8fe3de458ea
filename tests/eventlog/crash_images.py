"""How a log is held against every disk that a crash may leave: one recorded episode, and one examination.

An `Episode` is a run on a forgetful disk that notes, beside every operation of the disk, what had been issued
and what had been acknowledged by then. `examine` opens one image for writing and compares.
"""

import itertools
from pathlib import Path
from random import Random

from eventlog.storage import LogReader, LogWriter
from eventlog.testing import ForgetfulFileSystem

LOG = Path("/run/log")
SEGMENT_BYTES = 8 << 10


def open_log(disk, *, segment_bytes=SEGMENT_BYTES, seed=0):
    """Open the log for writing; clock and random bytes come from the arguments alone."""
    ticks = itertools.count(1_700_000_000_000_000_000, 1_000)
    return LogWriter.open(
        LOG,
        clock_ns=lambda: next(ticks),
        random_bytes=Random(seed).randbytes,
        filesystem=disk,
        first_segment_bytes=segment_bytes,
        largest_segment_bytes=segment_bytes * 4,
    )


def events_in(disk):
    """Read the whole log through a reader of its own; sequences must be dense from 1."""
    reader = LogReader.open(LOG, filesystem=disk)
    records = list(reader.read())
    reader.close()
    assert [record.sequence for record in records] == list(range(1, len(records) + 1))
    return [record.payload for record in records]


class Episode:
    """A run on a disk, and what it was promised when.

    `before` are the events that were in the log, acknowledged, when the episode began.
    """

    def __init__(self, disk, before=()):
        self.disk = disk
        self.start = disk.operations
        self.before = list(before)
        self.issued = []  # (operations of the disk by then, payloads of the commit)
        self.promised = []  # (operations of the disk by then, number of events promised durable)
        self._mark = 0

    def payloads(self, *sizes):
        """Make a commit whose bytes say which it is."""
        self._mark += 1
        return [b"%d.%d|" % (self._mark, size) + Random(self._mark).randbytes(size) for size in sizes]

    def submit(self, writer, *sizes):
        """Issue one commit."""
        commit = self.payloads(*sizes)
        self.issued.append((self.disk.operations, commit))
        return writer.submit(commit)

    def withdraw(self, payloads):
        """Note that a commit is certainly absent: it must not be found, as if it had never been issued."""
        self.issued = [(then, commit) for then, commit in self.issued if commit != list(payloads)]

    def promise(self, count):
        """Note that somebody was told that the first `count` events are durable."""
        self.promised.append((self.disk.operations, count))

    def append(self, writer, *sizes):
        """Issue one commit and wait for it."""
        self.promise(self.submit(writer, *sizes).wait(30))

    def at(self, point):
        """Tell what was surely acknowledged at a moment, which ends of commits are legal, and all events.

        A note made after n operations belongs to the moments from n on. Of what was issued nothing may be
        missed: the first operation after the note may already be the commit's.
        """
        acked = max([len(self.before), *(count for then, count in self.promised if then <= point.operations)])
        events = list(self.before)
        ends = [len(events)]
        for then, commit in self.issued:
            if then < point.operations + point.torn:
                events += commit
                ends.append(len(events))
        return acked, ends, events

    def crash_points(self):
        """Go through the moments of this episode."""
        return self.disk.crash_points(start=self.start)


def examine(image, episode, point, *, go_on):
    """Open an image for writing and hold it against the episode; return the number of events recovered.

    Asserted: it opens; A <= R <= I, at the end of a commit, byte-identical and in order; opening again finds
    the same; and with `go_on` the log takes a further commit that the next opening finds.
    """
    acked, ends, events = episode.at(point)
    writer = open_log(image, seed=1)
    assert writer.found.kind in ("clean", "torn")
    recovered = [record.payload for record in writer.reader().read()]
    assert len(recovered) >= acked, f"lost: {acked} acknowledged, {len(recovered)} recovered"
    assert len(recovered) in ends, f"part of a commit: {len(recovered)} recovered, commits end at {ends}"
    assert recovered == events[: len(recovered)]
    if go_on:
        assert writer.append([b"after the crash"]) == len(recovered) + 1
        recovered.append(b"after the crash")
    writer.close()
    again = open_log(image.after_process_crash(), seed=2)
    assert [record.payload for record in again.reader().read()] == recovered
    assert again.durable.sequence == len(recovered)
    again.close()
    return len(recovered) - go_on


def examine_all(episode, *, limit, seed=1):
    """Examine every crash point of an episode, and up to `limit` power-loss images of each.

    Returns how many disks were examined, and the set of event counts that were recovered.
    """
    rng = Random(seed)
    examined, recovered = 0, set()
    for point in episode.crash_points():
        for image in itertools.chain(
            [point.after_process_crash()], point.images_after_power_loss(limit, rng) if not point.torn else ()
        ):
            recovered.add(examine(image, episode, point, go_on=examined % 5 == 0))
            examined += 1
    return examined, recovered


def new_disk():
    """Give a disk with /run on it, all durable, as a system has its own directories."""
    disk = ForgetfulFileSystem()
    disk.make_directory("/run")
    disk.sync_directory("/")
    return disk
