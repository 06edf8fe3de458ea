"""The plan: which units a dataset makes, in which batches, and how a dataset compares with what was planned.

A prompt is known by its content, never by its place: a digest of its exact text with `image` and `cwd` (and
of the other fields that a template names), and an occurrence number for repeats. All here is pure; rows
stream through and only identities stay.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from eventlog.events import Event, PlannedRow, PromptsPlanned
from projections import batch_request, prompt_text, unit_name

from ..errors import RunFailed
from .dataset import BadLine, Row

PLAIN = "{prompt}"
CHUNK_ROWS = 256
CHUNK_BYTES = 256 * 1024
COMMIT_CHUNKS = 16
COMMIT_BYTES = 1024 * 1024
"""A commit takes as many chunks as fit, so that a plan does not wait for a sync at each."""


class Identity(NamedTuple):
    """What a row is known by: its 16-byte content id and which of its equals it is, from 1."""

    content: bytes
    occurrence: int


class Scan(msgspec.Struct, gc=False):
    """What one reading of a dataset found: identities in order (rows past `max_samples` left out).

    `template` is what they were made under; `model` is the one that the dataset's batch lines name, null
    where there are none.
    """

    identities: deque[Identity]
    bad: list[BadLine]
    sha256: str
    size_bytes: int
    template: str = PLAIN
    model: str | None = None


def content_id(row: dict[str, Any], template: str = PLAIN) -> bytes:
    """Sixteen bytes that stand for a row's exact prompt text, image and working directory."""
    image = row.get("image")
    image = row.get("docker_image") if image is None else image
    parts = []
    for part in (prompt_text(row, template), image, row.get("cwd")):
        data = b"" if part is None else str(part).encode("utf-8", "surrogatepass")
        # The length in front keeps ("ab", "c") and ("a", "bc") apart.
        parts.append(b"%d:%b" % (-1 if part is None else len(data), data))
    return hashlib.sha256(b"".join(parts)).digest()[:16]


class DatasetChanged(RunFailed):
    """A dataset is not what it was a moment ago."""


class Identifier:
    """Gives rows their identities, counting repeats."""

    def __init__(self, template: str = PLAIN) -> None:
        self._template = template
        self._seen: dict[bytes, int] = {}

    def identify(self, row: dict[str, Any]) -> Identity:
        """The identity of the next row."""
        content = content_id(row, self._template)
        occurrence = self._seen.get(content, 0) + 1
        self._seen[content] = occurrence
        return Identity(content, occurrence)


def scan(lines: Iterable[Row | BadLine], max_samples: int | None, template: str = PLAIN) -> Scan:
    """Read a dataset through once: identities of usable rows, all complaints, a digest of its rows."""
    identifier, digest, size = Identifier(template), hashlib.sha256(), 0
    model: str | None = None
    identities: deque[Identity] = deque()
    bad: list[BadLine] = []
    for line in lines:
        if isinstance(line, BadLine):
            bad.append(line)
            continue
        digest.update(line.raw + b"\n")
        size += len(line.raw) + 1
        if max_samples is None or len(identities) < max_samples:
            identities.append(identifier.identify(line.value))
            model = model or (batch_request(line.value) or {}).get("model")
    return Scan(identities, bad, digest.hexdigest(), size, template, model)


class Comparison(NamedTuple):
    """A dataset against a plan: how many rows are known, and what is new or gone.

    `new` holds the samples of each row that are not in the plan, ascending: all of a new row, some of a known
    one where more were asked for, or all of one that is back. `gone` are units; `rows_new` and `rows_gone`
    count rows.
    """

    known: int
    new: dict[Identity, list[int]]
    gone: list[str]
    rows_new: int
    rows_gone: int


def compare(scanned: Scan, planned: Iterable[tuple[str, bool]], samples: int) -> Comparison:
    """Compare a dataset by content with the units planned so far.

    `planned` holds (unit name, whether it was withdrawn before), in planned order.
    """
    wanted = {
        unit_name(identity.content, identity.occurrence, sample): (identity, sample)
        for identity in scanned.identities
        for sample in range(1, samples + 1)
    }
    active: set[str] = set()
    gone: list[str] = []
    seen: set[str] = set()
    for unit, withdrawn in planned:
        seen.add(unit.rpartition(".")[0])
        if not withdrawn:
            (active.add if unit in wanted else gone.append)(unit)
    new: dict[Identity, list[int]] = {}
    for unit, (identity, sample) in wanted.items():
        if unit not in active:
            new.setdefault(identity, []).append(sample)
    rows = [unit_name(one.content, one.occurrence, 1).rpartition(".")[0] for one in scanned.identities]
    unknown = sum(row not in seen for row in rows)
    lost = {unit.rpartition(".")[0] for unit in gone} - set(rows)
    return Comparison(len(rows) - unknown, new, gone, unknown, len(lost))


class Numbering(NamedTuple):
    """Where a planning starts: next row index, a batch and how many rows it holds, the size of batches.

    `known` are the index and the batch of rows that were planned before: what is planned of them now (more
    samples, or a row that came back) stands where they stand.
    """

    first_index: int
    batch: int
    filled: int
    batch_size: int
    known: Mapping[Identity, tuple[int, int]] = {}


def plan(
    lines: Iterable[Row | BadLine],
    scanned: Scan,
    only: Mapping[Identity, Sequence[int]] | None,
    numbering: Numbering,
    samples: int,
) -> Iterator[PromptsPlanned]:
    """The events that plan a dataset's rows (`only` these samples, where given), in bounded chunks.

    `lines` are those that were scanned; the scan's identities are used up. The last chunk says that the
    planning is complete, even when it is empty.

    Raises:
        DatasetChanged: the rows are not those that were scanned. Nothing was planned as complete.
    """
    rows: list[PlannedRow] = []
    size = 0
    for planned in _planned_rows(lines, scanned, only, numbering, samples):
        if rows and (len(rows) >= CHUNK_ROWS or size + len(planned.row) > CHUNK_BYTES):
            yield PromptsPlanned(rows, complete=False)
            rows, size = [], 0
        rows.append(planned)
        size += len(planned.row)
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
    only: Mapping[Identity, Sequence[int]] | None,
    numbering: Numbering,
    samples: int,
) -> Iterator[PlannedRow]:
    identities, digest, placed = scanned.identities, hashlib.sha256(), 0
    for line in lines:
        if isinstance(line, BadLine):
            continue
        digest.update(line.raw + b"\n")
        if not identities:
            continue
        identity = identities.popleft()
        if content_id(line.value, scanned.template) != identity.content:
            raise _changed()
        wanted = range(1, samples + 1) if only is None else only.get(identity)
        if not wanted:
            continue
        place = numbering.known.get(identity)
        if place is None:
            batch = numbering.batch + (numbering.filled + placed) // numbering.batch_size
            place = numbering.first_index + placed, batch
            placed += 1
        for first, count in _runs(wanted):
            yield PlannedRow(*identity, *place, line.raw, first, count)
    if identities or digest.hexdigest() != scanned.sha256:
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
