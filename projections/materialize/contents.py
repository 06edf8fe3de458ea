"""What ought to be in the row files."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Self

import msgspec

from .packed import Packed

_DIGEST_BYTES = 16
_DATA, _OTHERS, _STALE = "rows.files", "rows.others", "rows.stale"


class Content(msgspec.Struct, gc=False):
    """What ought to be in a file: its length, and a digest chained from line to line."""

    length: int = 0
    digest: bytes = b""

    def add(self, line: bytes) -> None:
        """This line comes at the end."""
        self.length += len(line)
        self.digest = hashlib.sha256(self.digest + line).digest()[:_DIGEST_BYTES]


class Contents(MutableMapping[str, Content]):
    """The content of each file, by its name, in 25 bytes: batch files in numeric order, then the others.

    What is given out is a copy: whoever changes it has to set it again.
    """

    def __init__(self, packed: Packed | None = None) -> None:
        self._packed = Packed(f"Q{_DIGEST_BYTES}s") if packed is None else packed

    def __getitem__(self, name: str) -> Content:
        found = self._packed.get(name)
        if found is None:
            raise KeyError(name)
        return Content(*found)

    def __setitem__(self, name: str, content: Content) -> None:
        self._packed.put(name, content.length, content.digest)

    def __delitem__(self, name: str) -> None:
        if name not in self._packed:
            raise KeyError(name)
        self._packed.pop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def batch_files(self) -> Iterator[str]:
        """The batch files, in numeric order."""
        return self._packed.batch_files()

    def others(self) -> Iterator[str]:
        """The files that are not a batch's."""
        return self._packed.others()

    def add(self, name: str, lines: Iterable[bytes]) -> None:
        """These lines come at the end of a file."""
        content = self.get(name) or Content()
        for line in lines:
            content.add(line)
        self[name] = content

    def copy(self) -> "Contents":
        """The same at this moment, of its own."""
        return Contents(self._packed.copy())

    def parts(self) -> dict[str, bytes]:
        """All of it as named pieces of bytes."""
        data, others = self._packed.bytes_and_others()
        return {_DATA: data, _OTHERS: msgspec.msgpack.encode(others)}

    @classmethod
    def of_parts(cls, parts: Mapping[str, bytes | memoryview]) -> Self:
        """What the pieces were made of."""
        made = cls()
        others = msgspec.msgpack.decode(parts[_OTHERS], type=dict[str, tuple[Any, ...]])
        made._packed.restore(parts[_DATA], others)
        return made


def stale_part(names: Iterable[str]) -> dict[str, bytes]:
    """The names of the files whose content is not known, as a named piece of bytes."""
    return {_STALE: msgspec.msgpack.encode(sorted(names))}


def stale_of(parts: Mapping[str, bytes | memoryview]) -> set[str]:
    """The names that the piece was made of."""
    return set(msgspec.msgpack.decode(parts[_STALE], type=list[str]))
