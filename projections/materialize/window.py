"""A stretch of a file, compared with what ought to be there as that becomes known."""

from pathlib import Path
from typing import Literal

import msgspec

from .row_files import read_at, size_of

Why = Literal["missing", "behind", "differs"] | None


class FileCheck(msgspec.Struct, frozen=True):
    """A view compared with what the log says: `why` is null where it is the same.

    ``behind`` means that the log says all this and more, as after a kill -9: no damage.
    """

    path: str
    same: bool
    why: Why


class Window:
    """Compares a file, from `start` to `end` (else its own end), with data that comes piece by piece."""

    __slots__ = ("_end", "_path", "_place", "_why")

    def __init__(self, path: Path, start: int = 0, end: int | None = None) -> None:
        self._path = path
        self._place = start
        self._end = end
        self._why: Why = None if path.exists() else "missing"

    def take(self, data: bytes) -> None:
        """`data` ought to come next."""
        if self._why is not None:
            return
        length = len(data) if self._end is None else min(len(data), self._end - self._place)
        found = read_at(self._path, self._place, length)
        self._place += len(found)
        if found != data:
            self._why = "behind" if data.startswith(found) else "differs"

    def why(self) -> Why:
        """Null where all that came is there and nothing else; else what is the matter.

        ``behind``: what is there is right, and ends too early.
        """
        if self._why in {None, "behind"} and self._place != self._size():
            return "differs"
        return self._why

    def _size(self) -> int:
        return size_of(self._path) if self._end is None else self._end
