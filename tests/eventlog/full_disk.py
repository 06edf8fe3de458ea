"""What a full disk does, as a contract: for the simulated one, and for any small real one that is at hand."""

import errno
import os

import pytest

from eventlog.storage import FileSystem

CREATE = os.O_RDWR | os.O_CREAT
PAGE = 4096


class FullDiskContract:
    """The promises; a subclass gives a disk, and an empty directory on it with room for 16 to 256 pages."""

    @pytest.fixture
    def disk(self) -> FileSystem:
        """Give the disk to be examined."""
        raise NotImplementedError

    @pytest.fixture
    def home(self) -> str:
        """Give the path of an empty directory on it."""
        raise NotImplementedError

    def test_a_full_disk_takes_what_fits_and_then_says_so(self, disk, home):
        """Every byte that was taken is read back; then ENOSPC, again and again, and nothing has changed."""
        fd = disk.open(f"{home}/a", CREATE)
        taken = fill(disk, fd)
        assert 16 * PAGE <= taken <= 256 * PAGE
        for _ in range(2):
            with pytest.raises(OSError, match=r"\[Errno 28\]"):
                disk.pwrite(fd, b"x" * PAGE, taken)
        assert disk.size(fd) == taken
        assert disk.pread(fd, taken + 1, 0) == b"f" * taken
        disk.close(fd)

    def test_what_is_there_can_be_written_over_and_synced(self, disk, home):
        """It needs no more room."""
        fd = disk.open(f"{home}/a", CREATE)
        taken = fill(disk, fd)
        assert disk.pwrite(fd, b"n" * PAGE, taken - PAGE) == PAGE
        disk.fdatasync(fd)
        assert disk.pread(fd, PAGE, taken - PAGE) == b"n" * PAGE
        disk.close(fd)

    def test_allocate_finds_no_room_and_leaves_the_size(self, disk, home):
        """False, not an error; then less is asked for, and there is room."""
        fd, other = disk.open(f"{home}/a", CREATE), disk.open(f"{home}/b", CREATE)
        taken = fill(disk, fd)
        disk.truncate(fd, taken - 4 * PAGE)
        assert disk.allocate(other, 8 * PAGE) is False
        assert disk.size(other) == 0
        assert disk.allocate(other, 2 * PAGE) is True
        assert disk.size(other) == 2 * PAGE
        disk.close(fd)
        disk.close(other)

    def test_allocated_room_is_kept_for_its_file(self, disk, home):
        """What was reserved can be written when the disk is full."""
        kept = disk.open(f"{home}/kept", CREATE)
        assert disk.allocate(kept, 4 * PAGE) is True
        fd = disk.open(f"{home}/a", CREATE)
        fill(disk, fd)
        assert disk.pwrite(kept, b"k" * 4 * PAGE, 0) == 4 * PAGE
        disk.close(fd)
        disk.close(kept)

    def test_there_is_room_again_after_a_truncate(self, disk, home):
        """As much as was cut off."""
        fd = disk.open(f"{home}/a", CREATE)
        taken = fill(disk, fd)
        disk.truncate(fd, taken - 2 * PAGE)
        assert disk.pwrite(fd, b"y" * PAGE, taken - 2 * PAGE) == PAGE
        disk.close(fd)

    def test_there_is_room_again_once_an_unlinked_file_is_closed_by_everybody(self, disk, home):
        """Not before: an open file lives on without a name."""
        other = disk.open(f"{home}/b", CREATE)
        disk.pwrite(other, b"o" * 4 * PAGE, 0)
        fd = disk.open(f"{home}/a", CREATE)
        taken = fill(disk, fd)
        disk.unlink(f"{home}/b")
        with pytest.raises(OSError, match=r"\[Errno 28\]"):
            disk.pwrite(fd, b"x" * PAGE, taken)
        disk.close(other)
        assert disk.pwrite(fd, b"x" * PAGE, taken) == PAGE
        disk.close(fd)

    def test_a_file_that_another_is_renamed_over_gives_its_room_back(self, disk, home):
        """As an unlink does."""
        for name, pages in (("old", 4), ("new", 1)):
            fd = disk.open(f"{home}/{name}", CREATE)
            disk.pwrite(fd, b"o" * pages * PAGE, 0)
            disk.close(fd)
        fd = disk.open(f"{home}/a", CREATE)
        taken = fill(disk, fd)
        disk.rename(f"{home}/new", f"{home}/old")
        assert disk.pwrite(fd, b"x" * PAGE, taken) == PAGE
        disk.close(fd)


def fill(disk, fd):
    """Write until the disk is full; return how many bytes it took."""
    taken = 0
    while (more := put(disk, fd, taken)) > 0:
        taken += more
        assert taken < 1 << 24, "the disk is never full"
    return taken


def put(disk, fd, at):
    """Write a page; return how much of it was taken, none if the disk is full."""
    try:
        return disk.pwrite(fd, b"f" * PAGE, at)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return 0
