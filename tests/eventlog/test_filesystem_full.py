"""A simulated disk that is really full, and the log on it: NotWritten, nothing lost, and room again later."""

import errno
from random import Random

import pytest

from eventlog.errors import EventLogError, NotWritten
from eventlog.testing import Episode, ForgetfulFileSystem, events_in, examine, new_disk, open_log

from .full_disk import CREATE, FullDiskContract, fill


class TestForgetfulFileSystem(FullDiskContract):
    """The twin in memory, with room for a few pages."""

    @pytest.fixture
    def disk(self):
        """Give a small disk."""
        return ForgetfulFileSystem(capacity_bytes=64 << 10 | 3 << 9)

    @pytest.fixture
    def home(self, disk):
        """Give a directory on it, as a log would have one."""
        disk.make_directory("/home")
        return "/home"


def full_disk():
    """A disk without a byte of room, and the file that fills it."""
    disk = ForgetfulFileSystem(capacity_bytes=8 << 10)
    fd = disk.open("/f", CREATE)
    fill(disk, fd)
    return disk, fd


def test_a_write_that_fits_in_part_is_short():
    """What fits is taken and counted; only the next write is refused."""
    disk = ForgetfulFileSystem(capacity_bytes=4 << 10)
    fd = disk.open("/f", CREATE)
    taken = disk.pwrite(fd, b"x" * 9_000, 100)
    assert 2_000 < taken + 100 < 4 << 10
    assert disk.size(fd) == taken + 100
    with pytest.raises(OSError, match=r"\[Errno 28\]"):
        disk.pwrite(fd, b"x", taken + 100)


def test_nothing_can_be_made_on_a_full_disk():
    """A new file, a new directory, and a file that is to grow are refused; the names stay as they were."""
    disk, fd = full_disk()
    for call in (
        lambda: disk.open("/g", CREATE),
        lambda: disk.make_directory("/sub"),
        lambda: disk.truncate(fd, 1 << 20),
    ):
        with pytest.raises(OSError, match=r"\[Errno 28\]"):
            call()
    assert disk.names("/") == ["f"]
    disk.close(disk.open("/f", CREATE))


def test_a_machine_that_was_started_again_is_as_small_as_before():
    """Process crash and power loss: the capacity is the disk's; what a dead process had open is free."""
    disk, _ = full_disk()
    disk.settle()
    disk.unlink("/f")
    again = disk.after_process_crash()
    assert fill(again, again.open("/g", CREATE)) > 0
    for image in disk.images_after_power_loss(10, Random(1)):
        gone = image.identity("/f") is None
        if gone:
            assert 0 < fill(image, image.open("/g", CREATE)) <= 8 << 10
        else:
            with pytest.raises(OSError, match=r"\[Errno 28\]"):
                image.open("/g", CREATE)


def test_other_errors_of_a_full_disk_can_be_ordered():
    """A quota that is used up says EDQUOT, a file that may grow no more EFBIG: as ordered."""
    disk = ForgetfulFileSystem()
    fd = disk.open("/f", CREATE)
    for error in (errno.EDQUOT, errno.EFBIG):
        disk.faults.fail("pwrite", error=error)
        with pytest.raises(OSError, match=rf"\[Errno {error}\]"):
            disk.pwrite(fd, b"x", 0)


@pytest.mark.parametrize("kibibytes", [11, 14, 21, 30, 60])
def test_a_log_on_a_disk_that_fills_up_loses_nothing_and_goes_on_when_there_is_room(kibibytes, count_images):
    """Commits until there is no room: NotWritten, absent in every image; with a file less it goes on."""
    disk = new_disk(ForgetfulFileSystem(capacity_bytes=(kibibytes + 16) << 10))
    ballast = disk.open("/ballast", CREATE)
    disk.pwrite(ballast, b"b" * (16 << 10), 0)
    disk.close(ballast)
    disk.settle()
    episode = Episode(disk)
    writer = open_log(disk)
    refused = append_until_full(episode, writer)
    assert refused
    disk.unlink("/ballast")
    disk.settle()
    after = disk.operations
    episode.append(writer, 900)
    writer.close()
    images = 0
    for point in episode.crash_points():
        if point.operations > after - 12:
            for image in point.images(12, Random(kibibytes)):
                examine(image, episode, point)
                images += 1
    count_images(images)
    assert not set(refused) & set(events_in(disk.after_process_crash()))


def append_until_full(episode, writer):
    """Append commits of all sizes until three in a row found no room; return the events that were refused."""
    refused, failures, sizes = [], 0, Random(3)
    while failures < 3:
        assert len(episode.issued) < 1_000, "the disk is never full"
        ticket = episode.submit(writer, sizes.choice((10, 700, 2500)))
        try:
            episode.promise(ticket.wait(30))
            failures = 0
        except NotWritten:
            episode.withdraw(ticket.payloads)
            refused += ticket.payloads
            failures += 1
    return refused


def test_a_log_cannot_begin_on_a_disk_without_room():
    """The error says so, and whatever was begun holds nothing."""
    disk, _ = full_disk()
    with pytest.raises(EventLogError, match="No space"):
        open_log(disk)
    assert disk.names("/") == ["f"]
