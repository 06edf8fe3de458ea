"""Damage, as a table: whatever happens to the files, all that was acknowledged is there, or it refuses."""

import os
import shutil

import pytest

from eventlog.errors import LogLost, LogUnreadable
from eventlog.storage import LogReader, verify

from .logs import Unsynced, open_log, payloads_in, segments_of, write_log

COMMITS = ([b"first"], [b"second", b"", b"third" * 9], [b"fourth" * 40], [b"fifth"])
EVENTS = [event for commit in COMMITS for event in commit]
SECTOR = 512


@pytest.fixture(name="log")
def _log(tmp_path):
    """A log of two sessions, hence two segments, with HEAD."""
    directory = tmp_path / "log"
    write_log(directory, *COMMITS[:2])
    write_log(directory, *COMMITS[2:])
    return directory


def never_silent(directory):
    """Assert that the log gives all events or an error; return the verdict's kind."""
    verdict = verify(directory)
    if verdict.opens:
        assert payloads_in(directory, filesystem=Unsynced()) == EVENTS, verdict
    else:
        assert verdict.problem is not None
    return verdict.kind


def used_bytes(path):
    """The bytes up to the last that is not zero."""
    return len(path.read_bytes().rstrip(b"\0"))


@pytest.mark.parametrize("number", [0, 1])
def test_no_flipped_bit_of_a_frame_or_header_is_silent(log, number):
    """Every bit of every field and body of a small log is flipped in turn: never a shorter log."""
    path = segments_of(log)[number]
    data = path.read_bytes()
    # Of the bytes that fill a frame up one in seven is enough.
    places = [*range(140), *(at for at in range(4088, used_bytes(path) + 8) if data[at] or at % 7 == 0)]
    kinds = set()
    with path.open("r+b", buffering=0) as file:
        for at in places:
            for bit in range(8) if data[at] or at < 140 else (at % 8,):
                os.pwrite(file.fileno(), bytes([data[at] ^ 1 << bit]), at)
                kinds.add(never_silent(log))
            os.pwrite(file.fileno(), data[at : at + 1], at)
    assert kinds >= {"lost", "unsupported"}
    assert never_silent(log) == "clean"


def test_a_flipped_bit_in_the_empty_tail_is_torn_and_harmless(log):
    """A byte that is not zero behind the end is reported as torn; nothing is missing."""
    path = segments_of(log)[-1]
    data = bytearray(path.read_bytes())
    data[used_bytes(path) + 700] = 1
    path.write_bytes(data)
    assert never_silent(log) == "torn"
    assert verify(log).torn_bytes > 0


def test_no_flipped_bit_of_head_is_an_error(log):
    """HEAD is evidence only: with one slot destroyed the log is as whole as before."""
    path = log / "HEAD"
    data = path.read_bytes()
    for at in [*range(100), *range(4096, 4196)]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert never_silent(log) == "clean", at


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\xe5EVF"], ids=["zeros", "ones", "magics"])
def test_no_lost_sector_is_silent(log, filler):
    """Each sector of each file is replaced in turn."""
    for path in [*segments_of(log), log / "HEAD"]:
        data = path.read_bytes()
        for at in range(0, len(data), SECTOR):
            path.write_bytes(data[:at] + (filler * SECTOR)[:SECTOR] + data[at + SECTOR :])
            never_silent(log)
        path.write_bytes(data)
    assert never_silent(log) == "clean"


def test_no_swapped_sectors_are_silent(log):
    """Every pair of sectors of the used part of a segment changes places."""
    for path in segments_of(log):
        data = path.read_bytes()
        places = range(0, used_bytes(path) + SECTOR, SECTOR)
        for low in places:
            for high in places:
                if low < high:
                    swapped = bytearray(data)
                    swapped[low : low + SECTOR] = data[high : high + SECTOR]
                    swapped[high : high + SECTOR] = data[low : low + SECTOR]
                    path.write_bytes(swapped)
                    never_silent(log)
        path.write_bytes(data)


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_cut_anywhere_is_lost(log, number):
    """A preallocated file that is shorter than its header says has lost something, wherever it was cut."""
    path = segments_of(log)[number]
    data = path.read_bytes()
    for size in [*range(0, len(data), 61), len(data) - 1]:
        path.write_bytes(data[:size])
        assert never_silent(log) == "lost", size


def rename_first(log):
    """The first segment got the name of a later one."""
    first = segments_of(log)[0]
    first.rename(first.with_name(first.name.replace("00000001.evl", "00000003.evl")))


def delete_first(log):
    """The first segment was deleted."""
    segments_of(log)[0].unlink()


def delete_last(log):
    """The last segment was deleted."""
    segments_of(log)[-1].unlink()


def delete_all(log):
    """All segments were deleted."""
    for path in segments_of(log):
        path.unlink()


