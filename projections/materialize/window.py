"""A stretch of a file, compared with what ought to be there as that becomes known."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from .packed import Packed
from .row_files import read_at, size_of

Why = Literal["missing", "behind", "differs"] | None
_WHYS: Final[tuple[Why, ...]] = (None, "missing", "behind", "differs")


class FileCheck(msgspec.Struct, frozen=True):
    """A view compared with what the log says: `why` is null where it is the same.

    ``behind`` means that the log says all this and more, as after a kill -9: no damage.
    """

    path: str
    same: bool
    why: Why


class Stretch(NamedTuple):
    """Part of a file: from a byte to another one, or to the file's own end."""

    path: Path
    start: int = 0
    end: int | None = None


class Window:
    """Compares a file, from `start` to `end` (else its own end), with data that comes piece by piece."""

    __slots__ = ("_end", "_path", "_why", "place")

    def __init__(self, path: Path, start: int = 0, end: int | None = None, so_far: int | None = None) -> None:
        self._path = path
        self.place = start
        self._end = end
        self._why: Why
        if so_far is None:
            self._why = None if path.exists() else "missing"
        else:
            self._why = _WHYS[so_far]

    @property
    def so_far(self) -> int:
        """What was found so far, as a small number: one that is given this goes on from there."""
        return _WHYS.index(self._why)

    def take(self, data: bytes) -> None:
        """`data` ought to come next."""
        if self._why is not None:
            return
        length = len(data) if self._end is None else min(len(data), self._end - self.place)
        found = read_at(self._path, self.place, length)
        self.place += len(found)
        if found != data:
            self._why = "behind" if data.startswith(found) else "differs"

    def why(self) -> Why:
        """Null where all that came is there and nothing else; else what is the matter.

        ``behind``: what is there is right, and ends too early.
        """
        if self._why in {None, "behind"} and self.place != self._size():
            return "differs"
        return self._why

    def _size(self) -> int:
        return size_of(self._path) if self._end is None else self._end


class Windows:
    """A window for each row file, in ten bytes each; `stretch` says where a file's window looks."""

    def __init__(self, stretch: Callable[[str], Stretch]) -> None:
        self._stretch = stretch
        self._packed = Packed("QB")

    def take(self, name: str, data: bytes) -> None:
        """`data` ought to come next where this file's window looks."""
        window = self.get(name) or Window(*self._stretch(name))
        window.take(data)
        self._packed.put(name, window.place, window.so_far)

    def get(self, name: str) -> Window | None:
        """The window of a file; null where nothing was taken for it."""
        found = self._packed.get(name)
        if found is None:
            return None
        place, so_far = found
        stretch = self._stretch(name)
        return Window(stretch.path, place, stretch.end, so_far)

    def why(self, name: str) -> Why:
        """As the window of this file says, which there must be."""
        window = self.get(name)
        assert window is not None, "something was taken for it"
        return window.why()

    def __contains__(self, name: object) -> bool:
        return name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)
