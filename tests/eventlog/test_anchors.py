"""Property 20: with an anchor at sequence k, any change at or before k is reported.

The changes are made by a forger who knows the format and recomputes everything in it: checksums, chain,
headers and HEAD. What he leaves is a whole log; only the anchor, kept elsewhere, can tell.
"""

import shutil

import pytest

from eventlog.storage import LogReader, Position, verify

from .forger import Commit, commits_of, forge, positions_of
from .logs import Unsynced, payloads_in, segments_of, write_log

COMMITS = [[b"commit %02d" % n] if n % 3 else [b"commit %02d" % n, b"and more"] for n in range(9)]


@pytest.fixture(name="log")
def _log(tmp_path):
    """A log of three sessions with three commits each."""
    directory = tmp_path / "log"
    for low in range(0, 9, 3):
        write_log(directory, *COMMITS[low : low + 3], filesystem=Unsynced())
    return directory


def forged(log, change, at):
    """A copy of the log in which the forger has changed a commit; a whole log all the same."""
    copy = log.with_name("forged")
    shutil.copytree(log, copy)
    flat = [commit for segment in commits_of(copy) for commit in segment]
    change(flat, at)
    forge(copy, [flat[:3], flat[3:6], flat[6:]])
    assert verify(copy).kind == "clean"
    assert payloads_in(copy) == [payload for commit in flat for payload in commit.payloads]
    return copy


def edit(commits, at):
    """Another event, of another length."""
    commits[at] = commits[at]._replace(payloads=(b"this has never happened",))


def rewrite(commits, at):
    """Another event of the same length."""
    first, *rest = commits[at].payloads
    commits[at] = commits[at]._replace(payloads=(b"C" + first[1:], *rest))


def drop(commits, at):
    """One commit taken out; what follows moves up."""
    del commits[at]


def insert(commits, at):
    """One commit put in before it."""
    commits.insert(at, Commit((b"put in",), commits[at].time_ns))


def reorder(commits, at):
    """Two commits changed places."""
    other = at - 1 if at else 1
    commits[at], commits[other] = commits[other], commits[at]


def split(commits, at):
    """The same events, in commits of their own."""
    both = commits[0].payloads + commits[1].payloads
    commits[0:2] = [Commit((payload,), commits[0].time_ns) for payload in both]


def cut(commits, at):
    """The log ends before it."""
    del commits[at:]


def duplicate_tail(commits, at):
    """The commits before it come once more in its place and after it."""
    before = commits[max(0, at - 2) : at] or commits[1:3]
    commits[at:] = before * 3


def other_time(commits, at):
    """The same events at another time."""
    commits[at] = commits[at]._replace(time_ns=commits[at].time_ns + 1)


CHANGES = [edit, rewrite, drop, insert, reorder, split, cut, duplicate_tail, other_time]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_any_change_at_or_before_an_anchor_is_tampering(log, change):
    """For every commit that is changed, and every anchor that was taken from there on."""
    anchors = positions_of(log)
    for at in range(9):
        copy = forged(log, change, at)
        first_changed = 0 if change is split else at - 1 if change is reorder and at else at
        for index, anchor in enumerate(anchors):
            verdict = verify(copy, anchor=anchor)
            assert verdict.kind == ("tampered" if index >= first_changed else "clean"), (at, anchor.sequence)
            if verdict.kind == "tampered":
                assert f"the anchor was taken at event {anchor.sequence}" in verdict.problem.what
        shutil.rmtree(copy)


def test_the_forger_who_changes_nothing_leaves_the_same_chain(log):
    """So what the anchors find is the change, and not the forger's pen."""
    anchors = positions_of(log)
    copy = forged(log, lambda commits, at: None, 0)
    assert positions_of(copy) == anchors
    assert verify(copy, anchor=anchors[-1]).kind == "clean"


def test_a_change_behind_the_anchor_is_not_its_business(log):
    """An anchor proves what is before it; the newest commits need a newer one."""
    anchors = positions_of(log)
    assert verify(forged(log, rewrite, 8), anchor=anchors[7]).kind == "clean"


def test_without_an_anchor_nobody_can_tell(log):
    """The forged log is whole in itself; the reader gives it as it is. The docs say so."""
    copy = forged(log, rewrite, 4)
    assert verify(copy).kind == "clean"
    with LogReader.open(copy) as reader:
        assert reader.end != positions_of(log)[-1]


@pytest.mark.parametrize("sequence", [1, 3, 99])
def test_an_anchor_where_no_commit_ends_is_not_met(log, sequence):
    """Within a commit, or behind the end: the right digest at the wrong number proves nothing."""
    anchor = positions_of(log)[-1]
    assert verify(log, anchor=Position(sequence, anchor.chain)).kind == "tampered"


def test_a_clumsy_change_is_lost_before_the_anchor_is_asked(log):
    """A bit that is flipped without recomputing anything is damage, with an anchor or without."""
    anchor = positions_of(log)[0]
    path = segments_of(log)[0]
    data = bytearray(path.read_bytes())
    data[data.index(b"commit 01")] ^= 1
    path.write_bytes(data)
    assert verify(log, anchor=anchor).kind == "lost"


def test_files_cut_off_with_all_their_traces_are_found_by_the_anchor_alone(log):
    """The newest segment and HEAD gone, nothing that is left names them: clean, but not for the anchor."""
    anchor = positions_of(log)[-1]
    segments_of(log)[-1].unlink()
    (log / "HEAD").unlink()
    assert verify(log).kind == "clean"
    assert verify(log, anchor=anchor).kind == "tampered"
