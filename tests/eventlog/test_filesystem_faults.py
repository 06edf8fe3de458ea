"""Faults on order: the twin fails where it is told to, in the ways that real disks fail."""

import errno
import os
from random import Random

import pytest

from eventlog.testing import ForgetfulFileSystem

CREATE = os.O_RDWR | os.O_CREAT


@pytest.fixture
def disk():
    """Give a disk with /f, content "old", all synced."""
    disk = ForgetfulFileSystem()
    fd = disk.open("/f", CREATE)
    disk.pwrite(fd, b"old", 0)
    disk.fsync(fd)
    disk.sync_directory("/")
    disk.close(fd)
    return disk


def survivors(disk):
    """Return what /f may hold after a power loss, garbage left out."""
    found = set()
    for image in disk.images_after_power_loss(10_000, Random(1)):
        fd = image.open("/f", os.O_RDONLY)
        found.add(image.pread(fd, 99, 0))
    return found & {b"old", b"new", b"two"}


def test_the_nth_write_fails_and_the_others_do_not(disk):
    """The error has the ordered errno, and nothing of the failed write is there."""
    fd = disk.open("/f", os.O_RDWR)
    disk.faults.fail("pwrite", nth=2, error=errno.ENOSPC)
    disk.pwrite(fd, b"1", 0)
    with pytest.raises(OSError, match="Errno 28"):
        disk.pwrite(fd, b"2", 1)
    disk.pwrite(fd, b"3", 2)
    assert disk.pread(fd, 9, 0) == b"1l3"


def test_a_failing_write_may_leave_some_bytes(disk):
    """The error says nothing about what reached the disk."""
    fd = disk.open("/f", os.O_RDWR)
    disk.faults.fail("pwrite", written_bytes=2)
    with pytest.raises(OSError, match="Errno 5"):
        disk.pwrite(fd, b"new", 0)
    assert disk.pread(fd, 9, 0) == b"ned"


def test_faults_can_be_meant_for_some_files_and_for_good(disk):
    """An order with a path leaves other files alone; times=None never ends until it is cleared."""
    fd, other = disk.open("/f", os.O_RDWR), disk.open("/HEAD", CREATE)
    disk.faults.fail("fdatasync", path="HEAD", times=None)
    disk.fdatasync(fd)
    for _ in range(3):
        with pytest.raises(OSError, match="Errno 5"):
            disk.fdatasync(other)
    disk.faults.clear()
    disk.fdatasync(other)


def test_short_reads_and_writes_succeed_with_less(disk):
    """Never with nothing, since that would mean the end of the file."""
    fd = disk.open("/f", os.O_RDWR)
    disk.faults.shorten("pwrite", at_most=2)
    disk.faults.shorten("pread", at_most=0)
    assert disk.pwrite(fd, b"new", 0) == 2
    assert disk.pwrite(fd, b"w", 2) == 1
    assert disk.pread(fd, 9, 0) == b"n"
    assert disk.pread(fd, 9, 3) == b""


def test_reading_opening_renaming_and_unlinking_can_fail(disk):
    """And then nothing has changed."""
    fd = disk.open("/f", os.O_RDWR)
    calls = {
        "open": lambda: disk.open("/other", CREATE),
        "pread": lambda: disk.pread(fd, 9, 0),
        "rename": lambda: disk.rename("/f", "/g"),
        "unlink": lambda: disk.unlink("/f"),
    }
    before = disk.operations
    for name, call in calls.items():
        disk.faults.fail(name)
        with pytest.raises(OSError, match="Errno 5"):
            call()
    assert disk.names("/") == ["f"]
    assert disk.operations == before


def test_allocate_says_no_when_there_is_no_room_but_raises_eio(disk):
    """As the contract of allocate has it."""
    fd = disk.open("/f", os.O_RDWR)
    disk.faults.fail("allocate", error=errno.ENOSPC)
    assert disk.allocate(fd, 4096) is False
    assert disk.size(fd) == 3
    disk.faults.fail("allocate", error=errno.EIO)
    with pytest.raises(OSError, match="Errno 5"):
        disk.allocate(fd, 4096)


