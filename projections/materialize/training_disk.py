"""Directories and files of a training run's views: brought to what they ought to be, or compared with it."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from eventlog.events import FileEntry
from eventlog.storage import AppendFile, RealFileSystem, replace_file

from ..training_contents import Contents
from ..training_trees import Tree
from .window import Why, Window

_MADE = ".tree-"


def sweep_trees(directory: Path) -> None:
    """Remove what killed processes left half made."""
    for left in directory.glob(f"{_MADE}*"):
        shutil.rmtree(left, ignore_errors=True)


def remove(path: Path) -> None:
    """Take away whatever has this name, if anything has."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_empty(above: Path, directory: Path) -> None:
    """Take away a directory if nothing is in it, and then `above` likewise."""
    for place in (directory, above):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def bring_tree(place: Path, tree: Tree, contents: Contents) -> None:
    """Let a directory hold these files and nothing else.

    One that is not there comes into being whole, under its name only when it is complete. In one that is
    there only those files are written that differ.
    """
    if place.is_symlink() or not place.is_dir():
        remove(place)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=_MADE, dir=place.parent))
        try:
            _fill(made, tree, tree.files, contents, _write_new)
            RealFileSystem().rename(str(made), str(place))
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        return
    wrong = dict(compare_tree(place, tree))
    for path in wrong.keys() - tree.files.keys():
        remove(place / path)
    _fill(place, tree, wrong.keys() & tree.files.keys(), contents, _write_over)


def _fill(
    place: Path, tree: Tree, names: Iterable[str], contents: Contents, write: Callable[[Path, bytes], None]
) -> None:
    folders = {*tree.folders, *(path.rpartition("/")[0] for path in names)}
    for folder in sorted(folders):
        _make_folder(place, folder)
    for path in names:
        target, item = place / path, tree.files[path]
        write(target, item if isinstance(item, bytes) else contents.blob(item.digest))
        if isinstance(item, FileEntry) and item.executable:
            target.chmod(0o700)


def _write_new(path: Path, data: bytes) -> None:
    """Into a directory that nobody sees yet."""
    path.touch(0o600, exist_ok=False)
    path.write_bytes(data)


def _write_over(path: Path, data: bytes) -> None:
    """Whoever reads it meanwhile sees the old content or the new."""
    if path.is_symlink() or path.is_dir():
        remove(path)
    replace_file(path, [data])


def _make_folder(place: Path, folder: str) -> None:
    """Make a folder below `place`, over whatever is in the way."""
    for name in folder.split("/") if folder else ():
        place /= name
        if place.is_symlink() or not place.is_dir():
            remove(place)
            place.mkdir(mode=0o700)


def compare_tree(place: Path, tree: Tree) -> Iterator[tuple[str, Why]]:
    """What differs below a directory, by path: files that are missing or other, and what ought not to be."""
    for path, item in tree.files.items():
        why = compare_file(place / path, item)
        if why is not None:
            yield path, why
    for folder in tree.folders:
        if not (place / folder).is_dir():
            yield f"{folder}/", "missing"
    for path in _others(place, tree):
        yield path, "differs"


def compare_file(path: Path, item: bytes | FileEntry) -> Why:
    """Null where the file is what it ought to be."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    if not stat.S_ISREG(found.st_mode):
        return "differs"
    if isinstance(item, bytes):
        return None if path.read_bytes() == item else "differs"
    runs = bool(found.st_mode & stat.S_IXUSR)
    same = found.st_size == item.size_bytes and runs == item.executable and digest_of(path) == item.digest
    return None if same else "differs"


def digest_of(path: Path) -> bytes:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _others(place: Path, tree: Tree) -> Iterator[str]:
    """What is below a directory and ought not to be."""
    folders = {*tree.folders, *(path for name in tree.files for path in _above(name))}
    for at, inner, names in os.walk(place):
        relative = Path(at).relative_to(place)
        for name in list(inner):
            path = (relative / name).as_posix()
            if path not in folders or Path(at, name).is_symlink():
                inner.remove(name)
                if path not in tree.files:
                    yield path
        for name in names:
            path = (relative / name).as_posix()
            if path not in tree.files and path not in folders:
                yield path


def _above(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:length]) for length in range(1, len(parts)))


def bring_file(path: Path, data: bytes) -> None:
    """Let a file hold this."""
    if compare_file(path, data) is not None:
        if path.is_dir() and not path.is_symlink():
            remove(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, [data])


def bring_link(path: Path, target: str) -> None:
    """Let a symbolic link point to a name beside it."""
    if path.is_symlink() and path.readlink() == Path(target):
        return
    if path.is_dir() and not path.is_symlink():
        remove(path)
    made = path.with_name(f".{path.name}.{os.getpid()}.partial")
    made.unlink(missing_ok=True)
    made.symlink_to(target)
    RealFileSystem().rename(str(made), str(path))


Lines = Callable[[], Iterable[bytes]]


class Growing:
    """A file of lines that people follow: it grows at its end, and is written anew only if it was altered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size: int | None = None

    def add(self, lines: bytes, whole: Lines) -> None:
        """Append these lines; `whole` gives all lines that there ought to be then, should it be otherwise."""
        if self._size is not None:
            with AppendFile(self.path) as file:
                if file.size_bytes == self._size:
                    file.append(lines)
                    self._size = file.size_bytes
                    return
        self.put_right(whole)

    def put_right(self, whole: Lines) -> None:
        """Let it hold these lines: what is missing is added, half a line completed. No lines: no file."""
        self._size = None
        if self.path.is_symlink() or self.path.is_dir():
            remove(self.path)
        window = Window(self.path)
        for line in whole():
            window.take(line)
        why = window.why()
        if why is not None:
            self._write(whole, why)
        self._size = self.path.stat().st_size if self.path.exists() else 0
        if not self._size:
            self.path.unlink(missing_ok=True)

    def _write(self, whole: Lines, why: Why) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if why == "differs":
            replace_file(self.path, whole())
            return
        with AppendFile(self.path) as file:
            there = file.size_bytes
            for line in whole():
                if there < len(line):
                    file.append(line[there:])
                there = max(0, there - len(line))
