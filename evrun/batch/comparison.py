"""How a dataset compares with what was planned, by content alone. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from projections import unit_key

from .identities import Identities, UnitNames


class NewSamples:
    """The samples of a dataset's rows that are not in the plan.

    All of a new row, some of a known one where more were asked for, or all of one that is back. A byte for
    each; `len` counts rows.
    """

    def __init__(self, rows: int, samples: int) -> None:
        self._samples = samples
        self._planned = bytearray(rows * samples)
        self._rows: int | None = None

    def __len__(self) -> int:
        if self._rows is None:
            self._rows = sum(self.any_of(row) for row in range(len(self._planned) // self._samples))
        return self._rows

    def planned(self, row: int, sample: int) -> None:
        """This sample of the row at a place is in the plan."""
        self._planned[row * self._samples + sample - 1] = 1
        self._rows = None

    def any_of(self, row: int) -> bool:
        """Whether the row at a place has new samples."""
        return self._planned.find(0, row * self._samples, (row + 1) * self._samples) >= 0

    def of(self, row: int) -> list[int]:
        """The new samples of the row at a place, ascending."""
        start = row * self._samples
        return [n + 1 for n in range(self._samples) if not self._planned[start + n]]


class Comparison(NamedTuple):
    """A dataset against a plan: how many rows are known, and what is new or gone.

    `gone` are units; `rows_new` and `rows_gone` count rows.
    """

    known: int
    new: NewSamples
    gone: UnitNames
    rows_new: int
    rows_gone: int


def compare(identities: Identities, planned: Iterable[tuple[str, bool]], samples: int) -> Comparison:
    """Compare a dataset by content with the units planned so far.

    `planned` holds (unit name, whether it was withdrawn before), in planned order.
    """
    new = NewSamples(len(identities), samples)
    known = bytearray(len(identities))
    gone, rows_gone = UnitNames(), UnitNames()
    for unit, withdrawn in planned:
        key = unit_key(unit)
        assert key is not None  # it was planned
        content, occurrence, sample = key
        row = identities.place_of(content, occurrence)
        if row is not None:
            known[row] = 1
        if withdrawn:
            continue
        if row is None:
            rows_gone.add(content, occurrence)
        if row is None or sample > samples:
            gone.add(content, occurrence, sample)
        else:
            new.planned(row, sample)
    rows_known = known.count(1)
    return Comparison(rows_known, new, gone, len(identities) - rows_known, len(rows_gone))
