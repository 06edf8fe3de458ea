"""Which prompt is meant: by its unit's name, the beginning of its content id, or its place in the dataset."""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from eventlog.events import PlannedRow, PromptsPlanned, decode_event, event_type

from .batch import BatchState
from .load import Log
from .packed_index import PackedIndex
from .unit_rows import Unit
from .unit_table import UnitTable
from .units import PlannedUnit, unit_key, unit_name

MOST_SHOWN = 5
"""So many candidates are kept by name where the answer is not one prompt."""

_PLANNED: Final = PromptsPlanned.__name__
_PLANNED_BYTES: Final = _PLANNED.encode()
_BY_INDEX = re.compile(r"(\d{1,18})(?:\.(\d+))?")
_BY_CONTENT = re.compile(r"([0-9a-f]{1,32})(?:#(\d+)(?:\.(\d+))?)?")


class Lookup(NamedTuple):
    """What was found: `units` by name (the first `MOST_SHOWN`, `matches` in all), or else what is `near`.

    `prompts` is how many units the log has, null where something was found: then nobody asks. `highest` is
    their highest prompt_index, null likewise, and where there are none.
    """

    units: dict[str, PlannedUnit]
    matches: int
    near: list[str]
    prompts: int | None
    highest: int | None


class _Wanted(NamedTuple):
    """Numbers that were asked for; null for what was left open."""

    place: int | None = None
    content: str | None = None
    occurrence: int | None = None
    sample: int | None = None
    begins: bytes | None = None

    def may_be(self, content: bytes) -> bool:
        """Whether it may be meant by this content: it begins with the whole bytes of what was asked for."""
        return self.begins is not None and content.startswith(self.begins)

    def is_at(self, index: int, sample: int) -> bool:
        """Whether it is meant by its place."""
        return self.place == index and self.sample in {None, sample}

    def is_named(self, content: str, occurrence: int, sample: int) -> bool:
        """Whether it is meant by its content."""
        if self.content is None or not content.startswith(self.content):
            return False
        return self.occurrence in {None, occurrence} and (
            self.place is not None or self.sample in {None, sample}
        )


def find_units(log: Log, text: str, known: BatchState | None = None) -> Lookup:
    """The units that `text` stands for.

    It may be a unit's name, a content id or the beginning of one (``80c9``, ``80c9#2``, ``80c9#1.3``), or a
    prompt_index (``17``, or ``17.3`` for the third sample). What reads as both is a prompt_index if there is
    such a prompt. Decodes the plan alone, and only what comes after `known`, a fold of the log's beginning.
    Errors as `recorded`.
    """
    wanted = _read(text.removeprefix("prompt:"))
    known = BatchState() if known is None else known
    placed, named = _known(known.units, wanted)
    there, last = set[bytes](), 0
    narrow = [wanted.begins] if wanted.begins is not None and wanted.place is None else [b""]
    for sequence, position, row in _rows(log, narrow, known.sequence + 1):
        if wanted.place == row.index:
            there.add(row.content)
            last = sequence
        if wanted.may_be(row.content):
            for sample in _samples(row):
                if wanted.is_named(row.content.hex(), row.occurrence, sample):
                    named.add(sequence, position, row, sample)
    for new in _planned_later(log, wanted, there, known, last) if there else ():
        placed.add(*new)
    found = placed if placed.number else named
    if not found.number:
        return _neighbours(log, "" if wanted.place is not None else text.removeprefix("prompt:"))
    return Lookup(found.units, found.number, [], None, None)


def _known(units: UnitTable, wanted: _Wanted) -> tuple["_Matches", "_Matches"]:
    """Those among the units of a fold that are meant by their place, and by their content."""
    placed, named = _Matches(), _Matches()
    if wanted.place is not None:
        for name, unit in units.at_index(wanted.place):
            if wanted.is_at(unit.index, unit.sample):
                placed.add_unit(name, unit)
    if wanted.begins is not None:
        for name, unit in units.beginning(wanted.begins):
            content, occurrence, sample = _key_of(name)
            if wanted.is_named(content.hex(), occurrence, sample):
                named.add_unit(name, unit)
    return placed, named


