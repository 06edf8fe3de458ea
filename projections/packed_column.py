"""A column of whole numbers in as few bytes as its largest one needs."""

import sys
from array import array
from typing import Final, Literal

_Code = Literal["B", "H", "I", "Q", "i", "q"]
_WIDER: Final[dict[str, _Code]] = {"B": "H", "H": "I", "I": "Q", "i": "q"}
_CODES: Final[dict[bytes, _Code]] = {b"B": "B", b"H": "H", b"I": "I", b"Q": "Q", b"i": "i", b"q": "q"}


class Column:
    """Numbers by ordinal; `absent` where none was put. What lies past the last other one takes no room.

    It begins with narrow cells and changes to wider ones when a number does not fit. What 64 bits cannot hold
    is an OverflowError that changes no number. `cells` may be read by who stays within their length; they are
    another object after a number made them wider.
    """

    __slots__ = ("absent", "cells")

    def __init__(self, code: _Code = "B", absent: int = 0) -> None:
        self.cells: array[int] = array(code)
        self.absent: Final = absent

    def get(self, ordinal: int) -> int:
        """The number at an ordinal."""
        cells = self.cells
        return cells[ordinal] if ordinal < len(cells) else self.absent

    def put(self, ordinal: int, number: int) -> None:
        """Set the number at an ordinal."""
        cells = self.cells
        if ordinal >= len(cells):
            if number == self.absent:
                return
            if ordinal > len(cells):
                cells.extend(array(cells.typecode, (self.absent,)) * (ordinal - len(cells)))
        try:
            if ordinal == len(cells):
                cells.append(number)
            else:
                cells[ordinal] = number
        except OverflowError:
            self._widen()
            self.put(ordinal, number)

    def _widen(self) -> None:
        code = _WIDER.get(self.cells.typecode)
        if code is None:
            raise OverflowError("a whole number of more than 64 bits")
        self.cells = array(code, self.cells)

    def part(self) -> bytes:
        """All of it: the cells' type, then the cells, the lowest byte first."""
        cells = self.cells
        if sys.byteorder == "big":
            cells = array(cells.typecode, cells)
            cells.byteswap()
        return cells.typecode.encode() + cells.tobytes()

    @classmethod
    def of_part(cls, part: bytes | memoryview, absent: int = 0) -> "Column":
        """The column that `part` is all of.

        Raises:
            ValueError: it is of none.
        """
        code = _CODES.get(bytes(part[:1]))
        if code is None:
            raise ValueError(f"a column of numbers was expected, found cells of type {bytes(part[:1])!r}")
        column = cls(code, absent)
        column.cells.frombytes(memoryview(part)[1:])
        if sys.byteorder == "big":
            column.cells.byteswap()
        return column
