"""`evrun list`: the runs of a directory, a line each."""

from pathlib import Path
from typing import Any

from eventlog.errors import EventLogError
from eventlog.events import RunStarted, decode_event
from eventlog.storage import LogReader, lock_holder
from evrun.errors import UsageFault
from projections import (
    TRAINING,
    Snapshots,
    Summary,
    fold_from_snapshot,
    overview,
    recorded,
    summary_of,
    summary_of_views,
    unreadable,
)

from . import output
from .output import JsonFlag
from .runs import DATA, OutputDirectory, as_typed, log_of, run_names

LOOKED_BACK = 8
"""So many of a log's last events are looked at for the end of the newest session."""
REASON_SHOWN = 80
LARGEST_HEAD = 1 << 16
"""The first line of a checkpoint is far shorter."""


def list_command(*, output_dir: OutputDirectory = DATA, json: JsonFlag = False) -> int:
    """List the runs of a directory: how each one stands, its counts, what it cost, when it changed last.

    A run that cannot be read is a line that says so. Changes nothing.
    """
    if output_dir != DATA and not output_dir.is_dir():
        raise UsageFault(
            f"--output-dir {as_typed(output_dir)} is no directory", "runs are looked for in it, by name"
        )
    names = [name for name in run_names(output_dir) if not never_began(output_dir / name)]
    runs = [entry(output_dir / name) for name in names]
    if json:
        output.as_json({"output_dir": str(output_dir), "runs": runs})
    elif runs:
        output.table(HEADERS, [_row(run) for run in runs])
    else:
        output.line(f"there are no runs in {output_dir}")
    return 0


def never_began(directory: Path) -> bool:
    """Whether a directory is what a run leaves that was refused, or killed, before its first event."""
    try:
        return [entry.name for entry in log_of(directory).iterdir()] == ["LOCK"]
    except OSError:
        return False


def entry(directory: Path) -> dict[str, Any]:
    """One run, as `--json` has it; whatever is wrong with it is said in it."""
    try:
        return _entry(directory)
    except (EventLogError, OSError) as error:
        return unreadable(str(directory), directory.name, str(error))


def _entry(directory: Path) -> dict[str, Any]:
    """Whether the run is held is asked first: one that ends meanwhile is shown as running, with its end."""
    held = lock_holder(log_of(directory)) is not None
    with LogReader.open(log_of(directory)) as reader:
        end = reader.end
        summary = None if held else _by_views(directory, reader)
        if summary is None:
            state = fold_from_snapshot(reader, Snapshots(log_of(directory)), end.sequence)
            summary = summary_of(state, held=held)
        first = decode_event(reader.read_one(1).payload) if end.sequence else None
        last_ns = reader.read_one(end.sequence).time_ns if end.sequence else 0
    kind = first.kind if isinstance(first, RunStarted) else None
    return overview(str(directory), directory.name, kind, summary, sequence=end.sequence, last_ns=last_ns)


def _by_views(directory: Path, reader: LogReader) -> Summary | None:
    """The summary of a run at rest without a fold, if its views are those of the log's end."""
    end = reader.end
    try:
        with (directory / "checkpoint.json").open("rb") as file:
            checkpoint = file.readline(LARGEST_HEAD)
        statistics = (directory / "statistics.json").read_bytes()
    except OSError:
        return None
    first = max(1, end.sequence - LOOKED_BACK + 1)
    last = [record.event for record in recorded(reader, first, end.sequence)]
    return summary_of_views(checkpoint, statistics, end.sequence, end.chain, last)


HEADERS = ("run", "kind", "state", "kept", "discarded", "failed", "left", "settled USD", "last change", "why")


def _row(run: dict[str, Any]) -> tuple[object, ...]:
    counts = run["counts"]
    if counts is None:
        return (run["run"], "-", run["state"], "-", "-", "-", "-", "-", "-", _short(run["reason"]))
    if run["kind"] == TRAINING:
        numbers, left = ["-", "-", counts["rollouts_error"]], steps_left(counts)
    else:
        numbers = [counts[name] for name in ("kept", "discarded", "failed")]
        left = counts["open"] + counts["pending"]
    changed = (run["last_change"] or "-")[: len("2026-11-29T12:00:00")]
    why = _short(run["reason"] or "")
    return (run["run"], run["kind"] or "-", run["state"], *numbers, left, run["settled_usd"], changed, why)


def steps_left(counts: dict[str, Any]) -> str:
    """How many steps of a training run are still to come."""
    total = counts["steps_total"]
    return "unknown" if total is None else f"{total - counts['steps']} steps"


def _short(reason: str) -> str:
    """How a reason begins; `--json` has all of it, and so has `evrun verify RUN` for a damaged log."""
    line = " ".join(reason.split())
    return line if len(line) <= REASON_SHOWN else f"{line[: REASON_SHOWN - 1]}…"