@pytest.mark.parametrize("call", ["fsync", "fdatasync"])
def test_a_failed_sync_that_marks_pages_clean_is_reported_once_and_loses_them(disk, call):
    """The next sync succeeds and makes nothing durable: whoever tries again is deceived."""
    fd = disk.open("/f", os.O_RDWR)
    disk.pwrite(fd, b"new", 0)
    disk.faults.fail(call, sync="kept")
    with pytest.raises(OSError, match="Errno 5"):
        getattr(disk, call)(fd)
    getattr(disk, call)(fd)
    assert disk.pread(fd, 9, 0) == b"new"
    assert survivors(disk) == {b"old", b"new"}


def test_dropping_the_cache_shows_what_a_failed_sync_really_left(disk):
    """That is why a reopening writer drops it before it scans."""
    fd = disk.open("/f", os.O_RDWR)
    disk.pwrite(fd, b"new", 0)
    disk.faults.fail("fdatasync", sync="kept")
    with pytest.raises(OSError, match="Errno 5"):
        disk.fdatasync(fd)
    disk.drop_cache(fd)
    assert disk.pread(fd, 9, 0) == b"old"
    assert survivors(disk) == {b"old"}


def test_a_failed_sync_may_throw_the_pages_away(disk):
    """Reads show the old content at once."""
    fd = disk.open("/f", os.O_RDWR)
    disk.pwrite(fd, b"new", 0)
    disk.faults.fail("fdatasync", sync="reverted")
    with pytest.raises(OSError, match="Errno 5"):
        disk.fdatasync(fd)
    assert disk.pread(fd, 9, 0) == b"old"


def test_a_failed_sync_may_leave_the_pages_dirty(disk):
    """Then the next one does make them durable."""
    fd = disk.open("/f", os.O_RDWR)
    disk.pwrite(fd, b"new", 0)
    disk.faults.fail("fdatasync", sync="dirty", error=errno.ENOSPC)
    with pytest.raises(OSError, match="Errno 28"):
        disk.fdatasync(fd)
    disk.fdatasync(fd)
    assert survivors(disk) == {b"new"}


def test_writing_a_lost_page_again_makes_it_dirty_again(disk):
    """A page is written whole, so the next sync covers it."""
    fd = disk.open("/f", os.O_RDWR)
    disk.pwrite(fd, b"new", 0)
    disk.faults.fail("fdatasync", sync="kept")
    with pytest.raises(OSError, match="Errno 5"):
        disk.fdatasync(fd)
    disk.pwrite(fd, b"two", 0)
    assert survivors(disk) == {b"old", b"new", b"two"}
    disk.fdatasync(fd)
    assert survivors(disk) == {b"two"}


def test_drop_cache_never_drops_dirty_pages(disk):
    """As in the kernel: only clean ones go."""
    fd = disk.open("/f", os.O_RDWR)
    disk.pwrite(fd, b"new", 0)
    disk.drop_cache(fd)
    assert disk.pread(fd, 9, 0) == b"new"


@pytest.mark.parametrize(("sync", "names"), [("kept", {("f",), ("f", "g")}), ("dirty", {("f", "g")})])
def test_a_failed_directory_sync_may_never_be_made_good(disk, sync, names):
    """With "kept" the name stays at risk although the next sync succeeds."""
    disk.close(disk.open("/g", CREATE))
    disk.faults.fail("sync_directory", sync=sync)
    with pytest.raises(OSError, match="Errno 5"):
        disk.sync_directory("/")
    disk.sync_directory("/")
    assert {tuple(image.names("/")) for image in disk.images_after_power_loss(99, Random(1))} == names


def test_faults_of_one_process_do_not_hit_another(disk):
    """And a machine started from an image has none."""
    disk.faults.fail("open", times=None)
    disk.new_process().open("/f", os.O_RDWR)
    disk.after_process_crash().open("/f", os.O_RDWR)
    with pytest.raises(OSError, match="Errno 5"):
        disk.open("/f", os.O_RDWR)
