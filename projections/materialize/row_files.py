"""The files that grow by rows: what is put into them, and what is known of their content."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from eventlog.storage import AppendFile

from ..row_stream import Row
from ..view_names import batch_number, row_file_order
from .contents import Content, Contents

_BUFFER_BYTES = 4 << 20


class RowBuffer:
    """Rows on their way to their files, a bounded number of bytes at a time.

    Rows for files in `stale` are dropped: such a file has to be made anew from the log. Those for files in
    `waiting` are held, because such a file is being made anew just now.
    """

    def __init__(self) -> None:
        self.stale: set[str] = set()
        self.waiting: set[str] = set()
        self._lines: dict[str, list[bytes]] = {}
        self._held_bytes = 0
        self._taken: deque[dict[str, list[bytes]]] = deque()
        self._writing = threading.Lock()

    def put(self, row: Row) -> None:
        """Take one row; now and then all that is held is written."""
        if row.file in self.stale:
            return
        self._lines.setdefault(row.file, []).append(row.line)
        self._held_bytes += len(row.line)
        if self._held_bytes >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all that is held."""
        self.begin_flush()()

    def begin_flush(self) -> Callable[[], None]:
        """Take all that is held; what comes back writes it, in any thread.

        Rows may be put meanwhile. Whoever flushes before the writing is done waits for it; what nobody
        wrote is written by the next flush.
        """
        taken, self._lines, self._held_bytes = self._lines, {}, 0
        for name in self.waiting & taken.keys():
            self._lines[name] = taken.pop(name)
        self._taken.append(taken)
        return self._write

    def _write(self) -> None:
        with self._writing:
            while self._taken:
                for name, held in self._taken.popleft().items():
                    if name not in self.stale:
                        self.take(name, held)

    def take(self, name: str, lines: list[bytes]) -> None:
        """These lines come at the end of a file."""
        raise NotImplementedError


class RowFiles(RowBuffer):
    """The row files of one directory, written by appending.

    `content` says of each file what ought to be in it. A file that cannot be written becomes stale, and
    `problem` keeps the error; nothing is raised.
    """

    def __init__(self, directory: Path, content: Contents | None = None) -> None:
        super().__init__()
        self.directory = directory
        self.content = Contents() if content is None else content
        self.problem: OSError | None = None

    def take(self, name: str, lines: list[bytes]) -> None:
        """Append to a file."""
        try:
            self.write(name, self.content.get(name) or Content(), b"".join(lines))
        except OSError as error:
            self.stale.add(name)
            self.problem = error
        self.content.add(name, lines)

    def settled(self) -> Callable[[], Contents]:
        """What will be in the files when all rows that were put so far are written; to be asked once.

        Asking may be left to another thread, and costs as much as there are rows to write.
        """
        with self._writing:
            content = self.content.copy()
            lines = [*self._taken, {name: list(held) for name, held in self._lines.items()}]

        def ask() -> Contents:
            for some in lines:
                for name, held in some.items():
                    content.add(name, held)
            return content

        return ask

    def begin_remake(self) -> set[str]:
        """Take the stale files out of the way, to be made anew as they are at this moment.

        Rows for them wait until `end_remake`.
        """
        with self._writing:
            names, self.stale = self.stale, set()
            for lines in (*self._taken, self._lines):
                for name in names & lines.keys():
                    del lines[name]
            self.waiting |= names
        return names

    def end_remake(self, names: set[str], put: Callable[[], Contents]) -> None:
        """Have `put` bring the files of `names` into place; it says what is in them."""
        with self._writing:
            made = put()
            for name in names:
                self.content.pop(name, None)
            self.content.update(made)
            self.waiting -= names

    def leave_stale(self, names: set[str]) -> None:
        """They could not be made anew."""
        with self._writing:
            self.stale |= names
            self.waiting -= names

    def write(self, name: str, content: Content, data: bytes) -> None:
        """Put `data` after the `content` of a file."""
        with AppendFile(self.directory / name) as file:
            if file.size_bytes != content.length:
                # Somebody else wrote or cut it; the log knows better.
                self.stale.add(name)
            else:
                file.append(data)


class RepairedFiles(RowFiles):
    """The row files of a directory where a run was before: what is right stays, what is missing is added.

    What differs makes the file stale.
    """

    def write(self, name: str, content: Content, data: bytes) -> None:
        """Compare `data` with what the file has after `content`; add what a crash left out."""
        found = read_at(self.directory / name, content.length, len(data))
        if found == data:
            return
        if not data.startswith(found):
            self.stale.add(name)
            return
        with AppendFile(self.directory / name) as file:
            file.append(data[len(found) :])

    def finish(self) -> None:
        """Files that go on after what ought to be their end become stale."""
        self.flush()
        for name, content in self.content.items():
            if name not in self.stale and size_of(self.directory / name) != content.length:
                self.stale.add(name)


class Altered(Exception):
    """A view file holds something else than the log says."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def verified_lines(path: Path, content: Content, *, growing: bool = False) -> Iterator[bytes]:
    """The lines of a file. One that is `growing` may go on after its content.

    Raises:
        Altered: at its end, if it does not hold what it ought to.
    """
    found = Content()
    try:
        with path.open("rb") as file:
            for line in file:
                if growing and found.length == content.length:
                    break
                found.add(line)
                yield line
                if found.length > content.length:
                    break
    except FileNotFoundError:
        pass
    if found != content:
        raise Altered(path.name)


def holds(path: Path, content: Content) -> bool:
    """Whether a file holds what it ought to, and nothing else."""
    try:
        for _ in verified_lines(path, content):
            pass
    except Altered:
        return False
    return True


def batch_files(names: Iterable[str]) -> list[str]:
    """The batch files among these, in numeric order."""
    return sorted((name for name in names if batch_number(name) is not None), key=row_file_order)


def read_at(path: Path, offset: int, length: int) -> bytes:
    """So many bytes of a file from an offset; fewer at its end, none where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError:
        return b""


def size_of(path: Path) -> int:
    """A file's size in bytes; 0 where there is no file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