def _planned_later(
    log: Log, wanted: _Wanted, contents: set[bytes], known: BatchState, last: int
) -> Iterator[tuple[int, int, PlannedRow, int]]:
    """Of the units with these contents, new after `known` and up to `last`, those that are meant by place.

    A row that came back is planned again, perhaps elsewhere; its units keep the place that they had first.
    """
    seen = PackedIndex()
    for sequence, position, row in _rows(log, contents, known.sequence + 1, last):
        if row.content not in contents:
            continue
        for sample in _samples(row):
            before = len(seen)
            seen.add(row.content, row.occurrence, sample)
            is_new = len(seen) > before and unit_name(row.content, row.occurrence, sample) not in known.units
            if is_new and wanted.is_at(row.index, sample):
                yield sequence, position, row, sample


def _neighbours(log: Log, text: str) -> Lookup:
    """What there is, where nothing is what was asked for. Looks at every unit, which takes longer."""
    near, units = _Near(text), PackedIndex()
    highest: int | None = None
    for _, _, row in _rows(log):
        for sample in _samples(row):
            before = len(units)
            units.add(row.content, row.occurrence, sample)
            if len(units) > before:  # a row that came back is planned again
                highest = row.index if highest is None else max(highest, row.index)
                near.see(unit_name(row.content, row.occurrence, sample))
    return Lookup({}, 0, near.names(), len(units), highest)


def _rows(
    log: Log, contents: Collection[bytes] = (b"",), first: int = 1, last: int | None = None
) -> Iterator[tuple[int, int, PlannedRow]]:
    """The planned rows, with the sequence of the event that planned each and its place in that.

    Where contents are given, or beginnings of them, other rows may be left out. From the event `first` on, up
    to `last` where given.
    """
    for record in log.search(lambda commit: _may_plan(commit, contents), first, last):
        if event_type(record.payload) == _PLANNED:
            event = decode_event(record.payload)
            assert isinstance(event, PromptsPlanned)
            for position, row in enumerate(event.rows):
                yield record.sequence, position, row


def _may_plan(commit: bytes, contents: Collection[bytes]) -> bool:
    return _PLANNED_BYTES in commit and any(content in commit for content in contents)


def _samples(row: PlannedRow) -> range:
    """The samples that a planned row makes."""
    return range(row.first_sample, row.first_sample + row.samples)


class _Matches:
    """The first few, each where it was planned first, and how many there are."""

    def __init__(self) -> None:
        self.units: dict[str, PlannedUnit] = {}
        self._seen = PackedIndex()

    @property
    def number(self) -> int:
        return len(self._seen)

    def add(self, sequence: int, position: int, row: PlannedRow, sample: int) -> None:
        if self._is_shown(row.content, row.occurrence, sample):
            name = unit_name(row.content, row.occurrence, sample)
            self.units[name] = PlannedUnit(row.index, row.batch, sequence, position, sample)

    def add_unit(self, name: str, unit: Unit) -> None:
        if self._is_shown(*_key_of(name)):
            self.units[name] = PlannedUnit(unit.index, unit.batch, unit.planned, unit.position, unit.sample)

    def _is_shown(self, content: bytes, occurrence: int, sample: int) -> bool:
        return self._seen.add(content, occurrence, sample) == len(self.units) < MOST_SHOWN


def _key_of(name: str) -> tuple[bytes, int, int]:
    """What the name of a unit that there is says."""
    key = unit_key(name)
    assert key is not None, "a unit's name is made of its key"
    return key


class _Near:
    """The names that agree most with a text, at its beginning and at its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._best: list[tuple[int, int, str]] = []

    def see(self, name: str) -> None:
        """One more name."""
        known = name.removeprefix("prompt:")
        least = self._best[-1][0] if len(self._best) == MOST_SHOWN else 0
        score = -(_common(self._text, known) + _common(self._text[::-1], known[::-1]))
        if score < least:
            self._best = sorted([*self._best, (score, len(self._best), name)])[:MOST_SHOWN]

    def names(self) -> list[str]:
        """The best first."""
        return [name for _, _, name in self._best]


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def _read(text: str) -> _Wanted:
    by_index = _BY_INDEX.fullmatch(text)
    by_content = _BY_CONTENT.fullmatch(text)
    index, content, occurrence, sample = None, None, None, None
    if by_content:
        content, occurrence, sample = by_content[1], _number(by_content[2]), _number(by_content[3])
    if by_index:
        index, sample = int(by_index[1]), _number(by_index[2])
    begins = None if content is None else bytes.fromhex(content[: len(content) & ~1])
    return _Wanted(index, content, occurrence, sample, begins)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
