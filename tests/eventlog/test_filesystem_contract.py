"""One contract, two disks: what the log may expect of a filesystem holds for the real one and its twin."""

import errno
import os

import pytest

from eventlog.storage.filesystem import FileSystem, RealFileSystem
from eventlog.testing import ForgetfulFileSystem

CREATE = os.O_RDWR | os.O_CREAT


class Contract:
    """The promises; each subclass names a disk and an empty directory on it."""

    @pytest.fixture
    def disk(self) -> FileSystem:
        """Give the disk to be examined."""
        raise NotImplementedError

    @pytest.fixture
    def home(self, tmp_path) -> str:
        """Give the path of an empty directory on it."""
        raise NotImplementedError

    def test_written_bytes_are_read_back(self, disk, home):
        """What pwrite took, pread gives, from any offset."""
        fd = disk.open(f"{home}/a", CREATE)
        assert disk.pwrite(fd, b"hello world", 0) == 11
        assert disk.pwrite(fd, memoryview(b"W"), 6) == 1
        assert disk.pread(fd, 100, 0) == b"hello World"
        assert disk.pread(fd, 3, 6) == b"Wor"
        assert disk.pread(fd, 3, 11) == b""
        assert disk.pread(fd, 3, 900) == b""
        assert disk.size(fd) == 11

    def test_a_gap_reads_as_zeros(self, disk, home):
        """Bytes between the old end and a write beyond it are zeros, over sector borders too."""
        fd = disk.open(f"{home}/a", CREATE)
        disk.pwrite(fd, b"x", 0)
        disk.pwrite(fd, b"yz", 1535)
        assert disk.pread(fd, 4096, 0) == b"x" + bytes(1534) + b"yz"

    def test_large_writes_keep_every_byte(self, disk, home):
        """A write over many sectors at an odd offset changes these bytes and no others."""
        fd = disk.open(f"{home}/a", CREATE)
        disk.pwrite(fd, b"." * 5000, 0)
        block = bytes(range(256)) * 11
        disk.pwrite(fd, block, 777)
        assert disk.pread(fd, 9999, 0) == b"." * 777 + block + b"." * (5000 - 777 - len(block))

    def test_truncate_cuts_and_grows_with_zeros(self, disk, home):
        """What was cut off never comes back when the file grows again."""
        fd = disk.open(f"{home}/a", CREATE)
        disk.pwrite(fd, b"x" * 1500, 0)
        disk.truncate(fd, 600)
        disk.truncate(fd, 1400)
        assert disk.size(fd) == 1400
        assert disk.pread(fd, 2000, 0) == b"x" * 600 + bytes(800)

    def test_allocate_grows_with_zeros_and_keeps_content(self, disk, home):
        """After True the file has the size, its content stands and the rest is zeros."""
        fd = disk.open(f"{home}/a", CREATE)
        disk.pwrite(fd, b"head", 0)
        assert disk.allocate(fd, 8192) is True
        assert disk.size(fd) == 8192
        assert disk.pread(fd, 8192, 0) == b"head" + bytes(8188)
        assert disk.allocate(fd, 4096) is True
        assert disk.size(fd) == 8192

    def test_open_flags_mean_what_they_mean_to_the_kernel(self, disk, home):
        """O_CREAT makes, O_EXCL refuses what is there, O_TRUNC empties, and none of them is implied."""
        path = f"{home}/a"
        with pytest.raises(FileNotFoundError):
            disk.open(path, os.O_RDWR)
        disk.pwrite(disk.open(path, CREATE | os.O_EXCL), b"abc", 0)
        with pytest.raises(FileExistsError):
            disk.open(path, CREATE | os.O_EXCL)
        assert disk.pread(disk.open(path, CREATE), 9, 0) == b"abc"
        assert disk.size(disk.open(path, os.O_WRONLY | os.O_TRUNC)) == 0

    def test_access_mode_is_kept(self, disk, home):
        """A descriptor for reading cannot write, and the other way round."""
        disk.close(disk.open(f"{home}/a", CREATE))
        with pytest.raises(OSError, match=r"\[Errno 9\]"):
            disk.pwrite(disk.open(f"{home}/a", os.O_RDONLY), b"x", 0)
        with pytest.raises(OSError, match=r"\[Errno 9\]"):
            disk.pread(disk.open(f"{home}/a", os.O_WRONLY), 1, 0)

    def test_a_closed_descriptor_is_refused(self, disk, home):
        """Every call on it says EBADF, so that a handle used after close is seen."""
        fd = disk.open(f"{home}/a", CREATE)
        disk.close(fd)
        for call in (
            lambda: disk.pread(fd, 1, 0),
            lambda: disk.pwrite(fd, b"x", 0),
            lambda: disk.fdatasync(fd),
            lambda: disk.fsync(fd),
            lambda: disk.size(fd),
            lambda: disk.truncate(fd, 1),
            lambda: disk.try_lock(fd),
            lambda: disk.close(fd),
        ):
            with pytest.raises(OSError, match=r"\[Errno 9\]"):
                call()

    def test_missing_paths_are_file_not_found(self, disk, home):
        """Every call that needs a name says so when it is not there."""
        for call in (
            lambda: disk.names(f"{home}/none"),
            lambda: disk.unlink(f"{home}/none"),
            lambda: disk.rename(f"{home}/none", f"{home}/other"),
            lambda: disk.sync_directory(f"{home}/none"),
            lambda: disk.make_directory(f"{home}/none/below"),
            lambda: disk.open(f"{home}/none/below", CREATE),
        ):
            with pytest.raises(FileNotFoundError):
                call()

    def test_files_are_not_directories(self, disk, home):
        """Using one for the other is the error the kernel gives."""
        disk.close(disk.open(f"{home}/file", CREATE))
        disk.make_directory(f"{home}/sub")
        with pytest.raises(NotADirectoryError):
            disk.names(f"{home}/file")
        with pytest.raises(NotADirectoryError):
            disk.open(f"{home}/file/below", CREATE)
        with pytest.raises(IsADirectoryError):
            disk.open(f"{home}/sub", os.O_RDWR)
        with pytest.raises(IsADirectoryError):
            disk.rename(f"{home}/file", f"{home}/sub")
        assert disk.identity(f"{home}/file/below") is None

    def test_names_are_sorted_and_complete(self, disk, home):
        """A directory lists its own names only, in order."""
        for name in ("b", "a", "c"):
            disk.close(disk.open(f"{home}/{name}", CREATE))
        disk.make_directory(f"{home}/sub")
        disk.close(disk.open(f"{home}/sub/below", CREATE))
        disk.unlink(f"{home}/b")
        assert disk.names(home) == ["a", "c", "sub"]
        assert disk.names(f"{home}/sub") == ["below"]

    def test_make_directory_makes_one_level_once(self, disk, home):
        """The name being taken, by whatever, is FileExistsError."""
        disk.make_directory(f"{home}/sub")
        disk.make_directory(f"{home}/sub/deep")
        disk.close(disk.open(f"{home}/file", CREATE))
        for taken in ("sub", "file"):
            with pytest.raises(FileExistsError):
                disk.make_directory(f"{home}/{taken}")

    def test_rename_replaces_and_keeps_the_inode(self, disk, home):
        """The target name means the renamed file at once; the old name is gone; open descriptors go on."""
        old = disk.open(f"{home}/target", CREATE)
        disk.pwrite(old, b"old", 0)
        new = disk.open(f"{home}/temporary", CREATE)
        disk.pwrite(new, b"new", 0)
        disk.rename(f"{home}/temporary", f"{home}/target")
        assert disk.names(home) == ["target"]
        assert disk.identity(f"{home}/target") == disk.identity(new)
        assert disk.pread(old, 9, 0) == b"old"
        disk.rename(f"{home}/target", f"{home}/target")
        assert disk.names(home) == ["target"]

    def test_rename_moves_between_directories(self, disk, home):
        """Both directories change."""
        disk.make_directory(f"{home}/sub")
        fd = disk.open(f"{home}/a", CREATE)
        disk.rename(f"{home}/a", f"{home}/sub/b")
        assert disk.names(home) == ["sub"]
        assert disk.identity(f"{home}/sub/b") == disk.identity(fd)

    def test_an_unlinked_file_lives_on_in_its_descriptor(self, disk, home):
        """The name can be made anew, and is another file."""
        fd = disk.open(f"{home}/a", CREATE)
        disk.pwrite(fd, b"kept", 0)
        disk.unlink(f"{home}/a")
        assert disk.identity(f"{home}/a") is None
        again = disk.open(f"{home}/a", CREATE)
        assert disk.identity(fd) != disk.identity(again)
        assert disk.pread(fd, 9, 0) == b"kept"
        assert disk.size(again) == 0

    def test_the_lock_excludes_every_other_open(self, disk, home):
        """Two opens of one file, in one process or two, cannot both hold it; closing gives it back."""
        first, second, probe = (disk.open(f"{home}/LOCK", CREATE) for _ in range(3))
        assert not disk.lock_is_held(probe)
        assert disk.try_lock(first)
        assert disk.try_lock(first)
        assert not disk.try_lock(second)
        assert disk.lock_is_held(probe)
        disk.close(first)
        assert not disk.lock_is_held(probe)
        assert disk.try_lock(second)

    def test_the_lock_belongs_to_the_file_not_the_name(self, disk, home):
        """When LOCK is unlinked and made anew both can be held: that is what fencing must notice."""
        first = disk.open(f"{home}/LOCK", CREATE)
        assert disk.try_lock(first)
        disk.unlink(f"{home}/LOCK")
        second = disk.open(f"{home}/LOCK", CREATE)
        assert disk.try_lock(second)
        assert disk.identity(f"{home}/LOCK") == disk.identity(second) != disk.identity(first)

    def test_syncs_and_cache_drops_change_nothing_visible(self, disk, home):
        """They are about what survives, not about what is read."""
        fd = disk.open(f"{home}/a", CREATE)
        disk.pwrite(fd, b"data", 0)
        disk.drop_cache(fd)
        disk.fdatasync(fd)
        disk.fsync(fd)
        disk.sync_directory(home)
        disk.drop_cache(fd)
        assert disk.pread(fd, 9, 0) == b"data"
        assert disk.names(home) == ["a"]


