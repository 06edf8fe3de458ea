"""Paths of a tool call, held inside the attempt's directory by the kernel and not by looking at names.

Every directory on the way is opened relative to the one before and without following symbolic links, so there
is no moment between a check and a use in which a link could be put in its place.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

LARGEST_READ_BYTES = 10 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PathRefused(ValueError):
    """A path that leads out, goes over a symbolic link, or is no regular file; the text is for the model."""


def parts_inside(workdir: Path, path: str) -> tuple[str, ...]:
    """The steps from the working directory to a path; none for the directory itself.

    Absolute paths, and `~` for the home that tools have, are good as long as they lead into the directory.

    Raises:
        PathRefused: it leads out, or is no path at all.
    """
    if "\0" in path or not path:
        raise PathRefused("the path is empty" if not path else "the path has a NUL character in it")
    pure = PurePosixPath(path)
    if pure.parts[:1] == ("~",):
        pure = PurePosixPath(*pure.parts[1:])
    if pure.is_absolute():
        pure = _below(workdir, pure)
    steps: list[str] = []
    for part in pure.parts:
        if part != "..":
            steps.append(part)
        elif not steps:
            raise _outside(path)
        else:
            steps.pop()
    return tuple(steps)


def _below(workdir: Path, path: PurePosixPath) -> PurePosixPath:
    # The same directory may be known by a name with links in it.
    for root in (workdir.absolute(), workdir.resolve()):
        if path.is_relative_to(root):
            return path.relative_to(root)
    raise _outside(str(path))


def _outside(path: str) -> PathRefused:
    return PathRefused(f"{path} is outside the working directory; file tools work only inside it")


@contextmanager
def open_directory(workdir: Path, steps: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """A descriptor of a directory inside; with `create` the missing ones on the way are made (0700).

    Raises:
        PathRefused: there is a symbolic link or something that is no directory on the way.
        FileNotFoundError: a directory is missing.
    """
    descriptor = os.open(workdir, _DIRECTORY)
    try:
        for number in range(len(steps)):
            further = _open_step(descriptor, steps[: number + 1], create=create)
            os.close(descriptor)
            descriptor = further
        yield descriptor
    finally:
        os.close(descriptor)


def _open_step(parent: int, steps: tuple[str, ...], *, create: bool) -> int:
    step = steps[-1]
    if create:
        with suppress(FileExistsError):
            os.mkdir(step, 0o700, dir_fd=parent)
    try:
        return os.open(step, _DIRECTORY, dir_fd=parent)
    except NotADirectoryError:
        # Which a symbolic link is as well, when it must not be followed.
        mode = os.stat(step, dir_fd=parent, follow_symlinks=False).st_mode
        what = "a symbolic link, which file tools do not follow" if stat.S_ISLNK(mode) else "no directory"
        raise PathRefused(f"{'/'.join(steps)} is {what}") from None


@contextmanager
def open_file(workdir: Path, path: str, flags: int, *, create: bool = False) -> Iterator[IO[bytes]]:
    """A regular file inside, unbuffered; with `create` it and the directories on the way are made.

    Raises:
        PathRefused: it leads out, or is no regular file.
        FileNotFoundError: it, or a directory on the way, is missing.
    """
    steps = parts_inside(workdir, path)
    if not steps:
        raise PathRefused(f"{path} is a directory")
    with open_directory(workdir, steps[:-1], create=create) as parent:
        descriptor = _open_regular(parent, steps[-1], path, flags | (os.O_CREAT if create else 0))
    with open(descriptor, "rb" if flags == os.O_RDONLY else "r+b", buffering=0) as file:  # noqa: PTH123
        yield file


def _open_regular(parent: int, name: str, path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a named pipe would wait for its other end for ever.
    try:
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PathRefused(f"{path} {_why_not(parent, name, error)}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise PathRefused(f"{path} {_what_else(mode)}")
    return descriptor


def _why_not(parent: int, name: str, error: OSError) -> str:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except OSError:
        return f"cannot be opened: {error.strerror}"
    return f"cannot be opened: {error.strerror}" if stat.S_ISREG(mode) else _what_else(mode)


def _what_else(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "is a symbolic link, which file tools do not follow"
    return "is a directory" if stat.S_ISDIR(mode) else "is no regular file"


def read_whole(file: IO[bytes], path: str) -> bytes:
    """All of a file's bytes.

    Raises:
        PathRefused: it is larger than `LARGEST_READ_BYTES`.
    """
    data = bytearray()
    while len(data) <= LARGEST_READ_BYTES:
        chunk = file.read(LARGEST_READ_BYTES + 1 - len(data))
        if not chunk:
            return bytes(data)
        data += chunk
    raise PathRefused(f"{path} is larger than {LARGEST_READ_BYTES >> 20} MiB; use the terminal for it")


def write_all(file: IO[bytes], data: bytes) -> None:
    """Replace a file's bytes, from where it stands at the beginning."""
    file.truncate(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
