"""A compressed log is the same log: same events, same chain, same verdicts, on real files."""

import errno
import os
import threading
from random import Random

import pytest

from eventlog.errors import EventLogError, LogLocked, LogLost, LogUnsupported, NotCompressed
from eventlog.storage import LogReader, LogWriter, Position, RealFileSystem, compact, verify
from eventlog.storage.format import BLOCK_BYTES, MEBIBYTE

from .logs import open_log, payloads_in, write_log

TEXTS = (
    "Natalia sold clips to 48 of her friends in April. ",
    "Weng earns $12 an hour. ",
    "Betty saves money. ",
)


def chat(count, seed=1):
    """Commits of one to four events that look like chat: much in common, of many sizes."""
    rng = Random(seed)
    return [
        [
            b'{"role":"user","content":"%d %s"}'
            % (n, "".join(rng.choices(TEXTS, k=rng.randrange(1, 30))).encode())
            for _ in range(rng.randrange(1, 5))
        ]
        for n in range(count)
    ]


def compacted(directory, **options):
    """Compress the log."""
    return compact(directory, random_bytes=os.urandom, **options)


def names_in(directory):
    """The segment files, by number, and everything that is temporary."""
    names = [path.name for path in directory.iterdir() if ".ev" in path.name]
    return sorted(names, key=lambda name: name.split("-")[1])


def anchors_of(directory):
    """Every position where a commit ends."""
    with LogReader.open(directory) as reader:
        found = []
        for sequence in range(1, reader.end.sequence + 1):
            try:
                found.append(Position(sequence, reader.chain_at(sequence)))
            except EventLogError:
                continue
        return found


