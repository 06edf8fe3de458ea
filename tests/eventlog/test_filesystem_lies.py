"""A disk that lies: every sync succeeds and keeps nothing. The examination sees it, whichever sync it is."""

import os
from random import Random

import pytest

from eventlog.errors import LogRefused
from eventlog.testing import Episode, ForgetfulFileSystem, examine_all, new_disk, open_log

CREATE = os.O_RDWR | os.O_CREAT


def liar(*about):
    """A disk that lies about these syncs, with a durable file /f that holds "old"."""
    disk = ForgetfulFileSystem(lies_about=about)
    fd = disk.open("/f", CREATE)
    disk.pwrite(fd, b"old", 0)
    disk.settle()
    return disk, fd


def survivors(disk):
    """What /f may hold, and which names there may be, after a power loss now; garbage left out."""
    contents, names = set(), set()
    for image in disk.images_after_power_loss(10_000, Random(1)):
        contents.add(image.pread(image.open("/f", os.O_RDONLY), 99, 0))
        names.add(tuple(image.names("/")))
    return contents & {b"old", b"new"}, names


@pytest.mark.parametrize("call", ["fsync", "fdatasync"])
def test_a_sync_that_lies_succeeds_and_keeps_nothing(call):
    """No error, and after a power loss the old content may be back; an honest sync of the file helps."""
    disk, fd = liar(call)
    disk.pwrite(fd, b"new", 0)
    getattr(disk, call)(fd)
    assert survivors(disk)[0] == {b"old", b"new"}
    {"fsync": disk.fdatasync, "fdatasync": disk.fsync}[call](fd)
    assert survivors(disk)[0] == {b"new"}


def test_a_directory_sync_that_lies_keeps_no_name():
    """A file that was made may be gone."""
    disk, _ = liar("sync_directory")
    disk.close(disk.open("/g", CREATE))
    disk.sync_directory("/")
    assert survivors(disk)[1] == {("f",), ("f", "g")}


def test_a_liar_lies_again_after_a_restart_and_to_every_process():
    """It is the disk, not the process."""
    disk, _ = liar("fsync")
    for machine in (disk.new_process(), disk.after_process_crash()):
        fd = machine.open("/f", os.O_RDWR)
        machine.pwrite(fd, b"new", 0)
        machine.fsync(fd)
        assert survivors(machine)[0] == {b"old", b"new"}


def test_what_lay_there_long_is_durable_also_on_a_liar():
    """`settle` is the quiet time after which even its cache is empty."""
    disk, fd = liar("fsync", "fdatasync", "sync_directory")
    disk.pwrite(fd, b"new", 0)
    disk.close(disk.open("/g", CREATE))
    disk.settle()
    assert survivors(disk) == ({b"new"}, {("f", "g")})


@pytest.mark.parametrize(
    "about", [("fdatasync",), ("fsync",), ("sync_directory",), ("fdatasync", "fsync", "sync_directory")]
)
def test_a_log_on_a_disk_that_lies_is_seen_to_lose(about):
    """Whichever sync is a lie, some image lost what was acknowledged or cannot be opened."""
    episode = Episode(new_disk(ForgetfulFileSystem(lies_about=about)))
    writer = open_log(episode.disk)
    for sizes in ([20], [0, 300, 5], [700]):
        episode.append(writer, *sizes)
    writer.close()
    with pytest.raises((AssertionError, LogRefused)):
        examine_all(episode, limit=60)


def test_what_a_failed_sync_lost_is_lost_after_a_quiet_time_too():
    """`settle` writes what is still dirty; what was marked clean goes the way of the page cache."""
    disk, fd = liar()
    disk.pwrite(fd, b"new", 0)
    disk.faults.fail("fsync", sync="kept")
    with pytest.raises(OSError, match="Errno 5"):
        disk.fsync(fd)
    disk.settle()
    assert disk.pread(fd, 9, 0) == b"old"
    assert survivors(disk)[0] == {b"old"}
