"""Small records by the name of a row file, in few bytes each: a run may have a hundred thousand of them."""

import struct
from collections.abc import Iterator
from heapq import merge
from typing import Any

from ..view_names import batch_name, batch_number, row_file_order

_HEADROOM = 4096


class Packed:
    """Records of a fixed form, by name: batch files in numeric order, then the others.

    `form` is one of `struct`, without the byte order. A batch file's record costs its size and one byte.
    """

    def __init__(self, form: str) -> None:
        self._form = struct.Struct(f"<?{form}")
        self._data = bytearray()
        self._others: dict[str, tuple[Any, ...]] = {}

    def get(self, name: str) -> tuple[Any, ...] | None:
        """The record of a file; null where it has none."""
        at = self._place(name)
        if at is not None and self._data[at]:
            return self._form.unpack_from(self._data, at)[1:]
        return self._others.get(name)

    def put(self, name: str, *fields: Any) -> None:
        """This is the file's record now."""
        at = None if name in self._others else self._place(name, grow=True)
        if at is None:
            self._others[name] = fields
        else:
            self._form.pack_into(self._data, at, True, *fields)  # noqa: FBT003 (it is there)

    def pop(self, name: str) -> None:
        """The file has no record."""
        at = self._place(name)
        if at is not None:
            self._data[at] = 0
        self._others.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self.batch_files()
        yield from self.others()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def batch_files(self) -> Iterator[str]:
        """The batch files, in numeric order."""
        size = self._form.size
        near = (batch_name(at // size + 1) for at in range(0, len(self._data), size) if self._data[at])
        far = sorted((name for name in self._others if batch_number(name) is not None), key=row_file_order)
        return merge(near, far, key=row_file_order)

    def others(self) -> Iterator[str]:
        """The files that are not a batch's."""
        return (name for name in self._others if batch_number(name) is None)

    def copy(self) -> "Packed":
        """The same at this moment, of its own."""
        made = Packed(self._form.format[2:])
        made._data, made._others = self._data[:], dict(self._others)
        return made

    def bytes_and_others(self) -> tuple[bytes, dict[str, tuple[Any, ...]]]:
        """All of it."""
        return bytes(self._data), dict(self._others)

    def restore(self, data: bytes | memoryview, others: dict[str, tuple[Any, ...]]) -> None:
        """Be what another one was."""
        self._data, self._others = bytearray(data), others

    def _place(self, name: str, *, grow: bool = False) -> int | None:
        """Where a batch file's record stands; null for other files, and for batches far beyond all others."""
        number = batch_number(name)
        if number is None:
            return None
        size = self._form.size
        there = len(self._data) // size
        if number > there:
            if not grow or number > 2 * there + _HEADROOM:
                return None
            # Never more than some kilobytes beyond what is needed.
            self._data.extend(bytes((number - there) * size))
        return (number - 1) * size
