"""The plan: which units a dataset makes, and in which batches.

All here is pure; rows stream through and only identities stay.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import msgspec

from eventlog.events import Event, PlannedRow, PromptsPlanned, RowsSkipped
from projections import batch_request

from ..errors import RunFailed
from .comparison import NewSamples
from .dataset import BadLine, Row
from .identities import PLAIN, Identities, Identity, content_id

CHUNK_ROWS = 256
CHUNK_BYTES = 256 * 1024
COMMIT_CHUNKS = 16
COMMIT_BYTES = 1024 * 1024
"""A commit takes as many chunks as fit, so that a plan does not wait for a sync at each."""


class Scan(msgspec.Struct, gc=False):
    """What one reading of a dataset found: identities in order (rows past `max_samples` left out).

    `skipped` counts the bad lines; `bad` are the complaints about them, none where they may be left out.
    `template` is what the identities were made under; `model` is the one that the dataset's batch lines
    name, null where there are none.
    """

    identities: Identities
    bad: list[BadLine]
    sha256: str
    size_bytes: int
    template: str = PLAIN
    model: str | None = None
    skipped: int = 0


class DatasetChanged(RunFailed):
    """A dataset is not what it was a moment ago."""


def scan(
    lines: Iterable[Row | BadLine],
    max_samples: int | None,
    template: str = PLAIN,
    *,
    skip_bad_rows: bool = False,
) -> Scan:
    """Read a dataset through once: identities of usable rows, all complaints, a digest of its rows."""
    identities, digest = Identities(), hashlib.sha256()
    most = sys.maxsize if max_samples is None else max_samples
    bad: list[BadLine] = []
    model: str | None = None
    size = skipped = 0
    for line in lines:
        if type(line) is BadLine:
            skipped += 1
            if not skip_bad_rows:
                bad.append(line)
            continue
        row = cast("Row", line)
        digest.update(row.raw + b"\n")
        size += len(row.raw) + 1
        if len(identities) < most:
            identities.add(content_id(row.value, template))
            if model is None and "body" in row.value:
                model = (batch_request(row.value) or {}).get("model")
    return Scan(identities, bad, digest.hexdigest(), size, template, model, skipped)


Place = tuple[int, int]
"""The index and the batch of a row."""


class Numbering(NamedTuple):
    """Where a planning starts: next row index, a batch and how many rows it holds, the size of batches.

    `known` gives the place of a row that was planned before, null for others: what is planned of it now (more
    samples, or a row that came back) stands where it stands.
    """

    first_index: int
    batch: int
    filled: int
    batch_size: int
    known: Callable[[Identity], Place | None] | None = None


def plan(
    lines: Iterable[Row | BadLine],
    scanned: Scan,
    only: NewSamples | None,
    numbering: Numbering,
    samples: int,
) -> Iterator[Event]:
    """The events that plan a dataset's rows (`only` these samples, where given), in bounded chunks.

    `lines` are those that were scanned. Lines that are left out are on record before the last chunk, which
    says that the planning is complete, even when it is empty.

    Raises:
        DatasetChanged: the rows are not those that were scanned. Nothing was planned as complete.
    """
    rows: list[PlannedRow] = []
    skipped: list[tuple[int, str]] = []
    size = 0
    for planned in _planned_rows(lines, scanned, only, numbering, samples):
        if type(planned) is BadLine:
            skipped.append((planned.line, planned.found))
            if len(skipped) == CHUNK_ROWS:
                yield RowsSkipped(skipped)
                skipped = []
            continue
        row = cast("PlannedRow", planned)
        if rows and (len(rows) >= CHUNK_ROWS or size + len(row.row) > CHUNK_BYTES):
            yield PromptsPlanned(rows, complete=False)
            rows, size = [], 0
        rows.append(row)
        size += len(row.row)
    if skipped:
        yield RowsSkipped(skipped)
    yield PromptsPlanned(rows, complete=True)


def commits_of(planning: Iterable[Event]) -> Iterator[list[Event]]:
    """The events of a planning, as many together as shall be one commit.

    One commit is to be durable before the next is handed over: so a plan that ends early, on a full disk too,
    has no hole, and goes on where it was.
    """
    events: list[Event] = []
    size = 0
    for event in planning:
        more = sum(len(row.row) for row in event.rows) if isinstance(event, PromptsPlanned) else 0
        if events and (len(events) >= COMMIT_CHUNKS or size + more > COMMIT_BYTES):
            yield events
            events, size = [], 0
        events.append(event)
        size += more
    if events:
        yield events


def _planned_rows(
    lines: Iterable[Row | BadLine],
    scanned: Scan,
    only: NewSamples | None,
    numbering: Numbering,
    samples: int,
) -> Iterator[PlannedRow | BadLine]:
    identities, digest = scanned.identities, hashlib.sha256()
    count, template, known = len(identities), scanned.template, numbering.known
    number = placed = skipped = 0
    for line in lines:
        if type(line) is BadLine:
            skipped += 1
            yield line
            continue
        row = cast("Row", line)
        digest.update(row.raw + b"\n")
        if number == count:
            continue
        content, occurrence = identity = identities.identity(number)
        number += 1
        if content_id(row.value, template) != content:
            raise _changed()
        if only is not None and not only.any_of(number - 1):
            continue
        place = None if known is None else known(identity)
        if place is None:
            batch = numbering.batch + (numbering.filled + placed) // numbering.batch_size
            place = numbering.first_index + placed, batch
            placed += 1
        wanted = ((1, samples),) if only is None else _runs(only.of(number - 1))
        for first, many in wanted:
            yield PlannedRow(content, occurrence, *place, row.raw, first, many)
    if number != count or digest.hexdigest() != scanned.sha256 or skipped != scanned.skipped:
        raise _changed()


def _runs(samples: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as (first, how many that follow each other)."""
    first = count = 0
    for sample in samples:
        if sample != first + count:
            if count:
                yield first, count
            first, count = sample, 0
        count += 1
    yield first, count


def _changed() -> DatasetChanged:
    return DatasetChanged(
        "the dataset changed while it was read: its rows are not those that were checked",
        hint="let it be written completely, then go on with --resume and the dataset",
    )
