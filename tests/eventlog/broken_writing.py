"""The rules of writing, each broken on purpose; see `broken`."""

from eventlog.storage import appender, framing, scan
from eventlog.storage.appender import Appender, SyncFailed
from eventlog.storage.format import FRAME_FIELDS, FRAME_HEADER_BYTES, SEAL_BYTES, U64, padded
from eventlog.storage.queue import CommitQueue

from .breaking import NoDirectorySync, RenameFirst, rule, with_disk


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
