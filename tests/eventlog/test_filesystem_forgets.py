"""The twin really forgets: each kind of loss that a power cut may bring happens, and none that it may not."""

import itertools
import os
from random import Random

import pytest

from eventlog.testing import ForgetfulFileSystem
from eventlog.testing.disk import ROOT
from eventlog.testing.operations import SyncDirectory, Write

CREATE = os.O_RDWR | os.O_CREAT
MANY = 100_000


def durable_file(content=b"", path="/f"):
    """Give a disk with one file of which everything is synced, and a descriptor of it."""
    disk = ForgetfulFileSystem()
    fd = disk.open(path, CREATE)
    disk.pwrite(fd, content, 0)
    disk.fsync(fd)
    disk.sync_directory("/")
    return disk, fd


def content(disk, path="/f"):
    """Read a whole file; None if the name is lost."""
    if disk.identity(path) is None:
        return None
    fd = disk.open(path, os.O_RDONLY)
    return disk.pread(fd, disk.size(fd), 0)


def images(disk, limit=MANY, seed=1):
    """List the disks after a power loss now."""
    return list(disk.images_after_power_loss(limit, Random(seed)))


def test_synced_content_and_names_survive_every_power_loss():
    """When nothing is un-synced there is exactly one image, and it is the disk."""
    disk, _ = durable_file(b"abc" * 1000)
    assert [content(image) for image in images(disk)] == [b"abc" * 1000]


def test_an_unsynced_sector_is_old_or_new_or_garbage():
    """Each of the three happens, and nothing else."""
    disk, fd = durable_file(b"o" * 512)
    disk.pwrite(fd, b"n" * 512, 0)
    seen = {content(image) for image in images(disk)}
    assert {b"o" * 512, b"n" * 512} < seen
    assert len(seen) == 3


def test_sectors_are_decided_one_by_one():
    """Of two un-synced sectors all nine combinations happen: a later one may survive an earlier one."""
    disk, fd = durable_file(b"o" * 1024)
    disk.pwrite(fd, b"n" * 1024, 0)
    kinds = {b"o" * 512: "old", b"n" * 512: "new"}
    seen = {
        tuple(kinds.get(piece, "garbage") for piece in (found[:512], found[512:]))
        for found in map(content, images(disk))
    }
    assert seen == set(itertools.product(("old", "new", "garbage"), repeat=2))


def test_an_unsynced_intermediate_version_may_survive():
    """A sector written twice since the last sync may keep the first of the two."""
    disk, fd = durable_file(b"old")
    disk.pwrite(fd, b"mid", 0)
    disk.pwrite(fd, b"new", 0)
    assert {b"old", b"mid", b"new"} <= {content(image) for image in images(disk)}


def test_the_size_is_decided_apart_from_the_content():
    """An append that was not synced may be there with its size only, or with neither."""
    disk, fd = durable_file(b"")
    disk.pwrite(fd, b"n" * 600, 0)
    seen = {content(image) for image in images(disk)}
    assert {b"", bytes(600), b"n" * 600, b"n" * 512 + bytes(88), bytes(512) + b"n" * 88} <= seen
    assert {len(found) for found in seen} == {0, 600}


def test_a_lost_size_does_not_come_back_with_old_bytes():
    """Beyond the size that survived there is nothing, even after the file grows again."""
    disk, fd = durable_file(b"")
    disk.pwrite(fd, b"n" * 600, 0)
    for image in images(disk):
        again = image.open("/f", os.O_RDWR)
        if image.size(again) == 0:
            image.truncate(again, 600)
            assert image.pread(again, 600, 0) == bytes(600)


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_a_file_sync_keeps_content_and_size_but_never_the_name(sync):
    """A new file whose directory was not synced may be gone with all its synced content."""
    disk = ForgetfulFileSystem()
    fd = disk.open("/f", CREATE)
    disk.pwrite(fd, b"data", 0)
    getattr(disk, sync)(fd)
    assert [content(image) for image in images(disk)] == [None, b"data"]