class TestRealFileSystem(Contract):
    """The operating system's filesystem."""

    @pytest.fixture
    def disk(self):
        """Give the real filesystem and close what the test left open."""
        disk = _ClosingAll()
        yield disk
        disk.close_all()

    @pytest.fixture
    def home(self, tmp_path):
        """Give a directory of this test alone."""
        return str(tmp_path)


class TestForgetfulFileSystem(Contract):
    """The twin in memory."""

    @pytest.fixture
    def disk(self):
        """Give a new disk."""
        return ForgetfulFileSystem()

    @pytest.fixture
    def home(self, disk):
        """Give a directory, as a log would have one."""
        disk.make_directory("/home")
        return "/home"


class _ClosingAll(RealFileSystem):
    """The real filesystem, with a memory for descriptors so that tests need not close them."""

    def __init__(self):
        self.mine = set()

    def open(self, path, flags, mode=0o600):
        fd = super().open(path, flags, mode)
        self.mine.add(fd)
        return fd

    def close(self, fd):
        self.mine.discard(fd)
        super().close(fd)

    def close_all(self):
        for fd in list(self.mine):
            self.close(fd)


def test_both_name_the_error_the_same_way(tmp_path):
    """An errno and the path, so that messages built on them read alike."""
    for disk, path in ((RealFileSystem(), str(tmp_path / "none")), (ForgetfulFileSystem(), "/none")):
        with pytest.raises(FileNotFoundError) as caught:
            disk.open(path, os.O_RDONLY)
        assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, path)
