"""The rules of the log, each broken on purpose while a block runs: a test that cannot fail is worth nothing.

A rule is broken by replacing one named function of the product in this process; `negative_controls` says
which property must then fail.
"""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from eventlog.storage import (
    appender,
    compactor,
    framing,
    header,
    lock,
    opening,
    reader,
    recovery,
    scan,
    segment_file,
)
from eventlog.storage.appender import Appender, SyncFailed
from eventlog.storage.compaction import Compaction
from eventlog.storage.format import FRAME_FIELDS, FRAME_HEADER_BYTES, SEAL_BYTES, U64, padded
from eventlog.storage.lock import Lock
from eventlog.storage.queue import CommitQueue
from eventlog.storage.scan import Evidence
from eventlog.storage.segment_file import PlainSegment
from eventlog.storage.source import Source
from eventlog.storage.survey import Survey


class Broken(NamedTuple):
    """One broken rule: what is wrong in a few words, and the block in which it is."""

    name: str
    hook: Callable[[], AbstractContextManager]


RULES: dict[str, Broken] = {}


def rule(name):
    """Note a function that gives (owner, attribute, replacement) triples as the way to break a rule."""

    def note(replacements):
        @contextlib.contextmanager
        def hook():
            with contextlib.ExitStack() as stack:
                for owner, attribute, value in replacements():
                    stack.enter_context(replaced(owner, attribute, value))
                yield

        RULES[name] = Broken(name, hook)
        return replacements

    return note


@contextlib.contextmanager
def replaced(owner, attribute, value):
    """Put something in the place of an attribute while the block runs."""
    before = owner.__dict__[attribute]
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)


class Through:
    """A filesystem through which all calls go to another one, but for those that a subclass defines."""

    def __init__(self, below):
        self.below = below

    def __getattr__(self, name):
        """Pass the call on."""
        return getattr(self.below, name)


class NoDirectorySync(Through):
    """Names are never made durable."""

    def sync_directory(self, path):
        """Do nothing."""


class RenameFirst(Through):
    """A new file gets its name before its content is durable."""

    owed = None

    def fsync(self, fd):
        """Put it off."""
        self.owed = fd

    def rename(self, source, target):
        """Rename, then do what was put off, if that is possible still."""
        self.below.rename(source, target)
        with contextlib.suppress(OSError):
            self.below.fsync(self.owed)


def with_disk(owner, kind):
    """An __init__ that gives its object another filesystem."""
    before = owner.__dict__["__init__"]

    def init(self, filesystem, *args, **options):
        before(self, kind(filesystem), *args, **options)

    return owner, "__init__", init


# Writing.


@rule("no directory sync")
def _():
    yield with_disk(Appender, NoDirectorySync)


@rule("acknowledged before its sync")
def _():
    put, sync = Appender._put, Appender._sync_data

    def put_late(self, frame):
        if getattr(self, "owed", None) == self.fd:
            sync(self, self.fd)
        put(self, frame)

    yield Appender, "_put", put_late
    yield Appender, "_sync_data", lambda self, fd: setattr(self, "owed", fd)


@rule("HEAD before the sync")
def _():
    commit = Appender.commit

    def noting(self, payloads, size_bytes, time_ns):
        needed = padded(FRAME_HEADER_BYTES + size_bytes) + SEAL_BYTES
        if self.fd is None or self.place.offset_bytes + needed > self._stop_bytes:
            self._roll(needed, time_ns)
        _, after = framing.build_commit(self._stamp, self.place, time_ns, payloads)
        committer = self._timed.__self__
        committer._head.write(committer._head_now(after))
        return commit(self, payloads, size_bytes, time_ns)

    yield Appender, "commit", noting


@rule("a failed sync is tried again")
def _():
    def sync(self, call):
        for last in (False, True):
            try:
                return self._timed(call)
            except OSError as error:
                if last:
                    raise SyncFailed(str(error)) from error
        return None

    yield Appender, "_sync", sync


@rule("O_APPEND: the rest of a short write goes to the end of the file")
def _():
    def write_all(filesystem, fd, data, offset):
        done = filesystem.pwrite(fd, data, offset)
        if done < len(data):
            filesystem.pwrite(fd, data, filesystem.size(fd))

    yield appender, "write_fully", write_all


@rule("what a failed write left is not taken back")
def _():
    yield Appender, "_take_back", lambda _self, _size: None


@rule("a commit of many events is many frames")
def _():
    commit = Appender.commit

    def one_by_one(self, payloads, _size, time_ns):
        for payload in payloads:
            place = commit(self, [payload], len(payload), time_ns)
        return place

    yield Appender, "commit", one_by_one


@rule("a segment gets its name before its header is durable")
def _():
    yield with_disk(Appender, RenameFirst)


@rule("the watermark stays 0")
def _():
    build = framing.build_commit

    def build_without(stamp, before, time_ns, payloads):
        frame, after = build(stamp, before, time_ns, payloads)
        fields = frame[: 40 - 8] + bytes(8) + frame[40 : FRAME_FIELDS.size]
        checksum = U64.pack(framing.xxh3_64_intdigest(fields, stamp.salt))
        return fields + checksum + frame[FRAME_HEADER_BYTES:], after

    yield appender, "build_commit", build_without


@rule("frame headers are not salted")
def _():
    pack, parse = framing.pack_header, framing.parse_header
    yield framing, "pack_header", lambda fields, _salt: pack(fields, 0)
    unsalted = lambda data, at, offset, stamp: parse(data, at, offset, stamp._replace(salt=0))  # noqa: E731
    yield scan, "parse_header", unsalted


@rule("a new session writes on in the last segment")
def _():
    init = Appender.__init__

    def go_on(self, filesystem, directory, catalog, *args, **options):
        init(self, filesystem, directory, catalog, *args, **options)
        if catalog.segments:
            last = catalog.segments[-1]
            self.fd = filesystem.open(f"{directory}/{last.name}", 2)
            self._stamp = last.header.stamp
            self._stop_bytes = last.header.allocated_bytes

    yield Appender, "__init__", go_on


@rule("the newest waiting commit is numbered first")
def _():
    take = CommitQueue._take
    yield CommitQueue, "_take", lambda self: take(self)[::-1]


@rule("who waits behind a failed commit is not told")
def _():
    empty = CommitQueue.empty
    yield CommitQueue, "empty", lambda self, refusal: empty(self, refusal)[:0]


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


@rule("a segment that is compressed already is compressed again")
def _():
    # As `offer` asks for the plain name to know whether there is anything to do.
    yield compactor, "plain_name", lambda name: name


# Views.


@rule("a view in the order of a set")
def _():
    from projections.materialize import documents

    render = documents.render_checkpoint

    def unsorted(batch, sequence, chain):
        units = batch.units
        batch.units = {name: units[name] for name in set(units)}
        yield from render(batch, sequence, chain)
        batch.units = units

    yield documents, "render_checkpoint", unsorted
