"""The columns in which a batch run's units are kept, and one unit of them: a run may have very many."""

import sys
from array import array
from collections.abc import Mapping
from typing import Final

import msgspec

from .packed_column import Column
from .packed_index import PackedIndex
from .unit_marks import CODES, GONE, OUTCOME_BITS, OUTCOME_OF, SCORED, UNKNOWN_TOOLS
from .units import OPEN, PENDING, unit_name

_COUNTED: Final = ("index", "batch", "planned", "position", "attempt", "boundary", "reason")
_MONEY: Final = ("settled", "earlier")
_COLUMNS: Final = (*_COUNTED, *_MONEY)


class UnitRows:
    """One row for each unit, by its ordinal: `keys` has them, `marks` a byte for each, the others columns.

    What most runs have not (scores, superseded money, second attempts) takes no room until it is there.
    `reasons` has every reason once; `reason` says by its place there which one is meant.
    """

    __slots__ = ("_codes", "keys", "marks", "reasons", "scores", *_COLUMNS)

    index: Column
    batch: Column
    planned: Column
    position: Column
    attempt: Column
    boundary: Column
    reason: Column
    settled: Column
    earlier: Column

    def __init__(self) -> None:
        self.keys = PackedIndex()
        self.marks = bytearray()
        self.scores = array("d")
        self.reasons: list[str | None] = [None]
        self._codes: dict[str | None, int] = {None: 0}
        for name in _COUNTED:
            setattr(self, name, Column())
        for name in _MONEY:
            setattr(self, name, Column("i"))

    def code_of(self, reason: str | None) -> int:
        """The number of a reason, which is new if it was not heard before."""
        code = self._codes.get(reason)
        if code is None:
            code = self._codes[reason] = len(self.reasons)
            self.reasons.append(reason)
        return code

    def put_score(self, ordinal: int, score: float) -> None:
        """Keep a unit's score."""
        missing = ordinal + 1 - len(self.scores)
        if missing > 0:
            self.scores.frombytes(bytes(missing * self.scores.itemsize))
        self.scores[ordinal] = score

    def parts(self) -> dict[str, bytes]:
        """All of it, as named bytes."""
        parts = {f"keys.{name}": part for name, part in self.keys.parts().items()}
        parts["marks"] = bytes(self.marks)
        parts["scores"] = _lowest_first(self.scores).tobytes()
        parts["reasons"] = msgspec.msgpack.encode(self.reasons)
        return parts | {name: getattr(self, name).part() for name in _COLUMNS}

    @classmethod
    def of_parts(cls, parts: Mapping[str, bytes | memoryview]) -> "UnitRows":
        """The rows that `parts` are all of.

        Raises:
            KeyError, ValueError: they are of none.
        """
        rows = cls()
        prefix = "keys."
        rows.keys = PackedIndex.of_parts(
            {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}
        )
        rows.marks = bytearray(parts["marks"])
        if len(rows.marks) != len(rows.keys):
            raise ValueError(f"marks of {len(rows.keys)} units were expected, found {len(rows.marks)}")
        rows.scores.frombytes(parts["scores"])
        rows.scores = _lowest_first(rows.scores)
        rows.reasons = msgspec.msgpack.decode(parts["reasons"], type=list[str | None])
        rows._codes = {reason: code for code, reason in enumerate(rows.reasons)}
        for name in _COLUMNS:
            setattr(rows, name, Column.of_part(parts[name]))
        return rows


def _lowest_first(numbers: "array[float]") -> "array[float]":
    """The numbers with their lowest bytes first, or from that back as this machine has them."""
    if sys.byteorder == "little":
        return numbers
    swapped = array("d", numbers)
    swapped.byteswap()
    return swapped


