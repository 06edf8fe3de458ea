"""How a log is held against every disk that a crash may leave: one recorded episode, and one examination.

An `Episode` is a run on a forgetful disk that notes, beside every operation of the disk, what had been issued
and what had been acknowledged by then. `examine` opens one image for writing and compares::

    episode = Episode(new_disk())
    writer = open_log(episode.disk)
    episode.append(writer, 20)              # a commit of one event of 20 random bytes
    episode.append(writer, 0, 300, 5)       # a commit of three
    writer.close()
    report = examine_all(episode, limit=50)
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from ..storage import LogReader, LogWriter, Ticket
from .forgetful import CrashPoint, ForgetfulFileSystem

LOG = Path("/run/log")
"""Where the helpers here keep their log on a simulated disk."""

_SEGMENT_BYTES = 8 << 10  # a header and eight small commits, so that an episode of a few appends rolls
_START_NS = 1_700_000_000_000_000_000
_TICK_NS = 1_000
_PATIENCE_S = 30
_GO_ON_EVERY = 5  # of the images of `examine_all`, those that also take a further commit
_LAST_WORD = b"after the crash"


class BrokenPromise(AssertionError):
    """A disk that a crash may leave does not hold what was promised."""


class Opener(Protocol):
    """How an examination opens the log: `open_log`, or something of the same shape with other options."""

    def __call__(self, disk: ForgetfulFileSystem, /, *, seed: int) -> LogWriter:
        """Open the log at `LOG` for writing."""


def new_disk(kind: Callable[[], ForgetfulFileSystem] = ForgetfulFileSystem) -> ForgetfulFileSystem:
    """Give a disk with /run on it, all durable, as a system has its own directories."""
    disk = kind()
    # By the honest methods, so that a kind of disk that leaves a sync out still has its /run.
    ForgetfulFileSystem.make_directory(disk, "/run")
    ForgetfulFileSystem.sync_directory(disk, "/")
    return disk


def open_log(
    disk: ForgetfulFileSystem, /, *, seed: int = 0, segment_bytes: int = _SEGMENT_BYTES
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
    )


def events_in(disk: ForgetfulFileSystem) -> list[bytes]:
    """Read the whole log through a reader of its own; sequences must be dense from 1."""
    with LogReader.open(LOG, filesystem=disk) as reader:
        return _payloads(reader)


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


@dataclass(frozen=True)
class Examined:
    """How many disks were examined, and the numbers of events that were recovered from them."""

    images: int
    recovered: frozenset[int]


def examine(
    image: ForgetfulFileSystem,
    episode: Episode,
    point: CrashPoint,
    *,
    go_on: bool = False,
    opener: Opener = open_log,
) -> int:
    """Open an image for writing and hold it against the episode; return the number of events recovered.

    It opens; A <= R <= I, at the end of a commit, byte-identical and in order; opening again finds the same;
    and with `go_on` the log takes a further commit that the next opening finds. The image is changed by it.

    Raises:
        BrokenPromise: (an AssertionError) acknowledged events are gone, or what is there is not what it was.
        LogRefused: the log does not open, although a crash is all that has happened to it.
    """
    promises = episode.at(point)
    with opener(image, seed=1) as writer:
        if not writer.found.opens:
            raise BrokenPromise(f"opened for writing although it was found {writer.found.kind}")
        recovered = _payloads(writer.reader())
        compare(recovered, promises)
        if go_on:
            if writer.append([_LAST_WORD]) != len(recovered) + 1:
                raise BrokenPromise(f"the next event does not follow event {len(recovered)}")
            recovered.append(_LAST_WORD)
    with opener(image.after_process_crash(), seed=2) as again:
        found = _payloads(again.reader())
        if found != recovered or again.durable.sequence != len(recovered):
            raise BrokenPromise(
                f"opened again it holds {len(found)} events, {again.durable.sequence} of them durable; "
                f"expected the {len(recovered)} that were there"
            )
    return len(recovered) - go_on


def compare(recovered: Sequence[bytes], promises: Promises) -> None:
    """Hold the events that were recovered against what was promised.

    Raises:
        BrokenPromise: with the sentence that says which promise.
    """
    count = len(recovered)
    if count < promises.acked:
        raise BrokenPromise(f"lost: {promises.acked} events were acknowledged, {count} are recovered")
    if count not in promises.ends:
        raise BrokenPromise(f"part of a commit: {count} events recovered, commits end at {promises.ends}")
    if list(recovered) != promises.events[:count]:
        first = next(at for at in range(count) if recovered[at] != promises.events[at])
        raise BrokenPromise(f"other bytes: event {first + 1} is not what was appended")


def examine_all(episode: Episode, *, limit: int, seed: int = 1, opener: Opener = open_log) -> Examined:
    """Examine every crash point of an episode, and up to `limit` power-loss images of each.

    Raises:
        BrokenPromise, LogRefused: as `examine`; a note on the error names crash point, image and seed.
    """
    rng = Random(seed)
    images, recovered = 0, set()
    for point in episode.crash_points():
        for number, image in enumerate(point.images(limit, rng)):
            try:
                found = examine(image, episode, point, go_on=images % _GO_ON_EVERY == 0, opener=opener)
            except Exception as error:
                error.add_note(f"{point}, image {number}, seed {seed}, limit {limit}")
                raise
            recovered.add(found)
            images += 1
    return Examined(images, frozenset(recovered))


def _payloads(reader: LogReader) -> list[bytes]:
    records = list(reader.read())
    if [record.sequence for record in records] != list(range(1, len(records) + 1)):
        raise BrokenPromise("the sequences of the events are not dense from 1")
    return [record.payload for record in records]
