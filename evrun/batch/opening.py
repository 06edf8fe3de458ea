"""Opening a run, new or going on. What can be refused is refused before anything is written."""

import socket
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NoReturn

import msgspec

from eventlog.events import (
    BudgetChanged,
    Event,
    InputDigest,
    PromptsPlanned,
    PromptsWithdrawn,
    RunStarted,
    SessionOpened,
    SettingsChanged,
    SpendInDoubt,
    TrajectoryCompleted,
    TrajectoryDiscarded,
)
from eventlog.storage import LogReader, LogWriter, log_exists
from projections import BatchState, Ledger, RowSource, is_view, recorded, unit_name

from ..effects.clock import now_ns, random_bytes
from ..errors import UsageFault
from ..tools import Toolbox
from ..versions import versions
from .comparison import Comparison, compare
from .dataset import read_dataset, refuse_bad_lines, terms_of
from .identities import Identity
from .options import Options
from .plan import Numbering, Place, Scan, plan, scan
from .quality import Facts, rejudge, rules_of
from .settings import Settings, changes_between, settings_from_record, settings_record
from .templating import check_change_fits
from .tool_sources import run_toolsets

WITHDRAWN_CHUNK = 1000
FIRST_SEGMENT_BYTES = 64 * 1024
"""A resume with nothing to do costs no more than this on disk; segments double from here."""


def check_name_is_free(options: Options) -> bool:
    """Whether the run is there already; refuses a used name without `--resume`, and a resume of nothing.

    Raises:
        UsageFault: with the ways on.
    """
    there = log_exists(options.directory / "log")
    if not there:
        _refuse_foreign_views(options)
    if there and not options.resume:
        refuse_used_name(options)
    if not there and options.dataset is None:
        found = f"{options.directory} holds no run, and no dataset was given"
        raise UsageFault(
            f"nothing to resume: {found}" if options.resume else f"no dataset: {found}",
            hint=f"evrun run DATASET --run-name {options.run_name}",
        )
    return there


def _refuse_foreign_views(options: Options) -> None:
    """Views without a log are somebody's results, perhaps another runner's: never write over them."""
    try:
        there = [entry.name for entry in options.directory.iterdir()]
    except OSError:
        return
    # Hermes counts its batches from 0.
    names = sorted(name for name in there if is_view(name) or name == "batch_0.jsonl")
    if names:
        raise UsageFault(
            f"{options.directory} holds results ({', '.join(names[:5])}) but no log of evrun",
            hint="choose another --run-name, or move these files away; what Hermes left can be taken in: "
            f"evrun import hermes {options.directory} --run-name NAME",
        )


def refuse_used_name(options: Options) -> NoReturn:
    """Say that a run of this name is there, and the ways on.

    Raises:
        UsageFault: always.
    """
    raise UsageFault(
        f"{options.directory} holds a run already",
        hint=f"go on: evrun run --run-name {options.run_name} --resume; or choose another --run-name",
    )


def check_plan_options(
    options: Options, recorded: Settings, settings: Settings, batch: BatchState, rows: RowSource
) -> None:
    """Refuse what only a dataset could honour, where none was given.

    Raises:
        UsageFault: the dataset has to be given again.
    """
    if options.dataset is not None:
        return
    again = f"give the dataset again: evrun run DATASET --run-name {options.run_name} --resume"
    for name in ("samples", "max_samples", "skip_bad_rows"):
        if getattr(recorded, name) != getattr(settings, name) and batch.plan_complete:
            raise UsageFault(
                f"--{name.replace('_', '-')} changes the plan, and no dataset was given", hint=again
            )
    check_change_fits(recorded, settings, batch, rows, again)
    if not batch.plan_complete and not Path(settings.dataset).is_file():
        raise UsageFault(
            f"the planning was cut short, and its dataset {settings.dataset} is not there any more",
            hint=again,
        )


def scan_dataset(path: Path, settings: Settings, *, skip_bad_rows: bool) -> Scan:
    """Read a dataset through once.

    Raises:
        DatasetFault: bad lines, all of them listed (unless they may be skipped).
        UsageFault: no such file, or no usable row.
    """
    lines = read_dataset(path, terms_of(settings))
    found = scan(lines, settings.max_samples, settings.template, skip_bad_rows=skip_bad_rows)
    shown = "standard input" if settings.dataset == "-" else str(path)
    refuse_bad_lines(found.bad, shown)
    if not len(found.identities):
        raise UsageFault(f"{shown}: no usable row", hint="give a dataset with a prompt in each row")
    return found


def with_model_of(scanned: Scan, settings: Settings) -> Settings:
    """The settings with the model that a dataset's batch lines name, where no other was named."""
    if settings.model or scanned.model is None:
        return settings
    return msgspec.structs.replace(settings, model=scanned.model)


def open_writer(
    directory: Path,
    warn: Callable[[str], None],
    name: str = "log",
    clock_ns: Callable[[], int] = now_ns,
) -> LogWriter:
    """Open the log `name` of a run for writing. Nothing is written before the first event.

    Raises:
        LogLocked, LogRefused: somebody else works on it, or it is not whole.
    """
    return LogWriter.open(
        directory / name,
        clock_ns=clock_ns,
        random_bytes=random_bytes,
        holder={"host": socket.gethostname(), "run": directory.name},
        warn=warn,
        first_segment_bytes=FIRST_SEGMENT_BYTES,
        compress_sealed=True,
    )


def opened(session: int, pid: int) -> SessionOpened:
    """The event by which a session introduces itself."""
    return SessionOpened(session, pid, socket.gethostname(), versions()["evrun"])


