"""One export: the rows of a run, as they are now, into a file or a directory; the run is not touched."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from eventlog.storage import LogReader
from projections import (
    EXPORT_OUTCOMES,
    EXPORT_SCHEMA_VERSION,
    AskedMessages,
    ExportRows,
    RowLine,
    RowSpool,
    best_of,
    csv_head,
    csv_line,
    jsonl_line,
    openai_line,
    spool_rows,
)

from ..errors import UsageFault
from .hugging_face import need_datasets, save_dataset
from .tables import need_pyarrow, parquet_chunks
from .target import Target

FORMATS: Final = ("parquet", "jsonl", "csv", "openai", "hf")
CHUNK_BYTES = 1 << 20
_NEEDS: dict[str, Callable[[], object]] = {"parquet": need_pyarrow, "hf": need_datasets}


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asked for.

    `run` is the run's directory. `best`: of each prompt's samples the one with the highest score.
    `reasoning_field` is the name under which `openai` lines hold what the model thought; null leaves it out.
    `to_sequence`: as the run was at that event; null: now. `force`: replace what is at `path`.
    """

    run: Path
    path: Path
    format: str
    outcomes: tuple[str, ...] = ("kept",)
    best: bool = False
    reasoning_field: str | None = None
    to_sequence: int | None = None
    force: bool = False


class Exported(msgspec.Struct):
    """What was made: how many rows, by outcome, as the run was at `sequence` with that chain value.

    `unscored` prompts had no score and are left out by `best`; `unfinished` rows have no answer at their end
    and are left out of `openai` lines. `misfits` counts by column the values of another program's rows that
    did not fit it.
    """

    run: str
    rows: int
    outcomes: dict[str, int]
    sequence: int
    chain: bytes
    unscored: int = 0
    unfinished: int = 0
    misfits: dict[str, int] = {}


def export_run(asked: Export) -> Exported:
    """Write the rows of a run, as they are in trajectories.jsonl and in its order, to a path of their own.

    Takes no lock and changes nothing of the run. Memory does not grow with the rows. On any error nothing is
    at the path that was not there before.

    Raises:
        UsageFault: what was asked for cannot be; nothing was written.
        OSError: no room, for instance.
        EventLogError: the log cannot be read.
    """
    target = Target(asked.path, force=asked.force)
    _check(asked, target)
    with (
        LogReader.open(asked.run / "log") as reader,
        spool_rows(reader, asked.outcomes, target.place, asked.to_sequence, asked.run) as spool,
    ):
        return _Writing(asked, target, spool, AskedMessages(reader, spool.state)).write()


def _check(asked: Export, target: Target) -> None:
    if asked.format not in FORMATS:
        raise UsageFault(f"--format {asked.format}: expected one of {', '.join(FORMATS)}")
    wrong = [outcome for outcome in asked.outcomes if outcome not in EXPORT_OUTCOMES]
    if wrong or not asked.outcomes:
        raise UsageFault(f"--outcomes {','.join(wrong)}: expected some of {','.join(EXPORT_OUTCOMES)}")
    if asked.reasoning_field is not None and asked.format != "openai":
        raise UsageFault("--reasoning-field is for --format openai", "other formats have whole conversations")
    if asked.reasoning_field in {"", "role", "content", "tool_calls", "tool_call_id"}:
        raise UsageFault(f"--reasoning-field {asked.reasoning_field!r} cannot be the name of its field")
    if asked.format == "hf":
        target.check_directory()
    else:
        target.check_file()
    _NEEDS.get(asked.format, lambda: None)()


class _Writing:
    """Writes the rows of a spool, and counts."""

    def __init__(self, asked: Export, target: Target, spool: RowSpool, messages: AskedMessages) -> None:
        self._asked = asked
        self._target = target
        self._spool = spool
        self._messages = messages
        self._rows = ExportRows()
        self._counts: Counter[str] = Counter(dict.fromkeys(asked.outcomes, 0))
        self._unfinished = 0
        self._unscored = 0

    def write(self) -> Exported:
        lines: Iterable[RowLine] = self._best() if self._asked.best else self._spool
        if self._asked.format == "hf":
            self._target.write_directory(lambda directory: self._save(lines, directory))
        else:
            self._target.write_file(_joined(self._chunks(lines)))
        return Exported(
            self._spool.state.batch.run,
            self._counts.total(),
            dict(self._counts),
            self._spool.sequence,
            self._spool.chain,
            self._unscored,
            self._unfinished,
            {name: count for name, count in self._rows.misfits.items() if count},
        )

    def _best(self) -> Iterator[RowLine]:
        best = best_of(self._spool)
        if not best.places:
            found = self._spool.counts()
            rows = ", ".join(f"{count} {outcome}" for outcome, count in found.items())
            raise UsageFault(
                f"--best: no row has a score (rows: {rows})", "scores come from a judge: `evrun run --judge`"
            )
        self._unscored = best.unscored
        return _at(best.places, self._spool)

    def _chunks(self, lines: Iterable[RowLine]) -> Iterator[bytes]:
        if self._asked.format == "parquet":
            return parquet_chunks(self._values(lines), self._made_from())
        if self._asked.format == "openai":
            return self._openai(lines)
        if self._asked.format == "csv":
            return _csv(self._values(lines))
        return (jsonl_line(values) for values, _ in self._values(lines))

    def _openai(self, lines: Iterable[RowLine]) -> Iterator[bytes]:
        for row in lines:
            line = openai_line(row, self._messages.of(row), self._asked.reasoning_field)
            if line is None:
                self._unfinished += 1
            else:
                self._counts[row.outcome] += 1
                yield line

    def _values(self, lines: Iterable[RowLine]) -> Iterator[tuple[list[Any], int]]:
        """Each row's values, and its length."""
        for row in lines:
            self._counts[row.outcome] += 1
            yield self._rows.values(row), len(row.line)

    def _save(self, lines: Iterable[RowLine], directory: Path) -> None:
        made_from = self._made_from()
        options = f"{sorted(self._asked.outcomes)} {self._asked.best}"
        known = hashlib.sha256(f"{made_from} {options}".encode()).hexdigest()[:16]
        described = ", ".join(f"{name} {value}" for name, value in made_from.items())
        save_dataset(self._values(lines), directory, known, described)

    def _made_from(self) -> dict[str, str]:
        spool = self._spool
        return {
            "evrun_schema": str(EXPORT_SCHEMA_VERSION),
            "evrun_run": spool.state.batch.run,
            "evrun_sequence": str(spool.sequence),
            "evrun_chain": spool.chain.hex(),
        }


def _at(places: list[int], lines: Iterable[RowLine]) -> Iterator[RowLine]:
    wanted = iter(places)
    following = next(wanted, None)
    for place, row in enumerate(lines):
        if place == following:
            yield row
            following = next(wanted, None)


def _csv(rows: Iterable[tuple[list[Any], int]]) -> Iterator[bytes]:
    yield csv_head()
    for values, _ in rows:
        yield csv_line(values)


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces as larger ones: each is a write."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)