def test_a_compressed_log_holds_the_same_events_under_the_same_chain(tmp_path):
    """Every record, every chain value, the end and the log's id: before and after."""
    write_log(tmp_path, *chat(300))
    write_log(tmp_path, *chat(20, seed=2))
    with LogReader.open(tmp_path) as reader:
        before = (list(reader.read()), reader.end, reader.log_id)
    anchors = anchors_of(tmp_path)
    done = compacted(tmp_path)
    assert [one.number for one in done] == list(range(1, len(done) + 1))
    assert len(done) > 3
    assert all(name.endswith(".evz") for name in names_in(tmp_path))
    with LogReader.open(tmp_path) as reader:
        assert (list(reader.read()), reader.end, reader.log_id) == before
    assert anchors_of(tmp_path) == anchors
    assert verify(tmp_path, anchor=anchors[len(anchors) // 2]).kind == "clean"


def test_a_compressed_log_is_smaller(tmp_path):
    """What is reported is what the files measure, and it is less than half."""
    write_log(tmp_path, *chat(400))
    before = sum(path.stat().st_size for path in tmp_path.glob("*.evl"))
    done = compacted(tmp_path)
    after = sum(path.stat().st_size for path in tmp_path.glob("*.evz"))
    assert sum(one.before_bytes for one in done) == before
    assert sum(one.after_bytes for one in done) == after < before // 2
    assert verify(tmp_path).size_bytes == after


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_any_range_of_a_compressed_log_reads_as_in_the_plain_one(tmp_path, step):
    """From any event to any other, one, or all: through blocks, across segments."""
    write_log(tmp_path, *chat(200), first_segment_bytes=64 << 10, largest_segment_bytes=MEBIBYTE)
    with LogReader.open(tmp_path) as reader:
        records = list(reader.read())
    compacted(tmp_path)
    with LogReader.open(tmp_path) as reader:
        for first in range(1, len(records), 13):
            assert list(reader.read(first, first + step)) == records[first - 1 : first + step]
        assert reader.read_one(len(records)) == records[-1]


def test_a_writer_goes_on_behind_a_compressed_log(tmp_path):
    """The new segment follows the compressed one; compressing again takes only what is new."""
    write_log(tmp_path, *chat(30))
    compacted(tmp_path)
    held = payloads_in(tmp_path)
    with open_log(tmp_path) as writer:
        assert writer.append([b"further"]) == len(held) + 1
        assert [record.payload for record in writer.reader().read()] == [*held, b"further"]
    assert payloads_in(tmp_path) == [*held, b"further"]
    assert len(compacted(tmp_path)) == 1
    assert compacted(tmp_path) == []
    assert payloads_in(tmp_path) == [*held, b"further"]


def test_torn_bytes_are_put_aside_before_their_segment_goes(tmp_path):
    """What a crash left behind the end lies in torn/, byte for byte, and the log is clean then."""
    write_log(tmp_path, [b"one"])
    (path,) = tmp_path.glob("*.evl")
    end = BLOCK_BYTES + 512
    with path.open("r+b") as file:
        file.seek(end)
        file.write(b"left by a crash" * 100)
    assert verify(tmp_path).kind == "torn"
    (done,) = compacted(tmp_path)
    assert done.torn_bytes == 1500
    assert (tmp_path / "torn" / f"{path.name}.{end}").read_bytes() == b"left by a crash" * 100
    assert verify(tmp_path).kind == "clean"
    assert payloads_in(tmp_path) == [b"one"]


def test_an_empty_log_and_empty_segments_can_be_compressed(tmp_path):
    """A log without a segment gives nothing to do; there is no log in an empty directory."""
    open_log(tmp_path / "log").close()
    assert compacted(tmp_path / "log") == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(EventLogError, match="There is no log"):
        compacted(tmp_path / "empty")
    assert not any((tmp_path / "empty").iterdir())


def test_a_log_that_is_being_written_is_not_compressed(tmp_path):
    """The lock is held by a writer; nothing is changed."""
    with open_log(tmp_path) as writer:
        writer.append([b"one"])
        before = names_in(tmp_path)
        with pytest.raises(LogLocked):
            compacted(tmp_path)
        assert names_in(tmp_path) == before


def test_a_lost_log_is_not_compressed(tmp_path):
    """Compression would make damage look whole; it refuses, and every file stays."""
    write_log(tmp_path, *chat(50))
    path = min(tmp_path.glob("*.evl"))
    data = bytearray(path.read_bytes())
    data[BLOCK_BYTES + 150] ^= 1
    path.write_bytes(data)
    before = names_in(tmp_path)
    with pytest.raises(LogLost):
        compacted(tmp_path)
    assert names_in(tmp_path) == before


def test_a_huge_event_is_a_block_of_its_own(tmp_path):
    """Events larger than a block, beside small ones."""
    big = Random(3).randbytes(3 * MEBIBYTE)
    write_log(tmp_path, [b"a"], [big], [b"b", big, b""], largest_segment_bytes=64 * MEBIBYTE)
    compacted(tmp_path)
    assert payloads_in(tmp_path) == [b"a", big, b"b", big, b""]


def test_tiny_events_get_no_dictionary_and_chat_does(tmp_path):
    """A dictionary is there only where it saves more than it takes."""

    def dictionary_bytes(directory):
        data = max(directory.glob("*.evz")).read_bytes()
        return int.from_bytes(data[BLOCK_BYTES + 72 : BLOCK_BYTES + 80], "little")

    big = {"first_segment_bytes": 16 * MEBIBYTE, "largest_segment_bytes": 16 * MEBIBYTE}
    rng = Random(5)
    write_log(tmp_path / "tiny", *([[rng.randbytes(24) for _ in range(500)] for _ in range(40)]), **big)
    compacted(tmp_path / "tiny")
    assert dictionary_bytes(tmp_path / "tiny") == 0
    shared = [rng.randbytes(1000).hex().encode() for _ in range(40)]
    write_log(
        tmp_path / "chat",
        *([rng.choice(shared) + rng.randbytes(30)] for _ in range(2000)),
        **big,
    )
    compacted(tmp_path / "chat")
    assert dictionary_bytes(tmp_path / "chat") > 0
    assert len(payloads_in(tmp_path / "chat")) == 2000


@pytest.mark.parametrize("whole", ["both", "twin", "plain", "neither"])
def test_of_a_pair_the_twin_wins_if_it_is_whole(tmp_path, whole):
    """After a crash between rename and unlink: either file alone suffices; with both broken it is lost."""
    write_log(tmp_path, *chat(40))
    held = payloads_in(tmp_path)
    plain = {path: path.read_bytes() for path in tmp_path.glob("*.evl")}
    compacted(tmp_path)
    for path, data in plain.items():
        path.write_bytes(data if whole in ("both", "plain") else data[:4200] + b"?" + data[4201:])
        path.chmod(0o600)
        twin = path.with_suffix(".evz")
        stored = bytearray(twin.read_bytes())
        stored[BLOCK_BYTES * 2 + 5] ^= 1
        if whole in ("plain", "neither"):
            twin.write_bytes(stored)
    if whole == "neither":
        assert verify(tmp_path).kind == "lost"
        return
    assert payloads_in(tmp_path) == held
    compacted(tmp_path)
    assert not list(tmp_path.glob("*.evl"))
    assert payloads_in(tmp_path) == held


def test_every_flipped_bit_of_a_compressed_segment_is_lost_never_other_events(tmp_path):
    """Header, summary, blocks, index: one bit each, at every byte; the log refuses."""
    write_log(tmp_path, [b"one", b"two"], [b"three" * 40])
    compacted(tmp_path)
    (path,) = tmp_path.glob("*.evz")
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert verify(tmp_path, filesystem=RealFileSystem()).kind in ("lost", "unsupported"), at
    path.write_bytes(data)
    assert verify(tmp_path).kind == "clean"


def test_every_cut_of_a_compressed_segment_is_lost(tmp_path):
    """A compressed segment knows its size; no cut is taken for the end of the log."""
    write_log(tmp_path, [b"one", b"two"], [b"three" * 40])
    compacted(tmp_path)
    (tmp_path / "HEAD").unlink()
    (path,) = tmp_path.glob("*.evz")
    data = path.read_bytes()
    for size in [*range(0, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:size])
        assert verify(tmp_path).kind == "lost", size


def test_a_plain_segment_under_a_compressed_name_is_damage(tmp_path):
    """The header says what the file is; the name must agree, in both directions."""
    write_log(tmp_path / "a", [b"one"])
    (path,) = (tmp_path / "a").glob("*.evl")
    path.rename(path.with_suffix(".evz"))
    assert verify(tmp_path / "a").kind == "lost"
    write_log(tmp_path / "b", [b"one"])
    compacted(tmp_path / "b")
    (path,) = (tmp_path / "b").glob("*.evz")
    path.rename(path.with_suffix(".evl"))
    assert verify(tmp_path / "b").kind == "lost"


def test_a_compressed_segment_of_a_newer_version_is_unsupported(tmp_path):
    """An unknown version is not corruption."""
    from xxhash import xxh3_64_intdigest

    write_log(tmp_path, [b"one"])
    compacted(tmp_path)
    (path,) = tmp_path.glob("*.evz")
    data = bytearray(path.read_bytes())
    data[BLOCK_BYTES + 8] = 2
    block = bytes(data[BLOCK_BYTES : 2 * BLOCK_BYTES - 8])
    data[2 * BLOCK_BYTES - 8 : 2 * BLOCK_BYTES] = xxh3_64_intdigest(block).to_bytes(8, "little")
    path.write_bytes(data)
    assert verify(tmp_path).kind == "unsupported"
    with pytest.raises(LogUnsupported, match="Upgrade evrun"):
        payloads_in(tmp_path)


class Failing(RealFileSystem):
    """Real files where one call on one kind of file fails, or changes what it writes."""

    def __init__(self, call, number, *, flip=False):
        self.call, self.number, self.flip = call, number, flip
        self.twins = set()

    def open(self, path, flags, mode=0o600):
        """Note the descriptors of temporary twins."""
        fd = super().open(path, flags, mode)
        if ".evz." in path and flags & os.O_CREAT:
            self.twins.add(fd)
        return fd

    def _fail(self, call):
        if call == self.call:
            raise OSError(self.number, os.strerror(self.number))

    def pwrite(self, fd, data, offset):
        """Fail or flip."""
        if fd in self.twins and offset >= 2 * BLOCK_BYTES:
            self._fail("pwrite")
            if self.flip:
                data = bytes(data[:-1]) + bytes([data[-1] ^ 1])
        return super().pwrite(fd, data, offset)

    def fsync(self, fd):
        """Fail."""
        if fd in self.twins:
            self._fail("fsync")
        super().fsync(fd)

    def rename(self, source, target):
        """Fail."""
        self._fail("rename")
        super().rename(source, target)


@pytest.mark.parametrize(
    "failing",
    [
        Failing("pwrite", errno.ENOSPC),
        Failing("pwrite", errno.EIO),
        Failing("fsync", errno.EIO),
        Failing("rename", errno.EIO),
        Failing("", 0, flip=True),
    ],
    ids=["full", "broken write", "broken sync", "broken rename", "wrong bytes"],
)
def test_a_compression_that_fails_leaves_the_plain_log_and_nothing_else(tmp_path, failing):
    """No room, a broken disk, a memory that flips a bit: the plain segments are what they were."""
    write_log(tmp_path, *chat(20))
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.ev*")}
    with pytest.raises(NotCompressed, match=r"nothing is lost|is as it was"):
        compacted(tmp_path, filesystem=failing)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.ev*")} == before
    assert len(compacted(tmp_path)) == len(before)


def test_a_writer_compresses_what_it_has_left_behind(tmp_path):
    """With `compress_sealed` the old segments shrink while appends, reads and a follower go on."""
    follower = None
    said, done = [], threading.Event()
    with open_log(tmp_path, compress_sealed=True, warn=said.append) as writer:
        for commit in chat(150):
            writer.append(commit)
            if follower is None:
                follower = LogReader.open(tmp_path)
        wanted = [record.payload for record in writer.reader().read()]
        while len(list(tmp_path.glob("*.evl"))) > 1 and not said:
            done.wait(0.01)
        assert not said
        assert [record.payload for record in writer.reader().read()] == wanted
        follower.refresh()
        assert [record.payload for record in follower.read()] == wanted
    assert payloads_in(tmp_path) == wanted
    assert verify(tmp_path).kind == "clean"
    assert not list(tmp_path.glob("*.new"))


def test_a_writer_compresses_what_earlier_sessions_have_left_plain(tmp_path):
    """Killed before its turn came, or never asked to: all segments shrink but the last."""
    write_log(tmp_path, *chat(120))
    wanted, plain = payloads_in(tmp_path), sorted(path.name for path in tmp_path.glob("*.evl"))
    assert len(plain) > 2
    said, done = [], threading.Event()
    with open_log(tmp_path, compress_sealed=True, warn=said.append) as writer:
        while [path.name for path in tmp_path.glob("*.evl")] != plain[-1:] and not said:
            done.wait(0.01)
        writer.append([b"one more"])
    assert (said, payloads_in(tmp_path)) == ([], [*wanted, b"one more"])


def test_a_reader_that_was_opened_before_the_compression_goes_on_reading(tmp_path):
    """Its segments change their names under it, between two reads and in the middle of one."""
    write_log(tmp_path, *chat(100))
    reader = LogReader.open(tmp_path)
    begun = reader.read()
    first = [next(begun) for _ in range(5)]
    compacted(tmp_path)
    held = payloads_in(tmp_path)
    assert [record.payload for record in (*first, *begun)] == held
    assert [record.payload for record in reader.read()] == held
    assert reader.refresh().sequence == len(held)


def test_a_background_compression_that_fails_is_a_warning(tmp_path):
    """The disk is full for twins only: appends go on, and one sentence says what happened."""
    said = []
    failing = Failing("pwrite", errno.ENOSPC)
    with open_log(tmp_path, compress_sealed=True, filesystem=failing, warn=said.append) as writer:
        for commit in chat(120):
            writer.append(commit)
        writer._committer._compactor._thread.join(30)
    assert len(said) == 1
    assert "stay plain" in said[0]
    assert not list(tmp_path.glob("*.evz*"))
    assert verify(tmp_path).kind == "clean"


def test_a_temporary_twin_of_a_crash_is_removed_by_the_next_opening(tmp_path):
    """It is no part of the log, whatever is in it."""
    write_log(tmp_path, [b"one"])
    left = tmp_path / "00000000000000000001-00000001.evz.0123abcd.new"
    left.write_bytes(b"half")
    assert payloads_in(tmp_path) == [b"one"]
    LogWriter.open(tmp_path, clock_ns=lambda: 1, random_bytes=os.urandom).close()
    assert not left.exists()
