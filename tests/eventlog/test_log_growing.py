"""Where no space can be reserved, segments grow as they are written; the promises are the same."""

import errno
from random import Random

import pytest

from eventlog.errors import NotWritten
from eventlog.storage import verify
from eventlog.storage.header import parse_segment_header
from eventlog.testing import LOG, Episode, events_in, examine, new_disk, open_log


def grown(disk):
    """A log whose files could not be allocated: four commits in two segments."""
    disk.faults.fail("allocate", error=errno.ENOSPC, times=None)
    episode = Episode(disk)
    writer = open_log(disk)
    for sizes in ([20], [0, 300, 5], [3000], [1500]):
        episode.append(writer, *sizes)
    writer.close()
    return episode


def test_every_crash_point_of_a_growing_segment_keeps_what_was_acknowledged(count_images):
    """Also the size of the file is un-synced here: A <= R <= I, and the log opens for writing."""
    episode = grown(new_disk())
    rng = Random(5)
    recovered = set()
    for number, point in enumerate(episode.crash_points()):
        images = [point.after_process_crash()]
        if not point.torn:
            images += point.images_after_power_loss(25, rng)
        for image in images:
            recovered.add(examine(image, episode, point, go_on=number % 4 == 0))
            count_images(1)
    assert recovered == {0, 1, 4, 5, 6}


def test_the_header_says_that_nothing_was_reserved():
    """So a short file is no damage: it is as long as what was written."""
    disk = new_disk()
    grown(disk)
    name = next(name for name in disk.names(str(LOG)) if name.endswith("00000001.evl"))
    fd = disk.open(f"{LOG}/{name}", 0)
    header = parse_segment_header(disk.pread(fd, 4096, 0))
    assert not header.preallocated
    assert disk.size(fd) < header.allocated_bytes
    assert verify(LOG, filesystem=disk).kind == "clean"


@pytest.mark.parametrize("written", [0, 100, 513, 900])
def test_what_a_full_disk_took_of_a_frame_is_cut_off_again(written):
    """At every crash point of the failing commit, and of the one after it, what was acknowledged is there."""
    disk = new_disk()
    disk.faults.fail("allocate", error=errno.ENOSPC, times=None)
    episode = Episode(disk)
    writer = open_log(disk)
    episode.append(writer, 20)
    start = disk.operations
    disk.faults.fail("pwrite", error=errno.ENOSPC, path=".evl", written_bytes=written)
    refused = episode.submit(writer, 1000)
    with pytest.raises(NotWritten):
        refused.wait(60)
    assert len(events_in(disk.after_process_crash())) == 1
    after = episode.submit(writer, 10)
    after.wait(60)
    writer.close()
    rng = Random(written)
    commits = [commit for _, commit in episode.issued]
    legal = [commits[0], commits[0] + commits[1], commits[0] + commits[2]]
    for point in disk.crash_points(start=start):
        for image in point.images_after_power_loss(15, rng):
            assert events_in(image) in legal
            open_log(image, seed=3).close()
