"""What must be true when calls fail: properties 9, 10 and 11. Each check is a plain function that raises."""

import contextlib
import errno
import itertools
from random import Random

from eventlog.errors import AppendError, LogClosed, LogUnreadable, NotWritten, OutcomeUnknown
from eventlog.storage import verify
from eventlog.testing import LOG, Episode, events_in, examine, new_disk, open_log

SEGMENT = ".evl"
SYNC_MODELS = ("kept", "reverted", "dirty")


def recovered_in(disk):
    """What a writing open finds."""
    with open_log(disk, seed=3) as writer:
        return [record.payload for record in writer.reader().read()]


def outcome_of(episode, writer, *sizes):
    """Append one commit; return the error's type, None when it was acknowledged."""
    ticket = None
    try:
        ticket = episode.submit(writer, *sizes)
        episode.promise(ticket.wait(30))
    except AppendError as error:
        if not isinstance(error, OutcomeUnknown):
            # Certainly absent, from now on and not before.
            episode.issued[-1] = (episode.issued[-1][0], [])
        return type(error)
    return None


def syncs_that_worked(disk, start):
    """The syncs of files since so many operations that reported no error."""
    return [one for one in disk.history[start:] if type(one).__name__ == "SyncFile" and not one.failed]


def check_failed_sync_is_final(limit):
    """9. After a failed sync nothing is acknowledged, synced or written; what comes after builds on the disk.

    A sync fails once, reported once, in each model of what the kernel does with the pages.
    """
    for sync, call in itertools.product(SYNC_MODELS, ("fdatasync", "fsync")):
        episode = Episode(new_disk())
        writer = open_log(episode.disk)
        episode.append(writer, 10)
        episode.disk.faults.fail(call, sync=sync, path=".evl")
        outcomes = [outcome_of(episode, writer, size) for size in (600, 9000)]
        assert OutcomeUnknown in outcomes, "acknowledged although a sync had failed"
        failed = outcomes.index(OutcomeUnknown)
        start = episode.disk.operations
        outcomes += [outcome_of(episode, writer, size) for size in (20, 30)]
        writer.close()
        assert set(outcomes[failed + 1 :]) == {LogClosed}, f"{outcomes} after a failed sync"
        assert not syncs_that_worked(episode.disk, start), "synced after a failed sync"
        again = episode.disk.after_process_crash()
        continue_and_cut(again, episode, limit)
        for image in episode.disk.images_after_power_loss(limit, Random(3)):
            examine(image, episode, episode.disk.now(), go_on=True)


def continue_and_cut(machine, episode, limit):
    """Readers and a writer that come after the failure, then a power cut: what they built on is there."""
    other = machine.after_process_crash()
    shown = events_in(other)
    for image in other.images_after_power_loss(limit, Random(7)):
        assert verify(LOG, filesystem=image).position.sequence >= len(shown), "shown, and lost"
    with open_log(machine, seed=8) as writer:
        second = Episode(machine, [record.payload for record in writer.reader().read()], first_mark=100)
        assert len(second.before) >= episode.at(episode.disk.now()).acked
        second.append(writer, 50)
    for image in machine.images_after_power_loss(limit, Random(6)):
        examine(image, second, machine.now())


def check_failed_write_leaves_nothing(limit):
    """10. A write that failed for want of room leaves nothing, at every crash that follows."""
    for number, written in itertools.product((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), (0, 30, 700, 4000)):
        episode = Episode(new_disk())
        writer = open_log(episode.disk)
        episode.append(writer, 10)
        episode.disk.faults.fail("pwrite", error=number, path=SEGMENT, written_bytes=written)
        refused = episode.payloads(1500)
        with contextlib.suppress(NotWritten):
            writer.submit(refused).wait(30)
            raise AssertionError("acknowledged a commit that could not be written")
        start = episode.disk.operations
        episode.append(writer, 20)
        writer.close()
        for point in episode.disk.crash_points(start=start):
            for image in point.images(limit, Random(4)):
                examine(image, episode, point)
        assert refused[0] not in events_in(episode.disk.after_process_crash())


def check_failed_write_is_unknown(limit):
    """10. Any other error of a write ends the handle; every commit is wholly there or wholly absent."""
    for written in (0, 5, 700, 5000)[: max(1, limit)]:
        episode = Episode(new_disk())
        writer = open_log(episode.disk)
        episode.append(writer, 10)
        episode.disk.faults.fail("pwrite", error=errno.EIO, path=SEGMENT, written_bytes=written)
        assert [outcome_of(episode, writer, size) for size in (1500, 20)] == [OutcomeUnknown, LogClosed]
        writer.close()
        for image in episode.disk.now().images(limit, Random(2)):
            examine(image, episode, episode.disk.now(), go_on=True)


def check_read_errors_never_shrink(limit):
    """11. Whichever read fails or comes short, the log is refused or whole; short writes change nothing."""
    episode = Episode(new_disk())
    episode.disk.faults.shorten("pwrite", at_most=300, times=limit)
    writer = open_log(episode.disk)
    for sizes in ([20], [0, 300, 5], [1700]):
        episode.append(writer, *sizes)
    writer.close()
    episode.disk.faults.clear()
    episode.disk.faults.shorten("pwrite", at_most=700, nth=2)
    with open_log(episode.disk, seed=2) as writer:
        episode.append(writer, 900, 900)
    whole = episode.at(episode.disk.now()).events
    assert events_in(episode.disk.after_process_crash()) == whole, "short writes changed the log"
    for look, at_most in itertools.product((events_in, recovered_in), (1, 7, 513)):
        disk = episode.disk.after_process_crash()
        disk.faults.shorten("pread", at_most=at_most)
        assert look(disk) == whole, "short reads shrank the log"
    for look, nth, path in itertools.product((events_in, recovered_in), range(1, 9), ("", SEGMENT)):
        disk = episode.disk.after_process_crash()
        disk.faults.fail("pread", nth=nth, path=path)
        try:
            found = look(disk)
        except LogUnreadable:
            disk.faults.clear()
            found = look(disk)
        assert found == whole, f"a read error made {len(found)} events of {len(whole)}"
