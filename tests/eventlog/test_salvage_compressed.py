"""Salvage of compressed segments: a block is damaged by itself, and a plain twin fills in."""

import shutil
from random import Random

import pytest

from eventlog.storage import compact, verify

from .logs import Unsynced, segments_of, write_log
from .salvaging import check, salvaged

COMMITS = [[Random(n).randbytes(30_000), b"event %d" % n] for n in range(24)]
EVENTS = [event for commit in COMMITS for event in commit]


def press(log):
    """Compress all of a log."""
    compact(log, random_bytes=Random(1).randbytes, filesystem=Unsynced())


@pytest.fixture(name="log")
def _log(tmp_path):
    """A log of two sessions with several blocks in each compressed segment; `plain` is as it was before."""
    directory = tmp_path / "log"
    roomy = {"first_segment_bytes": 1 << 20, "largest_segment_bytes": 1 << 20, "filesystem": Unsynced()}
    write_log(directory, *COMMITS[:12], **roomy)
    write_log(directory, *COMMITS[12:], **roomy)
    shutil.copytree(directory, tmp_path / "plain")
    press(directory)
    return directory


def twins_of(log):
    """The compressed segments, oldest first."""
    return sorted(log.glob("*.evz"))


def flip(path, at):
    """Flip a bit of the byte at a place."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def test_a_whole_compressed_log_comes_out_as_it_is(log):
    """The same as before: every event on the chain, no gap."""
    assert len(twins_of(log)) == 2
    assert segments_of(log) == []
    assert check(log, EVENTS) == ([], {"chain": 48})
    assert salvaged(log) == salvaged(log.parent / "plain")


def test_a_damaged_block_is_one_gap(log):
    """The blocks around it are whole; behind it nothing is proven."""
    path = twins_of(log)[0]
    flip(path, path.stat().st_size // 2)
    assert verify(log, filesystem=Unsynced()).kind == "lost"
    gaps, proofs = check(log, EVENTS)
    assert len(gaps) == 1
    assert "block" in gaps[0].why
    assert 0 < gaps[0].missing < 24
    assert proofs["chain"] == gaps[0].from_sequence - 1
    assert proofs["stretch"] >= 22


def test_of_plain_and_compressed_each_gives_what_is_whole(log):
    """Damage in both, at different places: nothing is missing."""
    plain = log.parent / "plain"
    for path in segments_of(plain):
        shutil.copy(path, log)
    path = twins_of(log)[0]
    flip(path, path.stat().st_size // 2)
    flip(segments_of(log)[0], 4096 + 300)
    assert verify(log, filesystem=Unsynced()).kind == "lost"
    assert check(log, EVENTS) == ([], {"chain": 48})


def test_a_damaged_index_costs_nothing_while_all_blocks_are_whole(log):
    """They lie one behind the other, and the chain value in the summary proves them."""
    for path in twins_of(log):
        flip(path, path.stat().st_size - 20)
    assert verify(log, filesystem=Unsynced()).kind == "lost"
    assert check(log, EVENTS) == ([], {"chain": 48})


def test_without_its_index_and_a_block_a_compressed_segment_is_a_gap(log):
    """What its blocks belong to is lost; the header of the next segment says how much is missing."""
    path = twins_of(log)[0]
    flip(path, path.stat().st_size - 20)
    flip(path, path.stat().st_size // 2)
    gaps, proofs = check(log, EVENTS)
    assert [(gap.from_sequence, gap.to_sequence) for gap in gaps] == [(1, 24)]
    assert "index" in gaps[0].why
    assert sum(proofs.values()) == 24


def test_a_damaged_index_behind_a_gap_proves_nothing(log):
    """Where the chain is not known up to the first block, nobody knows which events the blocks hold."""
    flip(twins_of(log)[1], twins_of(log)[1].stat().st_size - 20)
    twins_of(log)[0].unlink()
    gaps, proofs = check(log, EVENTS)
    assert [(gap.from_sequence, gap.to_sequence) for gap in gaps] == [(1, 48)]
    assert proofs == {}


def test_the_last_compressed_segment_cut_is_missing_as_far_as_its_summary_says(log):
    """HEAD is not needed for that."""
    (log / "HEAD").unlink()
    path = twins_of(log)[1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    gaps, proofs = check(log, EVENTS)
    assert [(gap.from_sequence, gap.to_sequence) for gap in gaps] == [(25, 48)]
    assert proofs == {"chain": 24}


def test_a_compressed_segment_without_its_header_is_still_proven(log):
    """Its name says what it is, the others the log's id; the session stands in what is left of the header."""
    flip(twins_of(log)[0], 3000)
    gaps, proofs = check(log, EVENTS)
    assert [gap.missing for gap in gaps] == [0]
    assert proofs == {"chain": 48}


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_to_a_compressed_log_finds_what_was_not_written(log, seed):
    """Flips, zeros and cuts at random places of all files."""
    rng = Random(seed)
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(twins_of(log))
        data = bytearray(path.read_bytes())
        at, size = rng.randrange(len(data)), rng.choice((1, 64, 512, 4096))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + size] = bytes(len(data[at : at + size]))
            case 2:
                del data[at:]
            case 3:
                data[: min(at, 9000)] = rng.randbytes(min(at, 9000))
        path.write_bytes(data)
    check(log, EVENTS)


def test_a_copy_of_another_segment_in_the_place_of_one_is_a_gap(log):
    """Even without HEAD: the name says that something began there, and it is nowhere."""
    first, second = twins_of(log)
    second.write_bytes(first.read_bytes())
    (log / "HEAD").unlink()
    assert verify(log).kind == "lost"
    commits, gaps = salvaged(log)
    assert [event for commit in commits for event in commit.records][-1].sequence == 24
    assert [(gap.from_sequence, gap.to_sequence) for gap in gaps] == [(25, None)]
    assert gaps[0].why == f"{second.name} holds segment 1, unlike its name"