def copy_as_next(log):
    """The last segment was copied as one more."""
    last = segments_of(log)[-1]
    shutil.copy(last, last.with_name(last.name.replace("00000002.evl", "00000003.evl")))


def copy_with_same_number(log):
    """A segment is there twice, under two first sequences."""
    last = segments_of(log)[-1]
    shutil.copy(last, last.with_name("00000000000000000099" + last.name[20:]))


def swap_contents(log):
    """Two segments changed names."""
    first, last = segments_of(log)
    data = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(data)


def empty_last(log):
    """The last segment is all zeros."""
    last = segments_of(log)[-1]
    last.write_bytes(bytes(len(last.read_bytes())))


def segment_of_another_log(log):
    """The last segment comes from another log of the same shape."""
    other = log.parent / "another"
    write_log(other, *COMMITS[:2])
    write_log(other, *COMMITS[2:])
    shutil.copy(segments_of(other)[-1], segments_of(log)[-1])


def head_of_another_log(log):
    """HEAD comes from another log."""
    other = log.parent / "another"
    write_log(other, *COMMITS)
    shutil.copy(other / "HEAD", log / "HEAD")


def last_frames_zeroed(log):
    """All frames of the last segment are zeros, as if it had never been written to."""
    last = segments_of(log)[-1]
    data = last.read_bytes()
    last.write_bytes(data[:4096].ljust(len(data), b"\0"))


def older_copy(log):
    """The last segment went back to what it was before its newest commit."""
    last = segments_of(log)[-1]
    data = bytearray(last.read_bytes())
    newest = data.rfind(b"\xe5EVF")
    data[newest:] = bytes(len(data) - newest)
    last.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        rename_first,
        delete_first,
        delete_last,
        delete_all,
        copy_as_next,
        copy_with_same_number,
        swap_contents,
        empty_last,
        segment_of_another_log,
        head_of_another_log,
        last_frames_zeroed,
        older_copy,
    ],
    ids=lambda damage: damage.__doc__.rstrip("."),
)
def test_missing_and_mixed_up_files_are_lost(log, damage):
    """Each row is what somebody, or a disk, did to the files; the log refuses and says where."""
    damage(log)
    before = {path.name: path.read_bytes() for path in log.iterdir() if path.name != "LOCK"}
    assert never_silent(log) == "lost"
    with pytest.raises(LogLost) as caught:
        open_log(log)
    with pytest.raises(LogLost):
        LogReader.open(log)
    assert caught.value.problem is not None
    assert str(log) in str(caught.value)
    assert {path.name: path.read_bytes() for path in log.iterdir() if path.name != "LOCK"} == before


def test_an_older_copy_without_head_is_caught_by_the_watermark_only_if_a_later_frame_survived(log):
    """The stated residual: with HEAD gone too, nothing promises the newest commit; the log opens without."""
    older_copy(log)
    (log / "HEAD").unlink()
    assert verify(log).kind == "clean"
    assert payloads_in(log) == EVENTS[:-1]


def test_without_head_a_hole_in_the_middle_is_still_lost(tmp_path):
    """The watermarks of later frames promise what is gone."""
    write_log(tmp_path, *([b"event"] for _ in range(4)))
    (tmp_path / "HEAD").unlink()
    path = segments_of(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[4096 + SECTOR : 4096 + 2 * SECTOR] = bytes(SECTOR)
    path.write_bytes(data)
    verdict = verify(tmp_path)
    assert verdict.kind == "lost"
    assert (verdict.problem.last_good_sequence, verdict.problem.promised_sequence) == (1, 3)
    assert verdict.problem.offset_bytes == 4096 + SECTOR


def test_a_lost_log_can_be_read_up_to_its_last_good_event_if_asked(log):
    """Only `allow_lost` shows what is left; it never skips the damage."""
    delete_last(log)
    with pytest.raises(LogLost):
        LogReader.open(log)
    assert payloads_in(log, allow_lost=True) == EVENTS[:4]


def test_damage_after_opening_raises_with_the_range_and_is_not_skipped(log):
    """A reader verifies what it reads, each time."""
    with LogReader.open(log) as reader:
        path = segments_of(log)[0]
        data = bytearray(path.read_bytes())
        data[4096 + SECTOR + 150] ^= 1
        path.write_bytes(data)
        read = reader.read()
        assert next(read).payload == b"first"
        with pytest.raises(LogLost, match="events 2 to 6 cannot be read") as caught:
            next(read)
    assert caught.value.problem.last_good_sequence == 1


def test_a_read_error_is_unreadable_and_never_the_end(log):
    """A segment that cannot be opened says nothing about the log, and nothing is changed."""
    path = segments_of(log)[0]
    path.unlink()
    path.mkdir()
    assert verify(log).kind == "unreadable"
    with pytest.raises(LogUnreadable, match=path.name):
        open_log(log)