class Unit:
    """One prompt's one sample: a view of its row, which changes as the fold goes on.

    The prompt itself is not here: it is the `position`-th (from 0) row of the `PromptsPlanned` event with
    sequence `planned`. `index` is the row's place in the dataset, `batch` counts from 1, `sample` from 1.
    `attempt` is the newest one (0: none yet), `boundary` the sequence of the event that ended it (0: none
    did). `settled_nano_usd` is what the newest attempt cost so far, `earlier_nano_usd` what superseded ones
    did. `reason` is why it was discarded, or the class of its failure, else null. `gone`: its row was
    withdrawn. `score` is what the judge gave to the newest attempt, `unknown_tools` whether that called a
    tool which was not offered. A number of more than 64 bits is an OverflowError, and changes nothing.
    """

    __slots__ = ("_ordinal", "_rows")

    def __init__(self, rows: UnitRows, ordinal: int) -> None:
        self._rows = rows
        self._ordinal = ordinal

    def __repr__(self) -> str:
        return f"<Unit {self.name}: {self.outcome}, attempt {self.attempt}>"

    @property
    def name(self) -> str:
        """Its name, made when it is asked for."""
        return unit_name(*self._rows.keys.key(self._ordinal))

    @property
    def index(self) -> int:
        """The row's place in the dataset, from 0."""
        return self._rows.index.get(self._ordinal)

    @property
    def batch(self) -> int:
        """Its batch, from 1."""
        return self._rows.batch.get(self._ordinal)

    @property
    def planned(self) -> int:
        """The sequence of the event that planned it."""
        return self._rows.planned.get(self._ordinal)

    @property
    def position(self) -> int:
        """The place of its row in that event, from 0."""
        return self._rows.position.get(self._ordinal)

    @property
    def sample(self) -> int:
        """Which of its row's samples it is, from 1."""
        return self._rows.keys.sample(self._ordinal)

    @property
    def outcome(self) -> str:
        """How it stands."""
        return OUTCOME_OF[self._rows.marks[self._ordinal]]

    @outcome.setter
    def outcome(self, outcome: str) -> None:
        marks = self._rows.marks
        marks[self._ordinal] = marks[self._ordinal] & ~OUTCOME_BITS | CODES[outcome]

    @property
    def gone(self) -> bool:
        """Whether its row was withdrawn."""
        return bool(self._rows.marks[self._ordinal] & GONE)

    @gone.setter
    def gone(self, gone: bool) -> None:
        self._mark(GONE, gone)

    @property
    def unknown_tools(self) -> bool:
        """Whether the newest attempt called a tool that was not offered."""
        return bool(self._rows.marks[self._ordinal] & UNKNOWN_TOOLS)

    @unknown_tools.setter
    def unknown_tools(self, unknown: bool) -> None:
        self._mark(UNKNOWN_TOOLS, unknown)

    def _mark(self, mark: int, on: bool) -> None:  # noqa: FBT001 (it is the value)
        marks = self._rows.marks
        marks[self._ordinal] = marks[self._ordinal] & ~mark | (mark if on else 0)

    @property
    def attempt(self) -> int:
        """Its newest attempt; 0: none yet."""
        return self._rows.attempt.get(self._ordinal)

    @attempt.setter
    def attempt(self, attempt: int) -> None:
        self._rows.attempt.put(self._ordinal, attempt)

    @property
    def boundary(self) -> int:
        """The sequence of the event that ended its newest attempt; 0: none did."""
        return self._rows.boundary.get(self._ordinal)

    @boundary.setter
    def boundary(self, sequence: int) -> None:
        self._rows.boundary.put(self._ordinal, sequence)

    @property
    def settled_nano_usd(self) -> int:
        """What its newest attempt cost so far."""
        return self._rows.settled.get(self._ordinal)

    @settled_nano_usd.setter
    def settled_nano_usd(self, nano_usd: int) -> None:
        self._rows.settled.put(self._ordinal, nano_usd)

    @property
    def earlier_nano_usd(self) -> int:
        """What its superseded attempts cost."""
        return self._rows.earlier.get(self._ordinal)

    @earlier_nano_usd.setter
    def earlier_nano_usd(self, nano_usd: int) -> None:
        self._rows.earlier.put(self._ordinal, nano_usd)

    @property
    def all_nano_usd(self) -> int:
        """What all its attempts cost so far."""
        return self._rows.settled.get(self._ordinal) + self._rows.earlier.get(self._ordinal)

    @property
    def reason(self) -> str | None:
        """Why it was discarded, or the class of its failure."""
        return self._rows.reasons[self._rows.reason.get(self._ordinal)]

    @reason.setter
    def reason(self, reason: str | None) -> None:
        self._rows.reason.put(self._ordinal, self._rows.code_of(reason))

    @property
    def score(self) -> float | None:
        """What the judge gave to its newest attempt; null: nothing."""
        scored = self._rows.marks[self._ordinal] & SCORED
        return self._rows.scores[self._ordinal] if scored else None

    @score.setter
    def score(self, score: float | None) -> None:
        self._mark(SCORED, score is not None)
        if score is not None:
            self._rows.put_score(self._ordinal, score)

    def may_end(self, attempt: int) -> bool:
        """Whether an end of this attempt fits: it is the open one, or it ends without having begun.

        The latter is a row that cannot even be tried.
        """
        outcome = self.outcome
        if outcome == OPEN:
            return attempt == self.attempt
        return outcome == PENDING and attempt > self.attempt

    def begin(self, attempt: int) -> None:
        """An attempt begins: nothing of what was known of the one before is true of it. `outcome` stays."""
        rows, ordinal = self._rows, self._ordinal
        rows.marks[ordinal] &= ~(SCORED | UNKNOWN_TOOLS)
        rows.attempt.put(ordinal, attempt)
        if ordinal < len(rows.boundary.cells):
            rows.boundary.put(ordinal, 0)

    def move(self, outcome: str, reason: str | None) -> None:
        """Another outcome, with its reason."""
        rows, ordinal = self._rows, self._ordinal
        rows.marks[ordinal] = rows.marks[ordinal] & ~OUTCOME_BITS | CODES[outcome]
        if reason is not None or ordinal < len(rows.reason.cells):
            rows.reason.put(ordinal, rows.code_of(reason))
