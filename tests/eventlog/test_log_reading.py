"""Readers: ranges, single events, chain values, following, and what they refuse."""

import errno
from pathlib import Path

import pytest

from eventlog.errors import EventLogError, LogLost, LogTampered, LogUnreadable, LogUnsupported
from eventlog.storage import LogReader, Position, RealFileSystem, verify
from eventlog.storage.head import parse_head
from eventlog.storage.header import parse_segment_header
from eventlog.testing import ForgetfulFileSystem

from .logs import open_log, payloads_in, segments_of, write_log

COMMITS = [[b"%d.%d" % (n, k) * 20 for k in range(n % 4 + 1)] for n in range(300)]
EVENTS = [event for commit in COMMITS for event in commit]


@pytest.fixture(name="log", scope="module")
def _log(tmp_path_factory):
    """Three sessions, many segments."""
    directory = tmp_path_factory.mktemp("log")
    for start in range(0, 300, 100):
        write_log(directory, *COMMITS[start : start + 100])
    return directory


@pytest.mark.parametrize(
    ("first", "last"), [(1, None), (1, 1), (2, 2), (17, 400), (749, 750), (700, 9999), (750, 750)]
)
def test_a_range_is_inclusive_and_ends_at_the_end(log, first, last):
    """From any event to any event, also inside commits and across segments and sessions."""
    with LogReader.open(log) as reader:
        found = list(reader.read(first, last))
    stop = len(EVENTS) if last is None else last
    assert [record.payload for record in found] == EVENTS[first - 1 : stop]
    assert [record.sequence for record in found] == list(range(first, min(stop, len(EVENTS)) + 1))


def test_an_empty_range_gives_nothing(log):
    """Behind the end, and the wrong way round."""
    with LogReader.open(log) as reader:
        assert list(reader.read(len(EVENTS) + 1)) == []
        assert list(reader.read(5, 4)) == []
        with pytest.raises(ValueError, match="numbered from 1"):
            reader.read(0)


@pytest.mark.parametrize(("first", "last"), [(1, None), (17, 400), (2, 2)])
def test_a_search_gives_the_commits_that_may_hold_what_is_looked_for(log, first, last):
    """Each commit is asked about once, as bytes that have its events whole; only those wanted are given."""
    asked = []

    def may_hold(commit):
        asked.append(commit)
        return b"7.1" in commit

    stop = len(EVENTS) if last is None else last
    with LogReader.open(log) as reader:
        found = {record.sequence: record.payload for record in reader.search(may_hold, first, last)}
    wanted, shown, sequence = {}, 0, 0
    for commit in COMMITS:
        inside = {}
        for event in commit:
            sequence += 1
            if first <= sequence <= stop:
                inside[sequence] = event
        shown += bool(inside)
        if any(b"7.1" in event for event in commit):
            wanted |= inside
    assert found == wanted
    assert len(asked) == shown


def test_a_search_passes_over_no_damage(tmp_path):
    """A commit that nobody wants is verified like any other."""
    write_log(tmp_path, *COMMITS[:20])
    with LogReader.open(tmp_path) as reader:
        assert list(reader.search(lambda _: False)) == []
        path = segments_of(tmp_path)[0]
        data = bytearray(path.read_bytes())
        data[data.index(EVENTS[3])] ^= 1
        path.write_bytes(data)
        with pytest.raises(LogLost):
            list(reader.search(lambda _: False))


def test_every_single_event_can_be_read(log):
    """read_one finds each, with its session; behind the end it is an error."""
    with LogReader.open(log) as reader:
        for sequence, payload in enumerate(EVENTS, 1):
            assert reader.read_one(sequence).payload == payload
        assert reader.read_one(1).epoch == 1
        assert reader.read_one(len(EVENTS)).epoch == 3
        with pytest.raises(EventLogError, match="ends at event 750"):
            reader.read_one(751)