def test_a_directory_sync_keeps_the_name_but_never_the_content():
    """A name may survive with an empty file behind it."""
    disk = ForgetfulFileSystem()
    disk.pwrite(disk.open("/f", CREATE), b"data", 0)
    disk.sync_directory("/")
    seen = {content(image) for image in images(disk)}
    assert {b"", bytes(4), b"data"} <= seen
    assert None not in seen


def test_an_unsynced_rename_is_kept_or_lost():
    """The old file under the target name, or the new one; never none, never both names for one file."""
    disk, _ = durable_file(b"old")
    fd = disk.open("/new", CREATE)
    disk.pwrite(fd, b"new", 0)
    disk.fsync(fd)
    disk.sync_directory("/")
    disk.rename("/new", "/f")
    assert [(image.names("/"), content(image)) for image in images(disk)] == [
        (["f", "new"], b"old"),
        (["f"], b"new"),
    ]


def test_name_operations_are_kept_or_lost_one_by_one():
    """Of two creates and an unlink every subset happens: order means nothing without a sync."""
    disk, _ = durable_file()
    disk.open("/a", CREATE)
    disk.open("/b", CREATE)
    disk.unlink("/f")
    seen = {tuple(image.names("/")) for image in images(disk)}
    assert seen == {
        tuple(name for name in subset if name)
        for subset in itertools.product(("a", ""), ("b", ""), ("f", ""))
    }


def test_a_rename_may_survive_the_create_it_built_on():
    """Create lost, rename kept: the file is there under its new name only."""
    disk = ForgetfulFileSystem()
    fd = disk.open("/temporary", CREATE)
    disk.pwrite(fd, b"data", 0)
    disk.fsync(fd)
    disk.rename("/temporary", "/f")
    assert {tuple(image.names("/")) for image in images(disk)} == {(), ("temporary",), ("f",)}


def test_a_lost_directory_takes_everything_in_it_along():
    """Syncing a new directory is no use when its own name in the parent was not synced."""
    disk = ForgetfulFileSystem()
    disk.make_directory("/log")
    fd = disk.open("/log/f", CREATE)
    disk.fsync(fd)
    disk.sync_directory("/log")
    assert [image.names("/") for image in images(disk)] == [[], ["log"]]
    disk.sync_directory("/")
    assert [image.names("/log") for image in images(disk)] == [["f"]]


def test_a_rename_between_directories_is_synced_by_either():
    """It is one change of the disk's journal, so the first directory sync settles it."""
    for directory in ("/", "/sub"):
        disk, _ = durable_file(b"x")
        disk.make_directory("/sub")
        disk.sync_directory("/")
        disk.rename("/f", "/sub/g")
        assert len(images(disk)) == 2
        disk.sync_directory(directory)
        assert [(image.names("/"), image.names("/sub")) for image in images(disk)] == [(["sub"], ["g"])]


def test_allocated_space_is_zeros_or_not_there():
    """Preallocation alone never leaves garbage, but its size may be lost."""
    disk, fd = durable_file(b"head")
    disk.allocate(fd, 4096)
    assert [content(image) for image in images(disk)] == [b"head", b"head" + bytes(4092)]


def test_a_cut_that_was_not_synced_may_be_undone():
    """Old bytes beyond a truncate may reappear."""
    disk, fd = durable_file(b"x" * 100)
    disk.truncate(fd, 10)
    seen = {content(image) for image in images(disk)}
    assert {b"x" * 100, b"x" * 10} <= seen


def test_a_process_crash_keeps_everything_and_leaves_it_unsynced():
    """All that was written is read after it; a power loss that follows may still take it."""
    disk, fd = durable_file(b"old")
    disk.pwrite(fd, b"new", 0)
    after = disk.after_process_crash()
    assert content(after) == b"new"
    assert b"old" in {content(image) for image in images(after)}


