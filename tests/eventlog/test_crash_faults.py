"""The disk fails first and then the machine: errors, short calls and failed syncs, then crashes."""

import contextlib
import errno
from random import Random

import pytest

from eventlog.errors import AppendError, EventLogError, LogClosed, NotWritten, OutcomeUnknown
from eventlog.testing import Episode, events_in, examine, new_disk, open_log

from .lives import appending


@pytest.mark.parametrize("sync", ["kept", "reverted", "dirty"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_after_a_failed_sync_nothing_is_acknowledged_and_nothing_acked_is_lost(sync, nth, count_images):
    """The append ends as unknown, the handle stays refused, and every image that follows has A <= R <= I."""
    episode = Episode(new_disk())
    writer = open_log(episode.disk)
    episode.append(writer, 10)
    episode.disk.faults.fail("fdatasync", sync=sync, nth=nth, path=".evl")
    outcomes = []
    for size in (600, 20, 30, 40, 50):
        try:
            episode.append(writer, size)
        except AppendError as error:
            outcomes.append(type(error))
    assert outcomes[0] is OutcomeUnknown
    assert len(outcomes) == 5 - (nth - 1)
    operations = episode.disk.operations
    writer.close()
    assert not any("Write" in repr(one) for one in episode.disk.history[operations:])
    for point in list(episode.crash_points())[-8:]:
        for image in point.images(20, Random(3)):
            examine(image, episode, point, go_on=True)
            count_images(1)


@pytest.mark.parametrize("sync", ["kept", "reverted", "dirty"])
def test_a_writer_that_comes_after_a_failed_sync_builds_on_nothing_that_is_not_there(sync, count_images):
    """The cache may still show the frame that the disk never got; what comes next survives a cut."""
    episode = Episode(new_disk())
    writer = open_log(episode.disk)
    episode.append(writer, 10)
    episode.disk.faults.fail("fdatasync", sync=sync, path=".evl")
    with pytest.raises(OutcomeUnknown):
        episode.append(writer, 600)
    machine = episode.disk.after_process_crash()
    again = open_log(machine, seed=8)
    second = Episode(machine, [record.payload for record in again.reader().read()])
    second.append(again, 50)
    again.close()
    for image in machine.images_after_power_loss(50, Random(6)):
        assert examine(image, second, machine.now(), go_on=True) == len(second.before) + 1
        count_images(1)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("written", [0, 30, 700, 4000])
def test_a_commit_that_found_the_disk_full_is_absent_for_ever(written, error, count_images):
    """NotWritten is kept through every crash that follows, and the handle goes on."""
    episode = Episode(new_disk())
    writer = open_log(episode.disk)
    episode.append(writer, 10)
    episode.disk.faults.fail("pwrite", error=error, path=".evl", written_bytes=written)
    with pytest.raises(NotWritten):
        episode.submit(writer, 1500).wait(30)
    refused = episode.issued.pop()
    start = episode.disk.operations
    episode.append(writer, 20)
    writer.close()
    for point in episode.disk.crash_points(start=start):
        for image in point.images(20, Random(4)):
            examine(image, episode, point, go_on=True)
            count_images(1)
    assert refused[1][0] not in events_in(episode.disk.after_process_crash())


def test_short_reads_and_writes_never_shrink_the_log():
    """Every call moves at most seven bytes or so, and the log is what it would have been."""
    disk = new_disk()
    disk.faults.shorten("pwrite", at_most=700)
    disk.faults.shorten("pread", at_most=513)
    episode = appending(disk)
    again = disk.after_process_crash()
    again.faults.shorten("pread", at_most=300)
    assert events_in(again) == episode.at(disk.now()).events


def test_a_read_error_is_never_taken_for_the_end():
    """Opening is refused, and once the disk reads again everything is there."""
    episode = appending(new_disk())
    for nth in range(1, 6):
        disk = episode.disk.after_process_crash()
        disk.faults.fail("pread", nth=nth, path=".evl")
        try:
            count = len(events_in(disk))
        except EventLogError:
            count = None
        assert count in (None, 5)
        disk.faults.clear()
        assert len(events_in(disk)) == 5


CALLS = (
    "open",
    "pread",
    "pwrite",
    "fdatasync",
    "fsync",
    "allocate",
    "truncate",
    "rename",
    "names",
    "make_directory",
    "sync_directory",
)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_call_fails_the_log_opens_again_with_all_that_was_acknowledged(seed, count_images):
    """Five lives of one log; in each some call fails at random, commits may share a frame; it crashes."""
    rng = Random(seed)
    disk, held = new_disk(), []
    for life in range(5):
        episode = Episode(disk, held, first_mark=life * 100)
        disk.faults.fail(
            rng.choice(CALLS),
            nth=rng.randrange(1, 12),
            error=rng.choice((errno.EIO, errno.ENOSPC, errno.EDQUOT)),
            sync=rng.choice(("kept", "reverted", "dirty")),
            written_bytes=rng.choice((0, 5, 700)),
        )
        # Refused because of the fault is right too: then what was held must still be there.
        with contextlib.suppress(EventLogError):
            live(episode, rng, seed=life)
        disk.faults.clear()
        points = list(episode.crash_points())
        for point in rng.sample(points, min(len(points), 12)):
            for image in point.images(3, Random(seed)):
                examine(image, episode, point, go_on=rng.random() < 0.2)
                count_images(1)
        point = points[-1]
        disk = rng.choice(list(point.images(20, Random(seed))))
        examined = disk.after_process_crash()
        examine(examined, episode, point, go_on=False)
        held = events_in(examined)


def live(episode, rng, *, seed):
    """Open the log and append until something fails, noting what was promised."""
    writer = open_log(episode.disk, seed=seed)
    assert [record.payload for record in writer.reader().read()] == episode.before
    for _ in range(rng.randrange(2, 8)):
        tickets = [
            episode.submit(writer, rng.choice((0, 30, 600, 3000))) for _ in range(rng.choice((1, 1, 3)))
        ]
        for ticket in tickets:
            try:
                episode.promise(ticket.wait(30))
            except (NotWritten, OutcomeUnknown, LogClosed) as error:
                if not isinstance(error, OutcomeUnknown):
                    episode.withdraw(ticket.payloads)
    if rng.random() < 0.5:
        writer.close()
