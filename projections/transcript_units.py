"""Which prompt is meant: by its unit's name, the beginning of its content id, or its place in the dataset."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from eventlog.events import PlannedRow, PromptsPlanned, decode_event, event_type

from .load import Log
from .packed_index import PackedIndex
from .units import PlannedUnit, unit_name

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


def find_units(log: Log, text: str) -> Lookup:
    """The units that `text` stands for.

    It may be a unit's name, a content id or the beginning of one (``80c9``, ``80c9#2``, ``80c9#1.3``), or a
    prompt_index (``17``, or ``17.3`` for the third sample). What reads as both is a prompt_index if there is
    such a prompt. Decodes the plan alone. Errors as `recorded`.
    """
    wanted = _read(text.removeprefix("prompt:"))
    named, there, last = _Matches(), set[bytes](), 0
    narrow = [wanted.begins] if wanted.begins is not None and wanted.place is None else [b""]
    for sequence, position, row in _rows(log, narrow):
        if wanted.place == row.index:
            there.add(row.content)
            last = sequence
        if wanted.may_be(row.content):
            content = row.content.hex()
            for sample in _samples(row):
                if wanted.is_named(content, row.occurrence, sample):
                    named.add(sequence, position, row, sample)
    placed = _placed(log, wanted, there, last) if there else _Matches()
    found = placed if placed.number else named
    if not found.number:
        return _neighbours(log, "" if wanted.place is not None else text.removeprefix("prompt:"))
    return Lookup(found.units, found.number, [], None, None)


def _placed(log: Log, wanted: _Wanted, contents: set[bytes], last: int) -> "_Matches":
    """Of the units with these contents, planned up to `last`, those whose first place is the one meant.

    A row that came back is planned again, perhaps elsewhere; its units keep the place that they had.
    """
    placed = _Matches()
    rows = (found for found in _rows(log, contents, last) if found[2].content in contents)
    for sequence, position, row, sample in _planned_first(rows):
        if wanted.is_at(row.index, sample):
            placed.add(sequence, position, row, sample)
    return placed


def _neighbours(log: Log, text: str) -> Lookup:
    """What there is, where nothing is what was asked for. Looks at every unit, which takes longer."""
    near, units = _Near(text), 0
    highest: int | None = None
    for _, _, row, sample in _planned_first(_rows(log)):
        units += 1
        highest = row.index if highest is None else max(highest, row.index)
        near.see(unit_name(row.content, row.occurrence, sample))
    return Lookup({}, 0, near.names(), units, highest)


def _planned_first(rows: Iterable[tuple[int, int, PlannedRow]]) -> Iterator[tuple[int, int, PlannedRow, int]]:
    """The samples of rows, each once: the units of a row that came back are there already."""
    seen = PackedIndex()
    for sequence, position, row in rows:
        for sample in _samples(row):
            before = len(seen)
            if seen.add(row.content, row.occurrence, sample) == before:
                yield sequence, position, row, sample


def _rows(
    log: Log, contents: Collection[bytes] = (b"",), last: int | None = None
) -> Iterator[tuple[int, int, PlannedRow]]:
    """The planned rows, with the sequence of the event that planned each and its place in that.

    Where contents are given, or how they begin, others may be left out. Up to the event `last`, where given.
    """
    for record in log.search(lambda commit: _may_plan(commit, contents), 1, last):
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
        ordinal = self._seen.add(row.content, row.occurrence, sample)
        if ordinal == len(self.units) < MOST_SHOWN:
            name = unit_name(row.content, row.occurrence, sample)
            self.units[name] = PlannedUnit(row.index, row.batch, sequence, position, sample)


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
