"""Copies of a real log as a crash may have left it: they open, and hold what was acknowledged then."""

from random import Random

import pytest

from eventlog.errors import EventLogError
from eventlog.storage import LogReader, compact, verify
from eventlog.testing import crashed_copies
from tests.eventlog.logs import open_log, payloads_in, write_log


@pytest.fixture(name="log")
def _log(tmp_path):
    """A log of two sessions and several segments, of commits of one to three events."""
    directory = tmp_path / "log"
    rng = Random(1)
    for _ in range(2):
        commits = [[rng.randbytes(rng.choice((0, 20, 900, 2500)))] * rng.randrange(1, 4) for _ in range(8)]
        write_log(directory, *commits)
    return directory


def commit_ends(log):
    """The numbers of events at which a commit ends, 0 first."""
    with LogReader.open(log) as reader:
        ends = [0]
        for sequence in range(1, reader.end.sequence + 1):
            try:
                reader.chain_at(sequence)
            except EventLogError:
                continue
            ends.append(sequence)
    return ends


def test_each_copy_opens_and_ends_at_the_commit_or_at_the_one_that_came_next(log, tmp_path):
    """What was acknowledged is there, at most one whole commit more, byte-identical; and it goes on."""
    events, ends = payloads_in(log), commit_ends(log)
    found = set()
    copies = list(crashed_copies(log, tmp_path / "copies", limit=80, rng=Random(2)))
    for copy in copies:
        verdict = verify(copy.path)
        held = payloads_in(copy.path)
        following = [end for end in ends if end > copy.acked_sequence][:1]
        assert len(held) in [copy.acked_sequence, *following]
        assert held == events[: len(held)]
        with open_log(copy.path) as writer:
            assert writer.append([b"on"]) == len(held) + 1
        found.add((verdict.kind, len(held) - copy.acked_sequence > 0))
    assert {copy.acked_sequence for copy in copies} <= set(ends)
    assert len({copy.path for copy in copies}) == 80
    assert found == {("clean", False), ("torn", False), ("clean", True)}


def test_the_first_two_copies_are_before_everything_and_after_it(log, tmp_path):
    """So the two ends are always among them."""
    first, last = crashed_copies(log, tmp_path / "copies", limit=2, rng=Random(3))
    assert first.acked_sequence == 0
    assert payloads_in(last.path) == payloads_in(log)


def test_some_copies_have_a_segment_without_a_name_and_some_no_head(log, tmp_path):
    """What a crash between making a segment and naming it leaves, and both slots of HEAD torn."""
    copies = list(crashed_copies(log, tmp_path / "copies", limit=120, rng=Random(4)))
    assert any(list(copy.path.glob("*.new")) for copy in copies)
    heads = [(copy.path / "HEAD").read_bytes() for copy in copies]
    assert any(head.count(b"\xe5EVH") == 0 for head in heads)
    assert any(head.count(b"\xe5EVH") == 2 for head in heads)


def test_the_same_seed_gives_the_same_copies(log, tmp_path):
    """A failure found once can be found again."""
    contents = []
    for into, seed in (("a", 5), ("b", 5), ("c", 6)):
        copies = crashed_copies(log, tmp_path / into, limit=9, rng=Random(seed))
        contents.append(
            [(path.name, path.read_bytes()) for copy in copies for path in sorted(copy.path.iterdir())]
        )
    assert contents[0] == contents[1] != contents[2]


def test_the_log_itself_is_left_alone(log, tmp_path):
    """Byte for byte."""
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    list(crashed_copies(log, tmp_path / "copies", limit=20, rng=Random(6)))
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


def test_compressed_segments_are_copied_whole(log, tmp_path):
    """They were sealed long before the crash; the crash comes in what was written since."""
    compact(log, random_bytes=Random(7).randbytes)
    sealed = len(payloads_in(log))
    write_log(log, [b"one"], [b"two"])
    for copy in crashed_copies(log, tmp_path / "copies", limit=20, rng=Random(8)):
        assert copy.acked_sequence >= sealed
        assert payloads_in(copy.path)[:sealed] == payloads_in(log)[:sealed]


def test_what_gives_no_copies_says_why(log, tmp_path):
    """No plain segment, or a log that is not whole: an error that says what to take instead."""
    compact(log, random_bytes=Random(9).randbytes)
    with pytest.raises(EventLogError, match="not compressed"):
        list(crashed_copies(log, tmp_path / "copies", limit=2, rng=Random(1)))
    next(log.glob("*.evz")).unlink()
    with pytest.raises(EventLogError, match="it is lost"):
        list(crashed_copies(log, tmp_path / "copies", limit=2, rng=Random(1)))