def started(options: Options, settings: Settings, scanned: Scan, toolbox: Toolbox) -> RunStarted:
    """The event that begins a new run."""
    inputs = [InputDigest("dataset rows", scanned.sha256, scanned.size_bytes, settings.dataset)]
    return RunStarted(
        "batch",
        options.run_name,
        settings_record(settings),
        run_toolsets(settings, toolbox),
        versions(),
        inputs,
    )


def changed(batch: BatchState, settings: Settings, toolbox: Toolbox) -> SettingsChanged | None:
    """What a resume changes against the record; null: nothing."""
    changes = changes_between(settings_from_record(batch.settings), settings)
    toolsets = run_toolsets(settings, toolbox)
    renewed = toolsets if toolsets != batch.toolsets else None
    return SettingsChanged(changes, renewed) if changes or renewed is not None else None


def recapped(before: Mapping[str, int], now: Mapping[str, int]) -> list[Event]:
    """The fact that caps were set, raised, lowered or lifted; nothing where they stay."""
    return [BudgetChanged(dict(before), dict(now))] if before != now else []


def orphaned(ledger: Ledger) -> list[SpendInDoubt]:
    """Doubts about all calls that earlier sessions reserved and never settled."""
    reason = "the session that reserved it ended before its outcome was recorded"
    return [
        SpendInDoubt(call.name, reason, call.bound_nano_usd, call.bound_tokens)
        for call in ledger.reserved.values()
    ]


def first_plan(path: Path, settings: Settings, scanned: Scan) -> Iterator[Event]:
    """The events that plan a new run."""
    numbering = Numbering(0, 1, 0, settings.batch_size)
    return plan(read_dataset(path, terms_of(settings)), scanned, None, numbering, settings.samples)


def comparison(scanned: Scan, batch: BatchState, settings: Settings) -> Comparison:
    """A dataset against what was planned."""
    planned = ((name, unit.gone) for name, unit in batch.units.items())
    return compare(scanned.identities, planned, settings.samples)


def replanned(batch: BatchState, compared: Comparison) -> Iterator[Event]:
    """What a resume says about the plan in its first commit: rows that are gone, and that new ones come.

    The plan counts as incomplete from here on until its last chunk is durable: so a crash in between is seen.
    """
    gone = iter(compared.gone)
    while names := list(islice(gone, WITHDRAWN_CHUNK)):
        yield PromptsWithdrawn(names)
    if compared.new and batch.plan_complete:
        yield PromptsPlanned([], complete=False)


def further_plan(
    path: Path, settings: Settings, batch: BatchState, scanned: Scan, compared: Comparison
) -> Iterator[Event]:
    """The events that bring a plan up to a dataset: new rows get new batches, in planned order.

    What is new of a row that was planned before stands where the row stands.
    """
    if not len(compared.new) and batch.plan_complete:
        return iter(())

    def known(identity: Identity) -> Place | None:
        # Of a row that is not new altogether the first sample was planned first.
        unit = batch.units.get(unit_name(*identity, 1))
        return None if unit is None else (unit.index, unit.batch)

    # Decided now, because the first commit will say that the plan is incomplete.
    numbering = _numbering(batch, settings)._replace(known=known)
    lines = read_dataset(path, terms_of(settings))
    return plan(lines, scanned, compared.new, numbering, settings.samples)


def _numbering(batch: BatchState, settings: Settings) -> Numbering:
    whole = batch.plan_complete or batch.batches == batch.complete_batches
    last, filled, highest = batch.batches, 0, -1
    for unit in batch.units.values():
        # New rows take ascending indices; what is planned of a row later has its index again.
        if unit.index > highest:
            filled += unit.batch == last
            highest = unit.index
    if whole:
        return Numbering(highest + 1, last + 1, 0, settings.batch_size)
    # A planning that a crash cut short goes on where it was, in the batch that it was filling.
    return Numbering(highest + 1, last, filled, settings.batch_size)


def rejudged(reader: LogReader, batch: BatchState, settings: Settings) -> Iterator[Event]:
    """What today's quality rules change about trajectories that were decided before: no call, only events.

    They belong into one commit with the changed setting: half of them would be taken for all. The log is read
    through once, because looking up the end of each unit takes more than ten times as long.
    """
    rules, rows = rules_of(settings), RowSource(reader)
    for record in recorded(reader):
        boundary = record.event
        if not isinstance(boundary, TrajectoryCompleted | TrajectoryDiscarded):
            continue
        unit = batch.units.get(boundary.unit)
        if unit is None or unit.boundary != record.sequence or unit.outcome not in {"kept", "discarded"}:
            continue
        facts = Facts(boundary.counts, unit.unknown_tools, unit.score)
        event = rejudge(boundary.unit, rules, facts, unit.reason)
        if event is not None:
            event = rejudge(boundary.unit, rules_of(settings, rows.row_of(unit)), facts, unit.reason)
        if event is not None:
            yield event


def units_to_retry(batch: BatchState, options: Options) -> Iterator[str]:
    """Finished units that this resume gives another attempt."""
    return batch.units.names_with(*_retried(options), gone=False)


def units_to_work_on(batch: BatchState, options: Options) -> Iterator[str]:
    """What a session works on: units that an earlier one left open, then the others in planned order.

    Others are the pending ones and those that get another attempt. They are found while the run goes on and
    changes what is asked here; as the search comes to each unit once, no unit is given twice.
    """
    left_open = set(batch.open)
    yield from list(batch.open)
    for name in batch.units.names_with("pending", *_retried(options), gone=False):
        if name not in left_open:
            yield name


def _retried(options: Options) -> list[str]:
    asked = {"failed": options.retry_failed, "discarded": options.retry_discarded}
    return [outcome for outcome, again in asked.items() if again]
