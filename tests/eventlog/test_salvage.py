"""Salvage: everything that can be found is found, nothing else, and what is missing is named."""

import shutil

import pytest

from eventlog.errors import EventLogError, LogUnsupported
from eventlog.storage import Gap, LogReader, salvage, verify
from eventlog.storage import format as numbers

from .logs import open_log, segments_of, write_log
from .salvaging import COMMITS, EVENTS, SECTOR, change, check, flip, ranges, salvaged, two_sessions


@pytest.fixture(name="log")
def _log(tmp_path):
    """A log of two sessions, hence two segments: events 1 to 4, and 5 to 8."""
    return two_sessions(tmp_path / "log")


def test_a_whole_log_comes_out_as_it_is(tmp_path):
    """Sessions, rolls and seals are no gaps; every event is proven, as the reader gives it."""
    for session in range(3):
        write_log(tmp_path, *([bytes([session, n]) * 700, b"x"] for n in range(20)))
    assert len(segments_of(tmp_path)) > 5
    commits, gaps = salvaged(tmp_path)
    with LogReader.open(tmp_path) as reader:
        assert [record for commit in commits for record in commit.records] == list(reader.read())
        assert commits[-1].chain == reader.end.chain
    assert gaps == []
    assert {commit.proof for commit in commits} == {"chain"}


def test_a_log_without_events_has_nothing_missing(tmp_path):
    """LOCK alone, as a session leaves it that appended nothing."""
    write_log(tmp_path)
    assert salvaged(tmp_path) == ([], [])


def test_where_there_is_no_log_there_is_nothing_to_salvage(tmp_path):
    """The error of every reader."""
    with pytest.raises(EventLogError, match="There is no log"):
        salvage(tmp_path)


def test_what_a_crash_left_behind_the_end_is_no_gap(log):
    """It was never acknowledged."""
    last = segments_of(log)[-1]
    change(last, len(last.read_bytes().rstrip(b"\0")) + 700, b"half of a commit")
    assert verify(log).kind == "torn"
    assert check(log, EVENTS) == ([], {"chain": 8})


def test_a_damaged_event_is_a_gap_of_its_commit_and_what_follows_is_found(log):
    """The gap has range, place, size and reason; behind it nothing is proven, and the stretch is chained."""
    flip(segments_of(log)[1], 4096 + 300)
    gaps, proofs = check(log, EVENTS)
    assert gaps == [
        Gap(5, 5, segments_of(log)[1].name, 4096, 2560, "the frame's body does not match its checksum")
    ]
    assert proofs == {"chain": 4, "checksums": 1, "stretch": 2}


def test_the_chain_outranks_the_checksums(log):
    """A flip in a field that only checksums cover costs no event: what continues the chain is proven."""
    for at in (0, 4, 5, 6, 8, 32, 40, 88, 96):  # magic … header checksum
        path = segments_of(log)[0]
        data = path.read_bytes()
        flip(path, 4096 + 512 + at)
        gaps, proofs = check(log, EVENTS)
        assert (ranges(gaps), proofs) == ([(2, 1)], {"chain": 8}), at
        assert "its chain value is right" in gaps[0].why
        path.write_bytes(data)


def test_what_fills_a_frame_up_costs_no_event(log):
    """It must be zero and holds nothing: the damage is said, and every event is there."""
    flip(segments_of(log)[0], 4096 + 500)
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(1, 0)], {"chain": 8})
    assert "the bytes that fill up the frame are not zero" in gaps[0].why


def test_no_flipped_byte_loses_more_than_its_commit(log):
    """Every byte of headers, frames and HEAD: at most one commit is missing."""
    for path in [*segments_of(log), log / "HEAD"]:
        data = path.read_bytes()
        # Of what fills a frame up, and of a long body, a part is enough.
        places = range(len(data.rstrip(b"\0")) + 8)
        for at in (at for at in places if at < 140 or at % 512 < 110 or at % 37 == 0):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
            gaps, proofs = check(log, EVENTS)
            assert sum(proofs.values()) >= 5, (path.name, at)
            assert len(gaps) <= 1, (path.name, at)
        path.write_bytes(data)


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\xe5EVF"], ids=["zeros", "ones", "magics"])
def test_no_lost_sector_loses_more_than_it_touches(log, filler):
    """Each sector of each file is replaced in turn; what is missing is what lay there."""
    for path in [*segments_of(log), log / "HEAD"]:
        data = path.read_bytes()
        for at in (0, *range(3584, len(data), SECTOR)):
            path.write_bytes(data[:at] + (filler * SECTOR)[:SECTOR] + data[at + SECTOR :])
            _, proofs = check(log, EVENTS)
            assert sum(proofs.values()) >= 5, (path.name, at)
        path.write_bytes(data)


def test_swapped_sectors_are_never_read_in_another_order(log):
    """A frame that does not lie where it says is none."""
    path = segments_of(log)[1]
    data = path.read_bytes()
    places = range(0, len(data.rstrip(b"\0")) + SECTOR, SECTOR)
    for low in places:
        for high in (place for place in places if place > low):
            swapped = bytearray(data)
            swapped[low : low + SECTOR] = data[high : high + SECTOR]
            swapped[high : high + SECTOR] = data[low : low + SECTOR]
            path.write_bytes(swapped)
            check(log, EVENTS)


