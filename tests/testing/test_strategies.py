"""The strategies: what they give is of the kinds they promise, and a log stands all of it."""

import contextlib

from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from eventlog.errors import EventLogError
from eventlog.testing import Episode, events_in, examine, examine_damaged, new_disk, open_log, random_damage
from eventlog.testing.damage import CopyFile, Cut, DropFile, FillSector, FlipBit, SwapSectors
from eventlog.testing.strategies import commits, damages, faults, payloads

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def written(*payloads_of_commits):
    """A log on a disk, closed, all durable."""
    disk = new_disk()
    with open_log(disk) as writer:
        for commit in payloads_of_commits:
            writer.append(commit)
    disk.settle()
    return disk


@SETTINGS
@given(st.lists(commits(), min_size=1, max_size=6))
def test_any_commits_are_read_back(chosen):
    """Empty events, bytes like the log's own magics, whole sectors: all are what was appended."""
    assert events_in(written(*chosen)) == [event for commit in chosen for event in commit]


@SETTINGS
@given(st.data())
def test_any_damage_is_seen_or_harmless(data):
    """Drawn for the files that are there; applied to a copy, it never makes a silent loss."""
    disk = written([b"one"], [b"two", b"three" * 300], [b"four"])
    damage = data.draw(damages(disk))
    image = disk.after_process_crash()
    damage.apply(image)
    examine_damaged(image, events_in(disk))


@SETTINGS
@given(faults(), st.lists(st.integers(0, 1500), min_size=1, max_size=5))
def test_any_fault_leaves_what_was_acknowledged(fault, sizes):
    """Whatever call fails, however often: the next opening finds all that was acknowledged."""
    episode = Episode(new_disk())
    episode.disk.faults.order(fault)
    with contextlib.suppress(EventLogError), open_log(episode.disk) as writer:
        for size in sizes:
            episode.append(writer, size)
    episode.disk.faults.clear()
    examine(episode.disk.after_process_crash(), episode, episode.disk.now(), go_on=True)


def test_every_kind_of_damage_can_be_drawn():
    """Else a kind would never be tried; each is also of the kinds that chance gives."""
    disk = written([b"one"])
    for kind in (FlipBit, FillSector, SwapSectors, Cut, DropFile, CopyFile):
        damage = find(damages(disk), lambda one, kind=kind: isinstance(one, kind))
        assert isinstance(damage, kind)


def test_every_kind_of_damage_comes_by_chance():
    """`random_damage` needs no Hypothesis and gives the same kinds; none where there is no file."""
    from random import Random

    disk, rng = written([b"one"]), Random(1)
    kinds = {type(random_damage(disk, rng)) for _ in range(200)}
    assert kinds == {FlipBit, FillSector, SwapSectors, Cut, DropFile, CopyFile}
    empty = new_disk()
    empty.make_directory("/run/log")
    assert random_damage(empty, rng) is None


@SETTINGS
@given(payloads(max_bytes=40), commits(max_events=3, max_bytes=40))
def test_nothing_is_larger_than_asked(event, commit):
    """Neither an event, nor the number of them, nor an event in a commit."""
    assert len(event) <= 40
    assert 1 <= len(commit) <= 3
    assert max(map(len, commit)) <= 40


def test_the_largest_payload_and_the_longest_commit_are_reached():
    """So the bounds mean something."""
    assert len(find(payloads(max_bytes=300), lambda event: len(event) >= 300)) == 300
    assert find(commits(max_events=2, max_bytes=5), lambda commit: len(commit) == 2) == [b"", b""]


def test_faults_are_errors_and_short_calls():
    """Both are drawn; ordering one twice begins its count anew."""
    assert find(faults(), lambda fault: fault.error is None).call in ("pread", "pwrite")
    failing = find(faults(path="HEAD"), lambda fault: fault.error is not None and fault.times == 1)
    assert failing.path == "HEAD"
    disk = new_disk()
    disk.faults.order(failing)
    assert disk.faults.orders == [failing]
    assert disk.faults.orders[0] is not failing
