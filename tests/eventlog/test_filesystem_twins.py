"""Whatever is done to both disks, both answer alike: the twin is as strict as the real thing."""

import os
import tempfile

from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog.storage.filesystem import RealFileSystem
from eventlog.testing import ForgetfulFileSystem

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b"])
SIZES = st.integers(0, 2000)
FLAGS = st.sampled_from([0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_CREAT | os.O_TRUNC])
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES, FLAGS, SIZES, st.binary(max_size=1100)),
    st.tuples(st.just("truncate"), NAMES, FLAGS, SIZES),
    st.tuples(st.just("allocate"), NAMES, FLAGS, SIZES),
    st.tuples(st.just("read"), NAMES, SIZES, SIZES),
    st.tuples(st.just("make_directory"), NAMES),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("unlink"), NAMES),
    st.tuples(st.just("names"), NAMES),
    st.tuples(st.just("sync"), NAMES),
)


def take(disk, home, step):
    """Do one step and return what it gave: a value, or the errno."""
    kind, name, *rest = step
    path = f"{home}/{name}"
    try:
        match kind:
            case "make_directory" | "unlink" | "names":
                return getattr(disk, kind)(path)
            case "rename" if is_directory(disk, path) or name.startswith(f"{rest[0]}/"):
                return None  # renamed directories, and files over their own directory: not modelled
            case "rename":
                return disk.rename(path, f"{home}/{rest[0]}")
            case "read":
                return with_file(disk, path, os.O_RDWR, lambda fd: disk.pread(fd, *rest))
            case "sync":
                return with_file(disk, path, os.O_RDWR, disk.fdatasync)
        flags, *arguments = rest
        return with_file(disk, path, os.O_RDWR | flags, lambda fd: change(disk, kind, fd, arguments))
    except OSError as error:
        return error.errno


def is_directory(disk, path):
    """Tell whether the path is a directory's."""
    try:
        return disk.names(path) is not None
    except OSError:
        return False


def change(disk, kind, fd, arguments):
    """Change an open file and return its size."""
    if kind == "write":
        disk.pwrite(fd, arguments[1], arguments[0])
    elif kind == "allocate":
        disk.allocate(fd, arguments[0])
    else:
        disk.truncate(fd, arguments[0])
    return disk.size(fd)


def with_file(disk, path, flags, act):
    """Open, act, close."""
    fd = disk.open(path, flags)
    try:
        return act(fd)
    finally:
        disk.close(fd)


def tree(disk, home):
    """Return every file's content, and None for a directory."""
    found = {}
    for name in disk.names(home):
        path = f"{home}/{name}"
        try:
            found[name] = with_file(disk, path, os.O_RDWR, lambda fd: disk.pread(fd, disk.size(fd), 0))
        except IsADirectoryError:
            found[name] = tree(disk, path)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=25))
@example([("make_directory", "d"), ("write", "d/a", os.O_CREAT, 5, b"x"), ("rename", "d", "b")])
def test_both_disks_answer_alike_to_any_sequence_of_calls(steps):
    """The same values, the same errors, the same tree at the end; and the same after a process crash."""
    real, twin = RealFileSystem(), ForgetfulFileSystem()
    twin.make_directory("/home")
    with tempfile.TemporaryDirectory() as home:
        for step in steps:
            assert take(twin, "/home", step) == take(real, home, step), step
        assert tree(twin, "/home") == tree(real, home)
        assert tree(twin.after_process_crash(), "/home") == tree(real, home)
