"""What only the real filesystem can show: modes, inheritance, blocks, and locks between processes."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from eventlog.storage.files import AppendFile, replace_file
from eventlog.storage.filesystem import RealFileSystem

CREATE = os.O_RDWR | os.O_CREAT
DISK = RealFileSystem()

HOLD_LOCK = """
import os, sys
from eventlog.storage.filesystem import RealFileSystem
disk = RealFileSystem()
print(disk.try_lock(disk.open(sys.argv[1], os.O_RDWR)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def opened(tmp_path):
    """Give an empty open file, and close it."""
    fd = DISK.open(str(tmp_path / "file"), CREATE)
    yield fd
    DISK.close(fd)


def test_files_are_0600_and_directories_0700_under_any_usual_umask(tmp_path):
    """A run holds prompts and answers; other users have no business in it."""
    old = os.umask(0)
    try:
        DISK.make_directory(str(tmp_path / "sub"))
        DISK.close(DISK.open(str(tmp_path / "sub/file"), CREATE))
        replace_file(tmp_path / "view", [b"x"])
        AppendFile(tmp_path / "rows").close()
    finally:
        os.umask(old)
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("sub", "sub/file", "view", "rows")}
    assert modes == {"sub": 0o700, "sub/file": 0o600, "view": 0o600, "rows": 0o600}


def test_descriptors_are_not_inherited_by_programs(opened):
    """A tool that a run starts must not keep the log's lock alive."""
    assert os.get_inheritable(opened) is False


def test_allocate_reserves_real_blocks(opened):
    """The space is there, not only the size: a later write cannot find the disk full."""
    if not DISK.allocate(opened, 1 << 20):
        pytest.skip("this filesystem cannot preallocate")
    assert os.fstat(opened).st_blocks * 512 >= 1 << 20
    DISK.truncate(opened, 2 << 20)
    assert DISK.size(opened) == 2 << 20
    assert os.fstat(opened).st_blocks * 512 < 2 << 20


def test_allocate_more_than_the_disk_has_is_false_and_leaves_the_size(opened):
    """No room is an answer, not an error, and nothing half done stays behind."""
    os.pwrite(opened, b"head", 0)
    assert DISK.allocate(opened, 1 << 50) is False
    assert DISK.size(opened) == 4
    assert os.fstat(opened).st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSPC])
def test_a_filesystem_that_cannot_allocate_is_not_an_error(opened, monkeypatch, number):
    """False, and what the failed call grew is cut off again."""

    def grow_then_fail(fd, offset, length):
        os.ftruncate(fd, length // 2)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", grow_then_fail)
    assert DISK.allocate(opened, 1 << 20) is False
    assert DISK.size(opened) == 0


def test_an_emulated_allocation_without_blocks_is_not_believed(opened, monkeypatch):
    """On a compressing filesystem glibc's emulation sets the size and reserves nothing."""
    monkeypatch.setattr(os, "posix_fallocate", lambda fd, offset, length: os.ftruncate(fd, length))
    assert DISK.allocate(opened, 1 << 20) is False
    assert DISK.size(opened) == 0


def test_a_failing_device_is_an_error_of_allocate(opened, monkeypatch):
    """EIO is no "cannot"."""

    def fail(fd, offset, length):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(OSError, match="Errno 5"):
        DISK.allocate(opened, 1 << 20)


def test_fdatasync_falls_back_to_fsync_where_it_is_missing(opened, monkeypatch):
    """On macOS there is no fdatasync; the stronger call stands in."""
    synced = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", synced.append)
    DISK.fdatasync(opened)
    assert synced == [opened]


def test_a_failed_full_flush_is_never_followed_by_a_weaker_one(opened, monkeypatch):
    """Where F_FULLFSYNC exists it is used; only "not supported" leads to plain fsync, EIO is raised."""
    import fcntl

    answers = [None, OSError(errno.ENOTSUP, "not here"), OSError(errno.EIO, "broken")]
    synced = []

    def full_flush(fd, command):
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full_flush)
    monkeypatch.setattr(os, "fsync", synced.append)
    DISK.fsync(opened)
    assert synced == []
    DISK.fsync(opened)
    assert synced == [opened]
    with pytest.raises(OSError, match="Errno 5"):
        DISK.fsync(opened)
    assert synced == [opened]


def test_a_killed_process_gives_its_lock_back(tmp_path, opened):
    """The kernel does it, so no stale lock file ever has to be removed by hand."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout.readline() == "True\n"
        assert DISK.lock_is_held(opened)
        assert not DISK.try_lock(opened)
        child.kill()
        child.wait()
    assert not DISK.lock_is_held(opened)
    assert DISK.try_lock(opened)


def test_replace_file_writes_all_chunks_and_nothing_else_stays(tmp_path):
    """The target holds the new content; the directory holds only the target."""
    target = tmp_path / "view.json"
    target.write_bytes(b"old content that is longer")
    for durable in (False, True):
        replace_file(target, (piece for piece in (b"new ", b"", b"content")), durable=durable)
        assert target.read_bytes() == b"new content"
    assert DISK.names(str(tmp_path)) == ["view.json"]


def test_replace_file_keeps_the_old_content_when_the_new_cannot_be_made(tmp_path):
    """An error half-way is raised, the target is as it was, and no temporary file is left."""
    target = tmp_path / "view.json"
    target.write_bytes(b"old")

    def failing():
        yield b"half of it"
        raise ValueError("the fold broke")

    with pytest.raises(ValueError, match="the fold broke"):
        replace_file(target, failing())
    assert target.read_bytes() == b"old"
    assert DISK.names(str(tmp_path)) == ["view.json"]


def test_replace_file_reuses_what_a_killed_process_left(tmp_path):
    """A temporary file from before is overwritten, not appended to."""
    (tmp_path / f"view.{os.getpid()}.partial").write_bytes(b"rubbish, and much more of it")
    replace_file(tmp_path / "view", [b"new"])
    assert (tmp_path / "view").read_bytes() == b"new"
    assert DISK.names(str(tmp_path)) == ["view"]


def test_append_file_continues_where_it_ended(tmp_path):
    """Reopening neither cuts nor overwrites."""
    path = tmp_path / "rows.jsonl"
    with AppendFile(path) as rows:
        rows.append(b"one\n")
        rows.append(b"two\n")
        assert rows.size_bytes == 8
    with AppendFile(path) as rows:
        assert rows.size_bytes == 8
        rows.append(b"three\n")
        rows.truncate(4)
        rows.append(b"four\n")
        rows.close()
        rows.close()
    assert path.read_bytes() == b"one\nfour\n"


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from eventlog.storage.files import AppendFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rows = AppendFile(Path(sys.argv[1]))
rows.append(b"a" * 6)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
try:
    rows.append(b"b" * 10)
except OSError as error:
    print(error.errno, rows.size_bytes, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
rows.append(b"c")
"""


def test_append_file_keeps_whole_appends_only_when_the_disk_is_full(tmp_path):
    """A true short write (RLIMIT_FSIZE), then EFBIG: the half row is cut off and a later append fits on."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "rows")], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{errno.EFBIG} 6\n"
    assert (tmp_path / "rows").read_bytes() == b"aaaaaac"
