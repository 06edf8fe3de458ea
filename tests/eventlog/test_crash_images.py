"""Crashes upon crashes, readers that look meanwhile, and examinations that must be able to fail.

A is what was acknowledged, R what is recovered, I what was issued: every image opens for writing, and
A <= R <= I. The crash points of each single thing that a log does are in test_crash_points.py.
"""

from random import Random

import pytest

from eventlog.errors import LogRefused
from eventlog.storage import LogReader, verify
from eventlog.testing import (
    LOG,
    Episode,
    ForgetfulFileSystem,
    events_in,
    examine,
    examine_all,
    new_disk,
    open_log,
)

from .lives import appending


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_inside_recovery_changes_nothing(seed, images_scale, count_images):
    """Cut once in the first life, again at every operation of opening and appending in the second."""
    rng = Random(seed)
    first = appending(new_disk())
    point = rng.choice([point for point in first.crash_points() if point.unsynced > 2])
    image = rng.choice([point.after_process_crash(), *point.images_after_power_loss(50, rng)])
    before = events_in(image.after_process_crash()) if image_has_log(image) else []
    assert len(before) >= first.at(point).acked
    second = Episode(image, before)
    writer = open_log(image, seed=9)
    assert writer.durable.sequence == len(before)
    second.append(writer, 40)
    second.append(writer, 600)
    writer.close()
    examined = examine_all(second, limit=round(12 * images_scale), seed=seed)
    count_images(examined.images)
    assert examined.images > 100


def image_has_log(image):
    """Tell whether the log's first segment got its name."""
    return image.identity(str(LOG)) is not None and any(
        name.endswith(".evl") for name in image.names(str(LOG))
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_log_goes_on_through_forty_crashes(seed, count_images):
    """Open, append, lose power or die at a random operation, again and again: nothing acked is missed."""
    rng = Random(seed)
    disk, held = new_disk(), []
    for life in range(40):
        episode = Episode(disk, held, first_mark=life * 100)
        writer = open_log(disk, seed=life)
        assert [record.payload for record in writer.reader().read()] == held
        for _ in range(rng.randrange(4)):
            episode.append(writer, *(rng.choice((0, 30, 600, 3000)) for _ in range(rng.randrange(1, 3))))
        if rng.random() < 0.3:
            writer.close()
        point = rng.choice(list(episode.crash_points())[-25:])
        images = list(point.images_after_power_loss(20, rng))
        disk = rng.choice([point.after_process_crash(), *images])
        held = after(disk.after_process_crash(), episode, point)
        count_images(1)
    assert held


def after(disk, episode, point):
    """Return the events on a disk after a crash, held against the episode."""
    examined = disk.after_process_crash()
    count = examine(disk, episode, point, go_on=False)
    found = events_in(examined) if image_has_log(examined) else []
    assert len(found) == count
    return found


def test_what_a_reader_showed_is_there_after_a_power_cut(images_scale, count_images):
    """A reader in another process, while the writer lives: it exposes only what is durable."""
    episode = Episode(new_disk())
    writer = open_log(episode.disk)
    episode.append(writer, 10)
    reader = LogReader.open(LOG, filesystem=episode.disk.new_process())
    shown = []
    for size in (10, 700, 1500, 1500, 20):
        tickets = [episode.submit(writer, size), episode.submit(writer, size)]
        for ticket in tickets:
            shown.append(reader.refresh().sequence)
            episode.promise(shown[-1])
            ticket.wait(30)
    assert shown == sorted(shown)
    assert shown[-1] > 6
    writer.close()
    count_images(examine_all(episode, limit=round(3 * images_scale)).images)


def test_a_reader_of_a_dead_log_syncs_before_it_shows(count_images):
    """After a process crash un-synced commits are there; once a reader showed them, no cut takes them."""
    episode = appending(new_disk())
    shown_more = 0
    for point in episode.crash_points():
        machine = point.after_process_crash()
        if not image_has_log(machine):
            continue
        shown = len(events_in(machine.new_process()))
        shown_more += shown > episode.at(point).acked
        for image in machine.images_after_power_loss(12, Random(5)):
            assert verify(LOG, filesystem=image).position.sequence >= shown
            count_images(1)
    assert shown_more


class NoDataSync(ForgetfulFileSystem):
    """A broken disk: fdatasync does nothing."""

    def fdatasync(self, fd):
        """Do nothing."""


class NoFileSync(ForgetfulFileSystem):
    """A broken disk: fsync of a file does nothing."""

    def fsync(self, fd):
        """Do nothing."""


class NoDirectorySync(ForgetfulFileSystem):
    """A broken disk: no name is ever made durable."""

    def sync_directory(self, path):
        """Do nothing."""


class LateDataSync(ForgetfulFileSystem):
    """A broken disk: a data sync is done only just before the next write, so that every ack is early."""

    owed = None

    def fdatasync(self, fd):
        """Put it off."""
        self.owed = fd

    def pwrite(self, fd, data, offset):
        """Do what was put off, if it is the same file, then write."""
        if self.owed == fd:
            super().fdatasync(fd)
            self.owed = None
        return super().pwrite(fd, data, offset)


@pytest.mark.parametrize("broken", [NoDataSync, NoFileSync, NoDirectorySync, LateDataSync])
def test_the_examination_catches_a_disk_that_does_not_sync(broken):
    """Negative controls: with a sync left out, some image loses an acknowledged event or refuses to open."""
    episode = appending(new_disk(broken()))
    with pytest.raises((AssertionError, LogRefused)):
        examine_all(episode, limit=60)


def test_the_examination_catches_a_lost_byte():
    """Negative control: had the writer put one other byte on the disk, the comparison would see it."""
    episode = appending(new_disk())
    then, commit = episode.issued[0]
    episode.issued[0] = (then, [commit[0][:-1] + b"?"])
    with pytest.raises(AssertionError):
        examine(episode.disk.after_process_crash(), episode, episode.disk.now(), go_on=False)