def test_one_event_in_the_middle_costs_one_read(tmp_path):
    """The sparse index leads to within 64 KiB; the rest of a 4 MiB log is not looked at."""
    read = []

    class Counting(RealFileSystem):
        def pread(self, fd, length, offset):
            read.append(length)
            return super().pread(fd, length, offset)

    with open_log(
        tmp_path, filesystem=Counting(), first_segment_bytes=8 << 20, largest_segment_bytes=8 << 20
    ) as writer:
        for start in range(0, 4000, 10):
            writer.append([b"%d" % number * 200 for number in range(start, start + 10)])
        reader = writer.reader()
        read.clear()
        assert reader.read_one(2001).payload == b"2000" * 200
        assert sum(read) <= 192 << 10
    with LogReader.open(tmp_path, filesystem=Counting()) as other:
        read.clear()
        assert other.read_one(3001).payload == b"3000" * 200
        assert sum(read) <= 192 << 10


def test_chain_values_are_those_of_the_commits(log):
    """Each commit's end has one; inside a commit there is none; verify takes each as an anchor."""
    with LogReader.open(log) as reader:
        assert reader.chain_at(0) == bytes(32)
        assert reader.chain_at(reader.end.sequence) == reader.end.chain
        ends = [1, 3, 6, 10, 750]
        chains = {reader.chain_at(end) for end in ends}
        assert len(chains) == len(ends)
        for inside in (2, 4, 5, 751):
            with pytest.raises(EventLogError, match="No commit"):
                reader.chain_at(inside)
        for end in ends:
            assert verify(log, anchor=Position(end, reader.chain_at(end))).kind == "clean"


def test_no_log_is_said_plainly(tmp_path):
    """A missing directory, an empty one, and a file are no logs; nothing is made."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty", "file"):
        with pytest.raises(EventLogError, match="There is no log"):
            LogReader.open(tmp_path / name)
        with pytest.raises(EventLogError, match="There is no log"):
            verify(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_an_opened_log_without_events_is_empty(tmp_path):
    """Readable at once; a reader opened then sees what comes."""
    with open_log(tmp_path) as writer, LogReader.open(tmp_path) as reader:
        assert reader.end == (0, bytes(32))
        assert list(reader.read()) == []
        writer.append([b"one"])
        assert reader.end.sequence == 0
        assert reader.refresh() == writer.durable
        assert reader.log_id == writer.log_id
        assert [record.payload for record in reader.read()] == [b"one"]


def test_a_reader_of_a_live_log_shows_what_is_durable(tmp_path):
    """With HEAD up to its position; without HEAD the newest commit is held back until it is promised."""
    with open_log(tmp_path) as writer:
        for number in range(5):
            writer.append([b"%d" % number])
        with LogReader.open(tmp_path) as reader:
            assert reader.end == writer.durable
        (tmp_path / "HEAD").write_bytes(b"")
        with LogReader.open(tmp_path) as reader:
            assert reader.end.sequence == 4
            assert verify(tmp_path).kind == "clean"
    assert len(payloads_in(tmp_path)) == 5


def test_a_reader_changes_nothing(log):
    """Not one byte, not one name."""
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    payloads_in(log)
    verify(log)
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


def test_a_follower_goes_through_sessions_and_segments(tmp_path):
    """One reader, opened at the beginning, sees every event once, whoever writes."""
    seen = []
    write_log(tmp_path, [b"first"])
    with LogReader.open(tmp_path) as follower:
        for start in range(0, 300, 60):
            with open_log(tmp_path) as writer:
                for commit in COMMITS[start : start + 60]:
                    writer.append(commit)
                    follower.refresh()
                    seen += [record.payload for record in follower.read(len(seen) + 1)]
                    assert len(seen) == writer.durable.sequence
            follower.refresh()
    assert seen == [b"first", *EVENTS]


def test_the_writers_own_reader_sees_what_is_durable(tmp_path):
    """It shares the writer's index, needs no refresh, and outlives the closing."""
    with open_log(tmp_path) as writer:
        reader = writer.reader()
        for commit in COMMITS:
            writer.append(commit)
            assert reader.end == writer.durable
        assert reader.refresh() == writer.durable
    assert [record.payload for record in reader.read()] == EVENTS
    reader.close()
    with pytest.raises(EventLogError, match="closed"):
        reader.read()


