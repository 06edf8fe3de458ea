"""Where every unit of a batch run stands: a mapping from names to views of packed rows."""

from array import array
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeVar, overload

from .unit_marks import GONE, OUTCOME_OF, SCORED, marked
from .unit_rows import Unit, UnitRows
from .units import ENDED, OPEN, PENDING, unit_key, unit_name

_T = TypeVar("_T")

# Units found last, by name: those that are worked on are asked for again and again.
_NEAR: Final = 2048


class EndedUnit(NamedTuple):
    """A unit that has ended: its prompt's id, its sample, its batch, its outcome."""

    prompt_id: str
    sample: int
    batch: int
    outcome: str


class FrozenOutcomes:
    """How every unit stood at one moment, in one byte a unit; may be read in another thread.

    All else that it gives never changes once it is planned, and is read where the table has it.
    """

    __slots__ = ("_marks", "_rows")

    def __init__(self, rows: UnitRows) -> None:
        self._rows = rows
        self._marks = bytes(rows.marks)

    def __len__(self) -> int:
        return len(self._marks)

    def ended(self) -> Iterator[EndedUnit]:
        """The units that had ended, in the order of planning."""
        rows, marks = self._rows, self._marks
        for ordinal in marked(marks, ENDED):
            content, occurrence, sample = rows.keys.key(ordinal)
            prompt_id = f"{content.hex()}#{occurrence}"
            yield EndedUnit(prompt_id, sample, rows.batch.get(ordinal), OUTCOME_OF[marks[ordinal]])


class UnitTable:
    """Units by name, in the order of planning; nothing is ever taken out.

    A unit takes some 60 bytes and no object of its own: what is given is a view of its row.
    """

    def __init__(self, rows: UnitRows | None = None) -> None:
        self._rows = UnitRows() if rows is None else rows
        self._near: dict[str, Unit] = {}

    def __repr__(self) -> str:
        return f"<UnitTable of {len(self)}>"

    def __len__(self) -> int:
        return len(self._rows.marks)

    @overload
    def get(self, name: str) -> Unit | None: ...
    @overload
    def get(self, name: str, default: _T) -> Unit | _T: ...

    def get(self, name: str, default: object = None) -> object:
        """The unit with a name; `default` if there is none."""
        unit = self._near.get(name)
        if unit is not None:
            return unit
        key = unit_key(name)
        ordinal = None if key is None else self._rows.keys.find(*key)
        if ordinal is None:
            return default
        return self._hold(name, ordinal)

    def _hold(self, name: str, ordinal: int) -> Unit:
        if len(self._near) >= _NEAR:
            self._near.clear()
        unit = self._near[name] = Unit(self._rows, ordinal)
        return unit

    def __getitem__(self, name: str) -> Unit:
        unit = self.get(name)
        if unit is None:
            raise KeyError(name)
        return unit

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of planning; with those that are added meanwhile."""
        key = self._rows.keys.key
        return (unit_name(*key(ordinal)) for ordinal in self._ordinals())

    def keys(self) -> Iterator[str]:
        """As iteration."""
        return iter(self)

    def values(self) -> Iterator[Unit]:
        """The units, one after the other, in the order of planning."""
        rows = self._rows
        return (Unit(rows, ordinal) for ordinal in self._ordinals())

    def items(self) -> Iterator[tuple[str, Unit]]:
        """Names and units, one after the other, in the order of planning."""
        rows, key = self._rows, self._rows.keys.key
        return ((unit_name(*key(ordinal)), Unit(rows, ordinal)) for ordinal in self._ordinals())

    def add(
        self,
        content: bytes,
        occurrence: int,
        sample: int,
        *,
        index: int,
        batch: int,
        planned: int,
        position: int,
    ) -> Unit:
        """The unit of a key: a new one, pending, at this place; one that there was stays as it is.

        So whether it is new is told by the table's length.

        Raises:
            ValueError: the content is not 16 bytes.
            OverflowError: a number is negative, or has more than 64 bits.
        """
        rows = self._rows
        ordinal = rows.keys.add(content, occurrence, sample)
        if ordinal == len(rows.marks):
            rows.index.put(ordinal, index)
            rows.batch.put(ordinal, batch)
            rows.planned.put(ordinal, planned)
            rows.position.put(ordinal, position)
            rows.marks.append(0)
        return Unit(rows, ordinal)

    def names_with(self, *outcomes: str, gone: bool = True) -> Iterator[str]:
        """The names of the units that have one of these outcomes when their turn comes, in planned order.

        The fold may go on meanwhile. Without `gone`, those whose rows were withdrawn are left out.
        """
        for ordinal in marked(self._rows.marks, outcomes, without=0 if gone else GONE):
            name = unit_name(*self._rows.keys.key(ordinal))
            # Whoever is given the name will ask for the unit.
            self._hold(name, ordinal)
            yield name

    def units_with(self, *outcomes: str) -> Iterator[Unit]:
        """As `names_with`, the units."""
        rows = self._rows
        return (Unit(rows, ordinal) for ordinal in marked(rows.marks, outcomes))

    def outcomes_now(self) -> FrozenOutcomes:
        """How all units stand, fit to be read in another thread while the fold goes on."""
        return FrozenOutcomes(self._rows)

    def scores(self, *outcomes: str) -> "array[float]":
        """The scores of the units with one of these outcomes, where they have one."""
        scores = self._rows.scores
        return array("d", (scores[ordinal] for ordinal in marked(self._rows.marks, outcomes, also=SCORED)))

    def batches(self) -> tuple[int, int]:
        """How many batches have units, and in how many of them all units have ended or are withdrawn."""
        # Each batch has a unit, so its number is not above theirs, but for a log that somebody made up.
        there, left = bytearray(len(self) + 1), bytearray(len(self) + 1)
        odd: dict[int, bool] = {}
        for ordinal, mark in enumerate(self._rows.marks):
            batch, goes_on = self._rows.batch.get(ordinal), OUTCOME_OF[mark] in {PENDING, OPEN}
            if batch < len(there):
                there[batch] = 1
                left[batch] |= goes_on
            else:
                odd[batch] = odd.get(batch, False) or goes_on
        total = there.count(1) + len(odd)
        return total, total - left.count(1) - sum(odd.values())

    def all_nano_usd(self) -> int:
        """What all units cost, in all their attempts."""
        return sum(self._rows.settled.cells) + sum(self._rows.earlier.cells)

    def parts(self) -> dict[str, bytes]:
        """All of it, as named bytes."""
        return self._rows.parts()

    @classmethod
    def of_parts(cls, parts: Mapping[str, bytes | memoryview]) -> "UnitTable":
        """The table that `parts` are all of.

        Raises:
            KeyError, ValueError: they are of none.
        """
        return cls(UnitRows.of_parts(parts))

    def _ordinals(self) -> Iterator[int]:
        ordinal = 0
        while ordinal < len(self._rows.marks):
            yield ordinal
            ordinal += 1