@pytest.mark.parametrize("number", [0, 1])
def test_of_a_file_that_was_cut_all_is_found_that_is_left(log, number):
    """Wherever it was cut: the commits before the cut are there, the others are missing."""
    path = segments_of(log)[number]
    data = path.read_bytes()
    ends = [4096 + 512, 4096 + 1024] if number == 0 else [4096 + 2560, 4096 + 3072, 4096 + 3584]
    events = [1, 3] if number == 0 else [1, 1, 2]
    for size in [*range(0, 4096, 512), *range(4096 - 8, len(data), 40)]:
        path.write_bytes(data[:size])
        _, proofs = check(log, EVENTS)
        kept = sum(count for end, count in zip(ends, events, strict=True) if end <= size)
        assert sum(proofs.values()) >= kept + (8 - sum(events)), size


def test_a_missing_first_segment_leaves_the_rest_unproven(log):
    """The second one's header says how much is missing."""
    segments_of(log)[0].unlink()
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(1, 4)], {"checksums": 1, "stretch": 3})
    assert gaps[0].why.startswith("segment 1 is missing")


def test_a_missing_last_segment_is_missing_as_far_as_head_promises(log):
    """Without HEAD nobody knows, and nothing shows the loss: the stated residual."""
    segments_of(log)[1].unlink()
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(5, 8)], {"chain": 4})
    (log / "HEAD").unlink()
    assert check(log, EVENTS[:4]) == ([], {"chain": 4})


def test_missing_middle_segments_are_one_gap(tmp_path):
    """Their numbers are named, and how many events they held."""
    for n in range(5):
        write_log(tmp_path, [b"event %d" % n])
    segments_of(tmp_path)[1].unlink()
    segments_of(tmp_path)[1].unlink()
    gaps, proofs = check(tmp_path, [b"event %d" % n for n in range(5)])
    assert (ranges(gaps), proofs) == ([(2, 3)], {"chain": 1, "checksums": 1, "stretch": 1})
    assert gaps[0].why.startswith("segment 2 to 3 is missing")


def test_all_segments_gone_is_one_gap(log):
    """HEAD alone says what was there."""
    for path in segments_of(log):
        path.unlink()
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(1, 8)], {})


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("lost", [SECTOR, 4096], ids=["its first sector", "all of it"])
def test_a_segment_without_its_header_is_proven_by_the_chain(log, number, lost):
    """The salt is gone, and with it the header checksums; the chain needs only the log's id."""
    change(segments_of(log)[number], 0, bytes(lost))
    gaps, proofs = check(log, EVENTS)
    assert [gap.missing for gap in gaps] == [0]
    assert "does not begin with a segment header" in gaps[0].why
    assert proofs == {"chain": 8}


def test_a_header_that_is_damaged_elsewhere_still_gives_its_salt(log):
    """One right header checksum proves the salt, also behind a gap."""
    path = segments_of(log)[1]
    flip(path, 3000)
    change(path, 4096, bytes(SECTOR))
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(5, 5)], {"chain": 4, "checksums": 1, "stretch": 2})


def test_without_header_and_head_the_only_segment_proves_nothing(tmp_path):
    """The log's id is lost: frames are found by their bodies alone, and say so."""
    write_log(tmp_path, *COMMITS, first_segment_bytes=32 << 10)
    (tmp_path / "HEAD").unlink()
    (path,) = segments_of(tmp_path)
    change(path, 0, bytes(4096))
    gaps, proofs = check(tmp_path, EVENTS)
    assert (gaps[0].missing, proofs) == (0, {"body": 8})


def test_what_is_left_of_a_damaged_header_may_prove_all(tmp_path):
    """The id stands in the damaged block; that the chain continues with it shows that it is right."""
    write_log(tmp_path, *COMMITS, first_segment_bytes=32 << 10)
    (tmp_path / "HEAD").unlink()
    (path,) = segments_of(tmp_path)
    flip(path, 3000)
    assert check(tmp_path, EVENTS)[1] == {"chain": 8}
    flip(path, 16)
    assert check(tmp_path, EVENTS)[1] == {"checksums": 8}


def test_behind_a_gap_without_the_salt_the_body_is_all_there_is(log):
    """Header and first frame lost: what follows is marked so."""
    change(segments_of(log)[1], 0, bytes(4096 + SECTOR))
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(5, 5)], {"chain": 4, "body": 1, "stretch": 2})


def test_a_frame_inside_an_event_is_not_taken_for_one(tmp_path):
    """An event that holds the bytes of a log, at the very offset that they name, behind a damaged frame."""
    roomy = {"first_segment_bytes": 32 << 10}
    write_log(tmp_path / "other", *([b"not of this log %d" % n] for n in range(12)), **roomy)
    (other,) = segments_of(tmp_path / "other")
    inside = other.read_bytes()[4096 + SECTOR :][: 10 * SECTOR]
    log = tmp_path / "log"
    write_log(log, [bytes(SECTOR - numbers.FRAME_HEADER_BYTES) + inside], [b"after it"], **roomy)
    flip(segments_of(log)[0], 4096 + 200)
    gaps, proofs = check(log, [b"", b"after it"])
    assert (ranges(gaps), proofs) == ([(1, 1)], {"checksums": 1})


