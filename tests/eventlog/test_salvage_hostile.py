"""Salvage from disks that fail and from bytes made to deceive: it ends, and finds only what was written."""

import errno
import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from eventlog.errors import LogUnreadable
from eventlog.storage import Gap, RealFileSystem, salvage, salvage_frames
from eventlog.storage import format as numbers

from .logs import Unsynced, segments_of, write_log
from .salvaging import EVENTS, SECTOR, BadSectors, check, ranges, salvaged, two_sessions


@pytest.fixture(name="log")
def _log(tmp_path):
    """A log of two sessions, hence two segments: events 1 to 4, and 5 to 8."""
    return two_sessions(tmp_path / "log")


def test_a_sector_that_cannot_be_read_is_read_around(log):
    """EIO for each sector in turn; the others are given, down to single sectors of 512 bytes."""
    for path in segments_of(log):
        for at in range(0, 9 * SECTOR, SECTOR):
            disk = BadSectors(path.name, at, at + SECTOR - 1)
            gaps, proofs = check(log, EVENTS, filesystem=disk)
            assert len(gaps) <= 1
            assert sum(proofs.values()) >= 5, (path.name, at)
    disk = BadSectors(segments_of(log)[1].name, 4096 + 513, 4096 + 514)
    gaps, proofs = check(log, EVENTS, filesystem=disk)
    assert (ranges(gaps), proofs) == ([(5, 5)], {"chain": 4, "checksums": 1, "stretch": 2})
    assert "Input/output error" in gaps[0].why


def test_bad_sectors_behind_the_last_event_leave_an_open_end(log):
    """Whether something stood there cannot be known."""
    disk = BadSectors(segments_of(log)[1].name, 4096 + 3700, 4096 + 3800)
    gaps, proofs = check(log, EVENTS, filesystem=disk)
    assert (ranges(gaps), proofs) == ([(9, None)], {"chain": 8})


def test_a_segment_that_cannot_be_read_at_all_is_a_gap(log):
    """A directory in its place: the others are still found."""
    path = segments_of(log)[0]
    path.unlink()
    path.mkdir()
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(1, 4)], {"checksums": 1, "stretch": 3})


def test_a_directory_that_cannot_be_listed_is_an_error(log):
    """Without names there is nothing to begin with."""

    class Blind(RealFileSystem):
        def names(self, directory):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)

    with pytest.raises(LogUnreadable, match="cannot be listed"):
        salvage(log, filesystem=Blind())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_number_of_damages_gives_only_what_was_written(tmp_path_factory, seed):
    """Flips, lost, moved and cut bytes, lost and renamed files, several at once, with and without HEAD."""
    rng = Random(seed)
    directory = tmp_path_factory.mktemp("log")
    commits = [[rng.randbytes(rng.choice((0, 9, 700))) for _ in range(rng.randint(1, 3))] for _ in range(12)]
    for low in range(0, 12, 4):
        write_log(directory, *commits[low : low + 4], filesystem=Unsynced())
    for _ in range(rng.randint(1, 5)):
        paths = segments_of(directory)
        if paths:
            damage(rng, rng.choice(paths), directory)
    check_found(directory, [event for commit in commits for event in commit])


def damage(rng, path, directory):
    """One damage, of a kind that the random numbers choose."""
    data = bytearray(path.read_bytes())
    used = len(bytes(data).rstrip(b"\0")) + 1
    at, size = rng.randrange(used), rng.choice((1, 64, SECTOR, 4096))
    match rng.randrange(7):
        case 0:
            data[at] ^= 1 << rng.randrange(8) if data else 0
        case 1:
            data[at : at + size] = bytes(len(data[at : at + size]))
        case 2:
            data[at : at + size] = rng.randbytes(len(data[at : at + size]))
        case 3:
            del data[at:]
        case 4:
            data[at : at + size] = data[: len(data[at : at + size])]
        case 5:
            path.unlink()
            return
        case 6:
            (directory / "HEAD").unlink(missing_ok=True)
    path.write_bytes(data)


def check_found(directory, events):
    """What is found was written, each event at most once and in order; the rest of `check` needs evidence."""
    last = 0
    for item in salvage(directory, filesystem=Unsynced()) if segments_of(directory) else ():
        if not isinstance(item, Gap):
            for record in item.records:
                assert record.sequence > last
                assert record.payload == events[record.sequence - 1]
                last = record.sequence


hostile = st.lists(
    st.one_of(
        st.binary(max_size=600),
        st.sampled_from([numbers.FRAME_MAGIC * 300, bytes(512), numbers.SEGMENT_MAGIC, b"\xff" * 700]),
    ),
    max_size=12,
).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(first=hostile, second=hostile, head=st.binary(max_size=200))
def test_any_bytes_end_in_a_salvage(tmp_path_factory, first, second, head):
    """Whatever lies in the files: it ends, and finds no event that nobody wrote."""
    directory = tmp_path_factory.mktemp("log")
    (directory / "00000000000000000001-00000001.evl").write_bytes(first)
    (directory / "00000000000000000001-00000002.evl").write_bytes(second)
    (directory / "HEAD").write_bytes(head)
    commits, gaps = salvaged(directory)
    assert (commits, ranges(gaps)) == ([], [(1, None)])


def test_bytes_made_to_deceive_cost_no_more_than_their_size(tmp_path, monkeypatch):
    """Without the salt each sector may claim a frame up to the end: few are read and hashed."""
    hashed = []

    def counting(data, *seed):
        hashed.append(len(data))
        return xxh3_64_intdigest(data, *seed)

    monkeypatch.setattr(salvage_frames, "xxh3_64_intdigest", counting)
    size = 1 << 21
    data = bytearray(size)
    for at in range(4096, size, SECTOR):
        body = size - at - 104
        fields = (numbers.FRAME_MAGIC, 1, 1, 0, body, body, 1, 1, 2, 1, at, 0, bytes(32), 0)
        data[at : at + 96] = numbers.FRAME_FIELDS.pack(*fields)
    (tmp_path / "00000000000000000001-00000001.evl").write_bytes(data)
    disk = BadSectors("-", size, size)
    commits, gaps = salvaged(tmp_path, filesystem=disk)
    assert (commits, ranges(gaps)) == ([], [(1, None)])
    assert disk.read_bytes < 16 * size
    assert sum(hashed) < 16 * size


def test_many_gaps_cost_no_more_than_one(tmp_path):
    """Every other commit is damaged: each byte is read a bounded number of times."""
    write_log(
        tmp_path,
        *([b"%d" % n] for n in range(400)),
        filesystem=Unsynced(),
        first_segment_bytes=1 << 20,
        largest_segment_bytes=1 << 20,
    )
    (path,) = segments_of(tmp_path)
    data = bytearray(path.read_bytes())
    for n in range(0, 400, 2):
        data[4096 + n * SECTOR + 104] ^= 1
    path.write_bytes(data)
    disk = BadSectors("-", len(data), len(data))
    commits, gaps = salvaged(tmp_path, filesystem=disk)
    assert (len(commits), len(gaps)) == (200, 200)
    assert disk.read_bytes < 4 * len(data)
