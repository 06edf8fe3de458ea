"""Which prompt is meant: by its unit's name, the beginning of its content id, or its place in the dataset."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from eventlog.events import PromptsPlanned, decode_event, event_type

from .load import Log
from .packed_index import PackedIndex
from .units import PlannedUnit, unit_name

MOST_SHOWN = 5
"""So many candidates are kept by name where the answer is not one prompt."""

_BY_INDEX = re.compile(r"(\d{1,18})(?:\.(\d+))?")
_BY_CONTENT = re.compile(r"([0-9a-f]{1,32})(?:#(\d+)(?:\.(\d+))?)?")


class Lookup(NamedTuple):
    """What was found: `units` by name (the first `MOST_SHOWN`, `matches` in all), or else what is `near`.

    `prompts` is how many units the log has; `highest` their highest prompt_index, null where there are none.
    """

    units: dict[str, PlannedUnit]
    matches: int
    near: list[str]
    prompts: int
    highest: int | None


class _Wanted(NamedTuple):
    """Numbers that were asked for; null for what was left open."""

    place: int | None = None
    content: str | None = None
    occurrence: int | None = None
    sample: int | None = None

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
    such a prompt. Reads the plan alone. Errors as `recorded`.
    """
    wanted = _read(text.removeprefix("prompt:"))
    placed, named = _Matches(), _Matches()
    near = _Near("" if wanted.place is not None else text.removeprefix("prompt:"))
    seen, highest = 0, None
    for name, content, occurrence, unit in planned_units(log):
        seen += 1
        highest = unit.index if highest is None else max(highest, unit.index)
        if wanted.is_at(unit.index, unit.sample):
            placed.add(name, unit)
        if wanted.is_named(content, occurrence, unit.sample):
            named.add(name, unit)
        near.see(name)
    found = placed if placed.number else named
    return Lookup(found.units, found.number, [] if found.number else near.names(), seen, highest)


def planned_units(log: Log) -> Iterator[tuple[str, str, int, PlannedUnit]]:
    """Every unit in the order of planning, each once: name, content id in hex, occurrence, and its place."""
    seen = PackedIndex()
    for record in log.read():
        if event_type(record.payload) != "PromptsPlanned":
            continue
        event = decode_event(record.payload)
        assert isinstance(event, PromptsPlanned)
        for position, row in enumerate(event.rows):
            for sample in range(row.first_sample, row.first_sample + row.samples):
                before = len(seen)
                seen.add(row.content, row.occurrence, sample)
                if len(seen) > before:  # a row that came back is planned again
                    unit = PlannedUnit(row.index, row.batch, record.sequence, position, sample)
                    name = unit_name(row.content, row.occurrence, sample)
                    yield name, row.content.hex(), row.occurrence, unit


class _Matches:
    """The first few, and how many there are."""

    def __init__(self) -> None:
        self.units: dict[str, PlannedUnit] = {}
        self.number = 0

    def add(self, name: str, unit: PlannedUnit) -> None:
        self.number += 1
        if len(self.units) < MOST_SHOWN:
            self.units[name] = unit


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
    return _Wanted(index, content, occurrence, sample)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
