"""The rules of the log, each broken on purpose while a block runs: a test that cannot fail is worth nothing.

A rule is broken by replacing one named function of the product in this process; `negative_controls` says
which property must then fail. The rules of writing are in `broken_writing`.
"""

from msgspec.structs import replace

from eventlog.storage import (
    compaction,
    compactor,
    header,
    lock,
    opening,
    reader,
    recovery,
    scan,
    segment_file,
)
from eventlog.storage.compaction import Compaction
from eventlog.storage.format import FRAME_HEADER_BYTES
from eventlog.storage.lock import Lock
from eventlog.storage.scan import Evidence
from eventlog.storage.segment_file import PlainSegment
from eventlog.storage.source import Source
from eventlog.storage.survey import Survey
from eventlog.storage.twin_reader import Blocks
from projections.materialize import snapshots
from projections.materialize.fingerprint import fingerprint
from projections.unit_table import FrozenOutcomes

from . import broken_writing
from .breaking import RULES, NoDirectorySync, RenameFirst, rule, with_disk

__all__ = ["RULES", "broken_writing"]

# One writer.


@rule("the fence is not looked at")
def _():
    yield Lock, "is_ours", lambda _self: True


@rule("the lock is not taken")
def _():
    yield lock, "_take_lock", unlocked


def unlocked(filesystem, directory):
    """Open LOCK, and believe that it is ours."""
    path = f"{directory}/LOCK"
    return Lock(filesystem, path, filesystem.open(path, 2 | 64))


# Opening and reading.


@rule("no sync when a log is opened")
def _():
    yield opening, "sync_last_segment", lambda _filesystem, _directory: None


@rule("the page cache is believed after a failed sync, by a writer")
def _():
    yield opening, "drop_last_cache", lambda _filesystem, _directory: None


@rule("the page cache is believed after a failed sync, by a reader")
def _():
    yield reader, "drop_last_cache", lambda _filesystem, _directory: None


@rule("a reader is shown what is written, durable or not")
def _():
    yield Survey, "settle", lambda self, *, live: self.settle_at(self.end)


@rule("a second look keeps what the first one found")
def _():
    yield Survey, "resume", lambda self: setattr(self, "end", self.durable)


@rule("a read error is the end of the file")
def _():
    fetch = Source._fetch

    def short(self, offset, length):
        try:
            return fetch(self, offset, length)
        except Exception:  # noqa: BLE001 - that is the broken rule
            return b""

    yield Source, "_fetch", short


@rule("evidence is looked for in the next 2 KiB only")
def _():
    class Near:
        def __init__(self, source):
            self.pieces = lambda offset, stop: source.pieces(offset, min(stop, offset + 2048))

    look = scan.look_behind
    yield segment_file, "look_behind", lambda source, stamp, end: look(Near(source), stamp, end)


@rule("a header of zeros is the end of the log")
def _():
    look = scan.look_behind

    def trusting(source, stamp, end_bytes):
        if source.read(end_bytes, FRAME_HEADER_BYTES).strip(b"\0"):
            return look(source, stamp, end_bytes)
        return Evidence()

    yield segment_file, "look_behind", trusting


@rule("HEAD is not read")
def _():
    yield Survey, "read_head", lambda _self: None


@rule("a body is not verified")
def _():
    yield scan, "body_problem", lambda *_: None


@rule("a file that was cut is not noticed")
def _():
    yield PlainSegment, "cut", lambda _self, _header: None


@rule("where a successor says that its predecessor ended is ignored")
def _():
    yield recovery, "_walk_to", lambda survey, _next_at: survey.walk_last(None) and None


@rule("an unknown version is read all the same")
def _():
    yield header, "_refuse_unknown", lambda *_, whole: None


@rule("an anchor is not compared")
def _():
    yield recovery, "_anchor_problem", lambda _survey, _anchor: None


# Compression.


@rule("a plain segment goes before its twin was decoded")
def _():
    yield Compaction, "_prove", lambda _self, _segment, _end, _temporary: 0


@rule("a twin gets its name before it is durable")
def _():
    yield with_disk(Compaction, RenameFirst)


@rule("no directory sync between the twin's name and the end of the plain segment")
def _():
    yield with_disk(Compaction, NoDirectorySync)


@rule("torn bytes are not put aside")
def _():
    yield Compaction, "_put_aside", lambda _self, _segment, _end: 0


@rule("the blocks of a compressed segment are passed by unread")
def _():
    yield Blocks, "are_sound", lambda _self: True


@rule("a segment that is compressed already is compressed again")
def _():
    # Both ask for the plain name to know whether there is anything to do: a belt, and braces.
    yield compactor, "plain_name", lambda name: name
    yield compaction, "plain_name", lambda name: name


# Views.


# Snapshots.


@rule("a snapshot without fingerprint")
def _():
    fits = snapshots._fits
    ours = fingerprint()

    yield snapshots, "_fits", lambda head, *rest: fits(replace(head, fingerprint=ours), *rest)


@rule("a snapshot is not held against the log's chain")
def _():
    def fits(head, log, end):
        return (head.log_id, head.fingerprint) == (log.log_id, fingerprint()) and head.sequence <= end

    yield snapshots, "_fits", fits


@rule("a snapshot's bytes are believed")
def _():
    yield snapshots, "_is_whole", lambda *_: True


@rule("a view in the order of a set")
def _():
    ended = FrozenOutcomes.ended

    yield FrozenOutcomes, "ended", lambda outcomes: iter(set(ended(outcomes)))
