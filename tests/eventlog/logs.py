"""Logs to try things on: opened with a clock and random bytes that repeat, read back whole."""

import itertools
from random import Random

from eventlog.storage import LogReader, LogWriter, RealFileSystem

from .appending_child import payloads

START_NS = 1_700_000_000_000_000_000


class Unsynced(RealFileSystem):
    """The real files without waiting for the disk, for looking at thousands of damaged copies."""

    def fdatasync(self, fd):
        """Do nothing."""

    def fsync(self, fd):
        """Do nothing."""

    def sync_directory(self, path):
        """Do nothing."""


def open_log(directory, **options):
    """Open a log for writing with a counting clock and seeded random bytes; options as in LogWriter.open."""
    ticks = itertools.count(START_NS, 1_000)
    options.setdefault("clock_ns", lambda: next(ticks))
    options.setdefault("random_bytes", Random(len(str(directory))).randbytes)
    options.setdefault("first_segment_bytes", 8 << 10)
    options.setdefault("largest_segment_bytes", 32 << 10)
    return LogWriter.open(directory, **options)


def write_log(directory, *commits, **options):
    """One session: open, append each commit, close."""
    with open_log(directory, **options) as writer:
        for payloads in commits:
            writer.append(payloads)


def payloads_in(directory, **options):
    """Every event of a log, through a reader of its own; sequences must be dense from 1."""
    with LogReader.open(directory, **options) as reader:
        records = list(reader.read())
    assert [record.sequence for record in records] == list(range(1, len(records) + 1))
    return [record.payload for record in records]


def segments_of(directory):
    """The segment files, oldest first."""
    return sorted(directory.glob("*.evl"), key=lambda path: path.name.split("-")[1])


def commits_in(directory):
    """The commits of an `appending_child`'s log by number; each must be whole, byte-identical and alone."""
    rest, found = payloads_in(directory), []
    while rest:
        commit = int(rest[0].split(b"/")[0])
        expected = payloads(commit)
        assert rest[: len(expected)] == expected
        found.append(commit)
        del rest[: len(expected)]
    return found
