"""What anybody was shown is durable: after the process died, and then the power failed too."""

from random import Random

import pytest

from eventlog.storage import LogReader
from eventlog.testing import LOG, Episode, events_in, new_disk, open_log
from eventlog.testing.operations import Write


@pytest.fixture(name="left_behind")
def _left_behind():
    """A machine whose writer died between writing its second commit and syncing it; the page cache has it."""
    episode = Episode(new_disk())
    writer = open_log(episode.disk)
    episode.append(writer, 700)
    episode.append(writer, 1700)
    writer.close()
    writes = [p for p in episode.crash_points() if isinstance(p.last, Write) and not p.torn]
    return next(p for p in writes if p.last.offset > 4096 and len(p.last.data) > 1700)


def images(disk):
    """Disks that a power loss now may leave."""
    return disk.images_after_power_loss(60, Random(3))


def test_without_a_look_the_commit_may_be_lost(left_behind):
    """The control: nobody synced what the dead writer left, so some power loss takes it away."""
    found = {len(events_in(image)) for image in images(left_behind.after_process_crash())}
    assert found == {1, 2}


def test_what_a_writing_open_found_survives_a_power_loss(left_behind):
    """The next writer adopts the commit, and has made it durable before it says so."""
    disk = left_behind.after_process_crash()
    writer = open_log(disk, seed=4)
    assert writer.durable.sequence == 2
    assert {len(events_in(image)) for image in images(disk)} == {2}
    writer.append([b"after"])
    assert {len(events_in(image)) for image in images(disk)} == {3}
    writer.close()


def test_what_a_reader_was_shown_survives_a_power_loss(left_behind):
    """With the lock free a reader syncs before it shows."""
    disk = left_behind.after_process_crash()
    with LogReader.open(LOG, filesystem=disk) as reader:
        assert reader.end.sequence == 2
    assert {len(events_in(image)) for image in images(disk)} == {2}


def test_a_reader_beside_a_writer_is_shown_only_what_is_durable():
    """At every moment of a run, a reader of the live log sees no more than every power loss would leave."""
    disk = new_disk()
    writer = open_log(disk)
    writer.append([b"x" * 600])
    shown = []

    class Watched:
        """The writer's disk; a reader looks before each sync, when the newest frame is not yet durable."""

        def __getattr__(self, name):
            return getattr(disk, name)

        def fdatasync(self, fd):
            with LogReader.open(LOG, filesystem=disk.new_process()) as reader:
                shown.append((reader.end.sequence, {len(events_in(image)) for image in images(disk)}))
            disk.fdatasync(fd)

    writer.close()
    with open_log(Watched(), seed=5) as writer:
        for _ in range(3):
            writer.append([b"y" * 600])
    assert [sequence for sequence, _ in shown if sequence] == sorted(
        sequence for sequence, _ in shown if sequence
    )
    assert all(sequence <= min(left) for sequence, left in shown)
    assert max(sequence for sequence, _ in shown) == 3