def test_an_image_is_durable_and_independent():
    """A disk after a power loss has nothing un-synced, and changing it changes no other."""
    disk, fd = durable_file(b"old")
    disk.pwrite(fd, b"new", 0)
    first, *others = images(disk)
    again = first.open("/f", os.O_RDWR)
    assert images(first)[0] is not first
    assert len(images(first)) == 1
    first.pwrite(again, b"XXX", 0)
    assert b"XXX" not in {content(image) for image in others}
    assert content(disk) == b"new"


def test_few_unsynced_items_give_every_image_and_many_give_a_sample():
    """The limit is kept; the sample starts with nothing kept and all kept."""
    disk, fd = durable_file(bytes(512 * 8))
    disk.pwrite(fd, b"n" * 512 * 8, 0)
    assert len(images(disk, limit=3**8)) == 3**8
    sample = images(disk, limit=50)
    assert len(sample) == 50
    assert content(sample[0]) == bytes(512 * 8)


def test_the_same_seed_gives_the_same_images():
    """A failure found once can be found again."""
    disk, fd = durable_file(bytes(512 * 9))
    disk.pwrite(fd, b"n" * 512 * 9, 0)
    first, again, other = (
        [content(image) for image in images(disk, limit=99, seed=seed)] for seed in (3, 3, 4)
    )
    assert first == again != other


def test_crash_points_go_through_every_operation_in_order():
    """From the untouched disk to the present: after each create, write and sync."""
    disk = ForgetfulFileSystem()
    fd = disk.open("/f", CREATE)
    disk.pwrite(fd, b"one", 0)
    disk.fdatasync(fd)
    disk.sync_directory("/")
    points = list(disk.crash_points())
    assert [point.operations for point in points] == [0, 1, 2, 3, 4]
    assert points[2].last == Write(2, 0, b"one")
    assert points[4].last == SyncDirectory(ROOT) == disk.history[-1]
    assert [content(point.after_process_crash()) for point in points] == [None, b"", b"one", b"one", b"one"]
    assert [point.unsynced for point in points] == [0, 1, 3, 1, 0]
    assert [point.operations for point in disk.crash_points(start=3)] == [3, 4]


def test_a_process_may_die_inside_a_long_write():
    """A crash point of its own holds the first half, in whole sectors."""
    disk, fd = durable_file()
    before = disk.operations
    disk.pwrite(fd, b"n" * 1600, 0)
    torn = [point for point in disk.crash_points(start=before) if point.torn]
    assert [content(point.after_process_crash()) for point in torn] == [b"n" * 1024]


def test_history_starts_where_the_machine_was_started():
    """After a crash the crash points are those of the new life."""
    disk, _ = durable_file(b"x")
    after = disk.after_process_crash()
    assert after.operations == 0
    after.unlink("/f")
    assert [content(point.after_process_crash()) for point in after.crash_points()] == [b"x", None]


def test_a_killed_process_gives_its_lock_back_and_does_nothing_more():
    """Another process on the same machine sees its writes and can take the lock at once."""
    disk, fd = durable_file(b"old")
    other = disk.new_process()
    theirs = other.open("/f", os.O_RDWR)
    assert disk.try_lock(fd)
    assert other.lock_is_held(theirs)
    assert not other.try_lock(theirs)
    disk.pwrite(fd, b"new", 0)
    disk.kill()
    assert other.try_lock(theirs)
    assert content(other) == b"new"
    for call in (
        lambda: disk.pwrite(fd, b"zzz", 0),
        lambda: disk.open("/f", os.O_RDWR),
        lambda: disk.names("/"),
    ):
        with pytest.raises(OSError, match=r"\[Errno (9|3)\]"):
            call()


def test_descriptors_of_one_process_mean_nothing_to_another():
    """A descriptor that leaked from one handle into another is refused, not mixed up."""
    disk, fd = durable_file(b"x")
    with pytest.raises(OSError, match=r"\[Errno 9\]"):
        disk.new_process().pread(fd, 1, 0)