def rewrite(path, at, data):
    """Put bytes into a file."""
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("at", "data"), [(8, b"\x02\x00"), (12, b"\x01\x00\x00\x00")], ids=["major version", "feature flag"]
)
def test_an_unknown_format_is_unsupported_and_never_damage(tmp_path, at, data):
    """Whoever reads it is told to upgrade; nothing is changed."""
    write_log(tmp_path, [b"one"])
    rewrite(segments_of(tmp_path)[0], at, data)
    assert verify(tmp_path).kind == "unsupported"
    for opening in (open_log, LogReader.open):
        with pytest.raises(LogUnsupported, match="Upgrade evrun"):
            opening(tmp_path)


def forge(directory, *commits):
    """Write a whole new log with the same id and shape: every checksum and chain value is right."""
    source = segments_of(directory)[0]
    log_id = parse_segment_header(source.read_bytes()[:4096]).log_id
    for path in directory.iterdir():
        path.unlink()
    ids = [log_id]
    write_log(directory, *commits, random_bytes=lambda size: ids.pop() if ids else bytes(size))


FORGERIES = {
    "edited": [[b"ONE"], [b"two"], [b"three"]],
    "dropped": [[b"one"], [b"three"]],
    "inserted": [[b"one"], [b"and"], [b"two"], [b"three"]],
    "reordered": [[b"two"], [b"one"], [b"three"]],
    "cut": [[b"one"]],
    "regrouped": [[b"one", b"two"], [b"three"]],
    "duplicated": [[b"one"], [b"one"], [b"two"], [b"three"]],
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_anchor_shows_any_forged_past(tmp_path, forgery):
    """A forger with every tool leaves a log that is whole in itself; an anchor kept elsewhere tells."""
    write_log(tmp_path, [b"one"], [b"two"], [b"three"])
    with LogReader.open(tmp_path) as reader:
        anchors = [Position(2, reader.chain_at(2)), reader.end]
    assert [verify(tmp_path, anchor=anchor).kind for anchor in anchors] == ["clean", "clean"]
    forge(tmp_path, *FORGERIES[forgery])
    assert verify(tmp_path).kind == "clean"
    for anchor in anchors:
        verdict = verify(tmp_path, anchor=anchor)
        assert verdict.kind == "tampered"
        assert f"event {anchor.sequence}" in verdict.problem.what
    assert issubclass(LogTampered, EventLogError)


def test_what_comes_after_an_anchor_does_not_matter(tmp_path):
    """The log goes on: an old anchor stays good, across sessions."""
    write_log(tmp_path, [b"one"])
    anchor = verify(tmp_path).position
    for _ in range(3):
        write_log(tmp_path, [b"more"] * 5)
        assert verify(tmp_path, anchor=anchor).kind == "clean"


def test_head_notes_the_last_position_in_both_slots_at_closing(tmp_path):
    """One damaged slot forgets nothing of a closed log."""
    with open_log(tmp_path) as writer:
        writer.append([b"one"])
        writer.append([b"two"])
        last = writer.durable
    heads = [head for _, head in parse_head((tmp_path / "HEAD").read_bytes())]
    assert [(head.sequence, head.chain) for head in heads] == [last, last]


@pytest.mark.parametrize("path", ["LOCK", "HEAD", ".evl"])
def test_a_file_that_may_not_be_opened_is_unreadable(path):
    """Another user's log: our own error, with the file and the reason, for readers and verify alike."""
    disk = ForgetfulFileSystem()
    write_log(Path("/log"), [b"one"], filesystem=disk)
    disk.faults.fail("open", error=errno.EACCES, path=path, times=None)
    with pytest.raises(LogUnreadable, match="errno 13"):
        LogReader.open(Path("/log"), filesystem=disk)
    assert verify(Path("/log"), filesystem=disk).kind == "unreadable"
