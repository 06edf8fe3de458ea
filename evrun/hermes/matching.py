"""Which row of a dataset an imported outcome belongs to. Pure, but for reading the dataset."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

from projections import imported_prompt

from ..batch.dataset import BadLine, Row, read_dataset
from ..batch.identities import Identifier, Identity
from .reading import Found, Unread, text_digests

_PLAIN = (".jsonl", ".ndjson", ".json")


class DatasetRow(NamedTuple):
    """A row that evrun can run: its line, and its `place`, Hermes's index (null: not taken by Hermes)."""

    line: int
    place: int | None
    identity: Identity
    exact: bytes
    trimmed: bytes


class Dataset(NamedTuple):
    """A dataset's usable rows in order, and the lines that cannot be used."""

    rows: list[DatasetRow]
    bad: list[Unread]


def read_rows(path: Path, identifier: Identifier) -> Dataset:
    """Read a dataset through once; of a row only what stands for it stays.

    Raises:
        UsageFault: no such file, or a form that evrun does not read.
    """
    rows: list[DatasetRow] = []
    bad: list[Unread] = []
    places = _Places(path)
    for line in read_dataset(path):
        index = places.index_of(line)
        if isinstance(line, BadLine):
            bad.append(Unread(path.name, line.line, line.found))
            continue
        text = imported_prompt({"prompt": line.value.get("prompt")}) or ""
        rows.append(DatasetRow(line.line, index, identifier.identify(line.value), *text_digests(text)))
    return Dataset(rows, bad)


class _Places:
    """Hermes's index of a line: its place, from 0, among the lines that Hermes takes."""

    def __init__(self, path: Path) -> None:
        self._taken = _taken_by_hermes(path) if path.name.lower().endswith(_PLAIN) else None
        self._next = 0

    def index_of(self, line: Row | BadLine) -> int | None:
        """The index of the next line, null where Hermes leaves it out."""
        if self._taken is not None:
            return self._taken.get(line.line)
        if isinstance(line, BadLine) or "prompt" not in line.value:
            return None
        self._next += 1
        return self._next - 1


def _taken_by_hermes(path: Path) -> dict[int, int]:
    taken: dict[int, int] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if _takes(line):
                    taken[number] = len(taken)
    except OSError:
        # Whoever reads the dataset's rows says what is wrong with it.
        return {}
    return taken


def _takes(line: bytes) -> bool:
    """Hermes takes any JSON object that has a prompt, whatever that is."""
    try:
        value = json.loads(line.decode().strip())
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "prompt" in value


class Match(NamedTuple):
    """`rows` maps a found outcome's place to a dataset row's; `done` are rows only the checkpoint knows."""

    rows: dict[int, int]
    done: list[int]
    unmapped: list[int]


def match(found: list[Found], dataset: list[DatasetRow], lost: list[int]) -> Match:
    """Give each outcome a row with its text, its own index first; each row is given once.

    `lost` are completed indices without an outcome: they are rows by Hermes's rule of counting, unless a row
    there has an outcome already.
    """
    matcher = _Matcher(found, dataset)
    matcher.by_index("exact", found)
    # Of what was set aside only the trimmed text is known, so its index says more than its text.
    matcher.by_index("trimmed", [item for item in found if item.outcome == "discarded"])
    matcher.by_text("exact")
    matcher.by_index("trimmed", found)
    matcher.by_text("trimmed")
    by_index, free = matcher.places, matcher.free
    done = [by_index[index] for index in lost if index in by_index]
    rows = {place: matcher.given[id(item)] for place, item in enumerate(found) if id(item) in matcher.given}
    return Match(rows, [row for row in done if row in free], [i for i in lost if i not in by_index])


class _Matcher:
    """Gives rows to outcomes, one way after the other; `given` is by the outcome's identity in memory."""

    def __init__(self, found: list[Found], dataset: list[DatasetRow]) -> None:
        self._found, self._dataset = found, dataset
        self.places = {row.place: number for number, row in enumerate(dataset) if row.place is not None}
        self.free = set(range(len(dataset)))
        self.given: dict[int, int] = {}

    def by_index(self, text: Literal["exact", "trimmed"], items: list[Found]) -> None:
        """The row at the outcome's own index, where their texts agree."""
        for item in self._left(items):
            row = None if item.index is None else self.places.get(item.index)
            if row in self.free and getattr(self._dataset[row], text) == getattr(item, text):
                self._give(item, row)

    def by_text(self, text: Literal["exact", "trimmed"]) -> None:
        """The first row that is free and has the outcome's text."""
        rows: defaultdict[bytes, list[int]] = defaultdict(list)
        for row in sorted(self.free, reverse=True):
            rows[getattr(self._dataset[row], text)].append(row)
        for item in self._left(self._found):
            if rows.get(getattr(item, text)):
                self._give(item, rows[getattr(item, text)].pop())

    def _left(self, items: list[Found]) -> list[Found]:
        return [item for item in items if id(item) not in self.given]

    def _give(self, item: Found, row: int) -> None:
        self.given[id(item)] = row
        self.free.remove(row)


def row_bytes(text: str) -> tuple[bytes, dict[str, Any]]:
    """A row of our own for a prompt that no dataset row is known for, and its bytes."""
    row = {"prompt": text}
    try:
        return json.dumps(row, ensure_ascii=False).encode(), row
    except UnicodeEncodeError:
        return json.dumps(row).encode(), row
