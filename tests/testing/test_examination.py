"""The examination itself: each promise has its own sentence, and an opener that breaks one is found out."""

import pytest

from eventlog.errors import LogLost
from eventlog.testing import (
    BrokenPromise,
    Episode,
    ForgetfulFileSystem,
    Promises,
    compare,
    examine,
    examine_all,
    new_disk,
    open_log,
)

EVENTS = [b"a", b"b", b"c", b"d"]
PROMISES = Promises(acked=2, ends=[0, 1, 2, 4], events=EVENTS)


def episode():
    """Three commits, of one, one and two events."""
    found = Episode(new_disk())
    with open_log(found.disk) as writer:
        for sizes in ([20], [700], [5, 6]):
            found.append(writer, *sizes)
    return found


@pytest.mark.parametrize("count", [2, 4])
def test_all_that_was_acknowledged_and_whole_commits_pass(count):
    """From what was acknowledged to what was issued, at the end of a commit."""
    compare(EVENTS[:count], PROMISES)


@pytest.mark.parametrize(
    ("recovered", "breach", "sentence"),
    [
        (EVENTS[:1], "lost", "lost: 2 events were acknowledged, 1 are recovered"),
        (EVENTS[:3], "other", "part of a commit: 3 events"),
        ([*EVENTS, b"e"], "other", "part of a commit: 5 events"),
        ([b"a", b"?"], "other", "other bytes: event 2"),
        ([b"b", b"a"], "other", "other bytes: event 1"),
    ],
)
def test_each_broken_promise_has_its_sentence(recovered, breach, sentence):
    """Lost, torn apart, too many, changed, out of order."""
    with pytest.raises(BrokenPromise, match=sentence) as caught:
        compare(recovered, PROMISES)
    assert caught.value.breach == breach


def test_a_disk_that_does_not_sync_data_is_found_to_lose():
    """Lost, not only refused: the note says at which crash point, which image, which seed."""
    lying = Episode(new_disk(ForgetfulFileSystem(lies_about=["fdatasync"])))
    with open_log(lying.disk) as writer:
        lying.append(writer, 20)
        lying.append(writer, 700)
    with pytest.raises(BrokenPromise, match="lost: 1 events were acknowledged, 0") as caught:
        examine_all(lying, limit=60)
    assert caught.value.breach == "lost"
    assert "a crash after operation" in caught.value.__notes__[0]
    assert "of at most 60, seed 1" in caught.value.__notes__[0]


def test_the_moments_to_examine_can_be_chosen():
    """Those that `points` wants, and no others."""
    found, seen = episode(), []

    def late(point):
        seen.append(point.operations)
        return point.operations >= found.disk.operations - 1

    examined = examine_all(found, limit=5, points=late)
    assert len(seen) > 30
    assert examined.recovered == {4}


@pytest.mark.parametrize("go_on", [False, True])
def test_another_way_of_opening_is_examined_like_the_usual_one(go_on):
    """It is called for each opening, and what it recovers is counted."""
    found, seeds = episode(), []

    def opener(disk, /, *, seed):
        seeds.append(seed)
        return open_log(disk, seed=seed, segment_bytes=16 << 10)

    image = found.disk.after_process_crash()
    assert examine(image, found, found.disk.now(), go_on=go_on, opener=opener) == 4
    assert seeds == [1, 2]


def test_an_opener_that_forgets_is_found_out_and_one_that_refuses_is_no_success():
    """A second opening that finds less; and an error, which is a false refusal after a mere crash."""
    found = episode()

    def forgetting(disk, /, *, seed):
        return open_log(disk if seed == 1 else new_disk(), seed=seed)

    def refusing(disk, /, *, seed):
        raise LogLost("lost")

    for opener, error in ((forgetting, BrokenPromise), (refusing, LogLost)):
        with pytest.raises(error):
            examine(found.disk.after_process_crash(), found, found.disk.now(), opener=opener)


class Changing(ForgetfulFileSystem):
    """A machine that comes up with the log of another one the next time."""

    def after_process_crash(self):
        """Give the disk of a log whose second commit has other bytes."""
        other = Episode(new_disk())
        with open_log(other.disk) as writer:
            for payloads in ([b"x"], [b"y"], [b"z", b"z"]):
                other.submit_payloads(writer, payloads).wait(30)
        return other.disk.after_process_crash()


def test_a_log_that_changes_between_two_openings_is_found_out():
    """As many events and other bytes: the chain at its end tells."""
    found = episode()
    image = Changing(found.disk.now().disk.clone())
    with pytest.raises(BrokenPromise, match="opened again it ends at event 4, not 4"):
        examine(image, found, found.disk.now())


def test_an_episode_knows_what_was_promised_when():
    """Nothing before the first append, everything at the end; a withdrawn commit was never issued."""
    found = episode()
    first, *_, last = found.crash_points()
    assert found.at(first) == Promises(0, [0], [])
    assert (found.at(last).acked, found.at(last).ends) == (4, [0, 1, 2, 4])
    refused = found.payloads(3)
    found.issued.append((found.disk.operations - 1, refused))
    assert found.at(last).events[-1:] == refused
    found.withdraw(refused)
    assert len(found.at(last).events) == 4


def test_two_episodes_of_one_log_can_have_different_payloads():
    """`first_mark` numbers them on."""
    assert Episode(new_disk()).payloads(8) != Episode(new_disk(), first_mark=10).payloads(8)
