"""Where each prompt of a Hermes directory stands in the new run: its identity, its index, its batch. Pure."""

from pathlib import Path

import msgspec

from ..batch.identities import Identifier, Identity
from .matching import Dataset, DatasetRow, Match, match, read_rows
from .reading import Found, Unread
from .survey import CHECKPOINT, Survey

UNKNOWN = "no_row_in_hermes"
"""Why a prompt counts as set aside that Hermes calls completed and wrote no row for."""


class Spot(msgspec.Struct, gc=False):
    """A planned row's place: its identity, index (from 0) and batch (from 1)."""

    identity: Identity
    index: int
    batch: int


class Layout(msgspec.Struct):
    """The plan of the new run.

    `of_rows` are the dataset's rows by line; `of_found` the spots of outcomes by their place in the survey
    (those without a dataset row are `own`); `done` are the spots of prompts that only the checkpoint knows.
    """

    of_rows: dict[int, Spot] = {}
    of_found: list[Spot] = []
    own: set[int] = set()
    done: list[Spot] = []
    counts: dict[str, int] = {}
    model: str = ""
    unread: list[Unread] = []
    notes: list[str] = []

    @property
    def usable(self) -> bool:
        """Whether anything of the directory is in the plan."""
        return bool(self.of_found or self.done)


class _Numbers:
    """Indices: the one that is wanted where it is free, else the next after all that are wanted."""

    def __init__(self, wanted: list[int | None]) -> None:
        self._used: set[int] = set()
        self._next = max((index for index in wanted if index is not None), default=-1) + 1

    def take(self, wanted: int | None) -> int:
        """An index that nobody has."""
        if wanted is None or wanted in self._used:
            wanted, self._next = self._next, self._next + 1
        self._used.add(wanted)
        return wanted


def lay_out(what: Survey, path: Path | None, batch_size: int) -> Layout:
    """Give every outcome and every row of the dataset its place.

    Raises:
        UsageFault: the dataset cannot be read.
    """
    identifier = Identifier()
    dataset = Dataset([], []) if path is None else read_rows(path, identifier)
    matched = match(what.found, dataset.rows, what.lost)
    layout = Layout()
    numbers = _Numbers([item.index for item in what.found] + [row.place for row in dataset.rows])
    batches = _batches(what.found)
    last = max(batches, default=0)
    for place, (item, batch) in enumerate(zip(what.found, batches, strict=True)):
        row = dataset.rows[matched.rows[place]] if place in matched.rows else None
        identity = row.identity if row is not None else None
        spot = Spot(identity or Identity(b"", 0), numbers.take(item.index), batch)
        layout.of_found.append(spot)
        if row is None:
            layout.own.add(place)
        else:
            layout.of_rows[row.line] = spot
    _lay_out_rest(layout, dataset.rows, matched, numbers, _Batches(last, batch_size))
    _sum_up(layout, what, dataset, matched)
    return layout


class _Batches:
    """New batches after the last one that Hermes made."""

    def __init__(self, last: int, size: int) -> None:
        self._last, self._size, self._placed = last, size, 0

    def take(self) -> int:
        """The batch of the next row."""
        self._placed += 1
        return self._last + 1 + (self._placed - 1) // self._size


def _batches(found: list[Found]) -> list[int]:
    """Hermes's batches, numbered from 1; what gives no batch comes into one after the last."""
    given = [item.batch for item in found if item.batch is not None]
    shift = 1 if 0 in given else 0
    beyond = max(given, default=0) + shift + 1 if len(given) < len(found) else 0
    return [beyond if item.batch is None else item.batch + shift for item in found]


def _lay_out_rest(
    layout: Layout, rows: list[DatasetRow], matched: Match, numbers: _Numbers, batches: _Batches
) -> None:
    done = set(matched.done)
    for place, row in enumerate(rows):
        if row.line not in layout.of_rows:
            spot = Spot(row.identity, numbers.take(row.place), batches.take())
            layout.of_rows[row.line] = spot
            if place in done:
                layout.done.append(spot)


def _sum_up(layout: Layout, what: Survey, dataset: Dataset, matched: Match) -> None:
    outcomes = [item.outcome for item in what.found]
    total = len(layout.of_rows) + len(layout.own)
    counts = {"total": total}
    counts |= {name: outcomes.count(name) for name in ("kept", "discarded", "failed")}
    counts["discarded"] += len(layout.done)
    counts |= {"open": 0, "pending": total - len(outcomes) - len(layout.done), "withdrawn": 0}
    layout.counts = counts
    layout.unread += dataset.bad
    if matched.unmapped:
        layout.unread.append(Unread(CHECKPOINT, None, _unmapped(matched.unmapped, known=bool(dataset.rows))))
    layout.model = list(what.models)[-1] if what.models else ""
    if len(what.models) > 1:
        layout.notes.append(f"the rows name {len(what.models)} models; {layout.model} is recorded")
    if layout.done:
        layout.notes.append(
            f"{len(layout.done)} prompts are completed in {CHECKPOINT} and have no row: what became of them "
            f"is not known, so they count as discarded ({UNKNOWN}); --retry-discarded runs them again"
        )
    if dataset.rows and layout.own:
        layout.notes.append(f"{len(layout.own)} outcomes belong to no row of the dataset; they are kept")


def _unmapped(indices: list[int], *, known: bool) -> str:
    shown = ", ".join(map(str, indices[:10])) + (", …" if len(indices) > 10 else "")  # noqa: PLR2004 (enough)
    why = "the dataset has no such rows" if known else "only --dataset FILE says which prompts they are"
    return f"{len(indices)} completed prompts have no row (index {shown}), and {why}"
