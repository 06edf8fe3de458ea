"""A column of whole numbers in as few bytes as its largest one needs."""

import sys
from array import array
from typing import Final, Literal

_Code = Literal["B", "H", "I", "Q", "i", "q"]
_WIDER: Final[dict[str, _Code]] = {"B": "H", "H": "I", "I": "Q", "i": "q"}


class Column:
    """Numbers by ordinal; 0 where none was put, and what lies past the last one that was put takes no room.

    It begins with narrow cells and changes to wider ones when a number does not fit. What 64 bits cannot hold
    is an OverflowError that changes nothing. `cells` may be read by who stays within their length; they are
    another object after a number made them wider.
    """

    __slots__ = ("cells",)

    def __init__(self, code: _Code = "B") -> None:
        self.cells: array[int] = array(code)

    def get(self, ordinal: int) -> int:
        """The number at an ordinal."""
        cells = self.cells
        return cells[ordinal] if ordinal < len(cells) else 0

    def put(self, ordinal: int, number: int) -> None:
        """Set the number at an ordinal."""
        if ordinal >= len(self.cells):
            if not number:
                return
            array("q" if self.cells.typecode in "iq" else "Q", (number,))  # an OverflowError before all else
            self.cells.frombytes(bytes((ordinal + 1 - len(self.cells)) * self.cells.itemsize))
        while True:
            try:
                self.cells[ordinal] = number
            except OverflowError:
                self._widen()
            else:
                return

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
    def of_part(cls, part: bytes | memoryview) -> "Column":
        """The column that `part` is all of.

        Raises:
            ValueError: it is of none.
        """
        code = bytes(part[:1]).decode("latin-1")
        if code not in {"B", "H", "I", "Q", "i", "q"}:
            raise ValueError(f"a column of numbers: found cells of type {code!r}")
        column = cls()
        column.cells = array(code)
        column.cells.frombytes(memoryview(part)[1:])
        if sys.byteorder == "big":
            column.cells.byteswap()
        return column