def test_files_that_are_there_twice_are_read_once(log):
    """A copy as the next number, and one under another first sequence: the header says what a file is."""
    last = segments_of(log)[-1]
    shutil.copy(last, last.with_name(last.name.replace("00000002.evl", "00000003.evl")))
    shutil.copy(last, last.with_name("00000000000000000099" + last.name[20:]))
    assert verify(log).kind == "lost"
    assert check(log, EVENTS) == ([], {"chain": 8})


def test_of_two_damaged_copies_each_gives_what_it_has(log):
    """Every commit is whole in one of them."""
    last = segments_of(log)[-1]
    copy = last.with_name(last.name.replace("00000002.evl", "00000003.evl"))
    shutil.copy(last, copy)
    flip(last, 4096 + 300)
    flip(copy, 4096 + 2560 + 105)
    assert check(log, EVENTS) == ([], {"chain": 8})


def test_files_that_changed_names_are_put_in_order(log):
    """Their headers know where they belong."""
    first, last = segments_of(log)
    data = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(data)
    assert check(log, EVENTS) == ([], {"chain": 8})


def test_a_segment_of_another_log_is_not_mixed_in(log, tmp_path):
    """It is as good as missing, and named."""
    write_log(tmp_path / "another", *COMMITS[:2])
    write_log(tmp_path / "another", *COMMITS[2:])
    shutil.copy(segments_of(tmp_path / "another")[-1], segments_of(log)[-1])
    gaps, proofs = check(log, EVENTS)
    assert (ranges(gaps), proofs) == ([(5, 8)], {"chain": 4})
    assert "belongs to another log" in gaps[0].why


def test_another_history_behind_the_same_numbers_is_a_gap_of_no_events(tmp_path):
    """A copy of the log that went on differently: its last segment does not continue this one's chain."""
    write_log(tmp_path / "log", *COMMITS[:1])
    shutil.copytree(tmp_path / "log", tmp_path / "fork")
    write_log(tmp_path / "log", [b"here"])
    write_log(tmp_path / "fork", [b"there"])
    for name in ("log", "fork"):
        write_log(tmp_path / name, [b"third"])
    shutil.copy(segments_of(tmp_path / "fork")[2], segments_of(tmp_path / "log")[2])
    commits, gaps = salvaged(tmp_path / "log")
    assert [commit.proof for commit in commits] == ["chain", "chain", "checksums"]
    assert ranges(gaps)[0] == (3, 2)


def test_a_head_that_knows_another_history_is_said(log):
    """An old HEAD beside a rewritten log: nothing is missing by number, and nobody knows what was there."""
    write_log(log, [b"newest"])
    shutil.copy(log / "HEAD", log.parent / "HEAD")
    shutil.rmtree(log)
    write_log(log, *COMMITS[:2])
    write_log(log, *COMMITS[2:])
    write_log(log, [b"Newest"])
    shutil.copy(log.parent / "HEAD", log / "HEAD")
    commits, gaps = salvaged(log)
    assert sum(len(commit.records) for commit in commits) == 9
    assert (ranges(gaps), gaps[0].why) == ([(10, None)], "HEAD knows another chain value at event 9")


def test_a_newer_log_is_refused_and_not_picked_apart(log):
    """A whole header of an unknown version is no damage: upgrade first."""
    from xxhash import xxh3_64_intdigest

    path = segments_of(log)[0]
    block = bytearray(path.read_bytes()[:4088])
    block[8] = 2
    change(path, 0, bytes(block) + numbers.U64.pack(xxh3_64_intdigest(bytes(block))))
    with pytest.raises(LogUnsupported, match="Upgrade"):
        salvage(log)


def test_a_flipped_version_is_damage_and_not_refused(log):
    """The header's checksum tells the two apart."""
    flip(segments_of(log)[0], 8)
    assert verify(log).kind == "unsupported"
    assert check(log, EVENTS)[1] == {"chain": 8}


def test_nothing_is_changed_by_looking(log):
    """Not a byte, not a name."""
    flip(segments_of(log)[0], 4096 + 110)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.iterdir()}
    check(log, EVENTS)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.iterdir()} == before


def test_what_was_cut_off_once_is_not_brought_back(tmp_path):
    """Behind the end that its successor knows a frame is dead, however whole it is."""
    with open_log(tmp_path) as writer:
        writer.append([b"kept"])
        writer.append([b"dead"])
    (path,) = segments_of(tmp_path)
    whole = path.read_bytes()
    change(path, 4096 + SECTOR, bytes(SECTOR))
    (tmp_path / "HEAD").unlink()
    write_log(tmp_path, [b"after"])
    path.write_bytes(whole)
    assert check(tmp_path, [b"kept", b"after"]) == ([], {"chain": 2})
