"""What ought to be in the row files, in few bytes for each: a run may have a hundred thousand of them."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from heapq import merge
from typing import Self

import msgspec

from ..view_names import batch_name, batch_number, row_file_order

_DIGEST_BYTES = 16
_HEADROOM = 4096


class Content(msgspec.Struct, gc=False):
    """What ought to be in a file: its length, and a digest chained from line to line."""

    length: int = 0
    digest: bytes = b""

    def add(self, line: bytes) -> None:
        """This line comes at the end."""
        self.length += len(line)
        self.digest = hashlib.sha256(self.digest + line).digest()[:_DIGEST_BYTES]


class Contents(MutableMapping[str, Content]):
    """The content of each file, by its name: batch files in numeric order, then the others.

    A batch file costs 24 bytes. What is given out is a copy: whoever changes it has to set it again. A file
    without a line is not there.
    """

    def __init__(self, content: Mapping[str, Content] | None = None) -> None:
        self._lengths = array("Q")
        self._digests = bytearray()
        self._others: dict[str, Content] = {}
        self._there = 0
        self.update(content or {})

    def __getitem__(self, name: str) -> Content:
        at = self._place(name)
        if at is None or not self._lengths[at]:
            other = self._others[name]
            return Content(other.length, other.digest)
        return Content(self._lengths[at], bytes(self._digests[at * _DIGEST_BYTES : (at + 1) * _DIGEST_BYTES]))

    def __setitem__(self, name: str, content: Content) -> None:
        if not content.length:
            self.pop(name, None)
            return
        at = self._place(name, grow=name not in self._others)
        if at is None:
            self._others[name] = Content(content.length, content.digest)
            return
        self._there += not self._lengths[at]
        self._lengths[at] = content.length
        self._digests[at * _DIGEST_BYTES : (at + 1) * _DIGEST_BYTES] = content.digest

    def __delitem__(self, name: str) -> None:
        at = self._place(name)
        if at is None or not self._lengths[at]:
            del self._others[name]
            return
        self._lengths[at] = 0
        self._there -= 1

    def __iter__(self) -> Iterator[str]:
        for at, length in enumerate(self._lengths):
            if length:
                yield batch_name(at + 1)
        yield from self._others

    def batch_files(self) -> Iterator[str]:
        """The batch files, in numeric order."""
        dense = (batch_name(at + 1) for at, length in enumerate(self._lengths) if length)
        far = sorted((name for name in self._others if batch_number(name) is not None), key=row_file_order)
        yield from merge(dense, far, key=row_file_order)

    def others(self) -> Iterator[str]:
        """The files that are not a batch's."""
        return (name for name in self._others if batch_number(name) is None)

    def __len__(self) -> int:
        return self._there + len(self._others)

    def _place(self, name: str, *, grow: bool = False) -> int | None:
        """Where a batch file's numbers stand; null for other files, and batches far beyond all others."""
        number = batch_number(name)
        if number is None:
            return None
        if number > len(self._lengths):
            if not grow or number > 2 * len(self._lengths) + _HEADROOM:
                return None
            more = number - len(self._lengths)
            self._lengths.frombytes(bytes(more * self._lengths.itemsize))
            self._digests.extend(bytes(more * _DIGEST_BYTES))
        return number - 1

    def copy(self) -> "Contents":
        """The same at this moment, of its own."""
        made = Contents()
        made._lengths, made._digests = self._lengths[:], self._digests[:]
        made._others = {name: Content(one.length, one.digest) for name, one in self._others.items()}
        made._there = self._there
        return made

    def add(self, name: str, lines: Iterable[bytes]) -> None:
        """These lines come at the end of a file."""
        content = self.get(name) or Content()
        for line in lines:
            content.add(line)
        self[name] = content

    def parts(self) -> dict[str, bytes]:
        """All of it as named pieces of bytes."""
        return {
            "rows.lengths": self._lengths.tobytes(),
            "rows.digests": bytes(self._digests),
            "rows.others": msgspec.msgpack.encode(self._others),
        }

    @classmethod
    def of_parts(cls, parts: Mapping[str, bytes | memoryview]) -> Self:
        """What the pieces were made of."""
        made = cls()
        made._lengths.frombytes(parts["rows.lengths"])
        made._digests = bytearray(parts["rows.digests"])
        made._others = msgspec.msgpack.decode(parts["rows.others"], type=dict[str, Content])
        made._there = sum(length > 0 for length in made._lengths)
        return made
