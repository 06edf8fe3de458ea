"""`evrun import hermes`: a new run whose log says what a Hermes directory says, which stays as it is."""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from eventlog.events import Event, InputDigest, RunFinished, RunStarted, SessionClosed, encode_event
from eventlog.storage import LogReader, LogWriter, log_exists
from projections import RunState, is_view, open_views

from ..batch.opening import opened, refuse_used_name
from ..batch.options import Options, check_run_name
from ..batch.settings import Settings, settings_record
from ..effects.clock import monotonic
from ..errors import UsageFault
from ..versions import versions
from ..whole_log import LOG, commits, write_whole
from .facts import facts
from .layout import Layout, lay_out
from .reading import Unread
from .survey import Survey, survey


class Import(msgspec.Struct, kw_only=True):
    """What somebody asked for: which directory to take in, as which run."""

    source: Path
    run_name: str
    output_dir: Path = Path("data")
    dataset: Path | None = None
    batch_size: int = 10

    @property
    def directory(self) -> Path:
        """Where the run will live."""
        return self.output_dir / self.run_name


class Imported(msgspec.Struct):
    """What was made: the run's state and chain, and what is in the directory and not in the run."""

    state: RunState
    chain: bytes
    files: list[str]
    unread: list[Unread]
    notes: list[str]
    copies: int


def import_hermes(asked: Import, warn: Callable[[str], None]) -> Imported:
    """Make a run of a Hermes directory. Until it is whole and durable, there is no run.

    Raises:
        UsageFault: refused, or nothing in the directory can be used; nothing was made.
        LogLocked: another process makes a run of this name just now.
        OSError: the log could not be written; nothing was made.
    """
    _check(asked)
    found = survey(asked.source)
    layout = lay_out(found, asked.dataset, asked.batch_size)
    if not layout.usable:
        raise UsageFault(_nothing(found, layout), hint="give the directory that a Hermes run wrote")
    _write(asked, found, layout, warn)
    with closing(LogReader.open(asked.directory / LOG)) as reader:
        views = open_views(asked.directory, reader)
        views.finish()
        files = [source.name for source in found.sources]
        unread = found.unread + layout.unread
        return Imported(
            views.state, reader.end.chain, files, unread, found.notes + layout.notes, found.copies
        )


def _check(asked: Import) -> None:
    check_run_name(asked.run_name)
    if asked.batch_size < 1:
        raise UsageFault(f"--batch-size {asked.batch_size}: expected a whole number of at least 1")
    directory, source = asked.directory.resolve(), asked.source.resolve()
    if directory == source or source in directory.parents:
        raise UsageFault(
            f"{asked.directory} is in {asked.source}, which is not to be changed",
            hint="choose another --run-name or --output-dir",
        )
    if log_exists(asked.directory / LOG):
        refuse_used_name(Options(run_name=asked.run_name, output_dir=asked.output_dir))
    with suppress(FileNotFoundError):
        names = sorted(entry.name for entry in asked.directory.iterdir() if is_view(entry.name))
        if names:
            raise UsageFault(
                f"{asked.directory} holds results ({', '.join(names[:5])})", hint="choose another --run-name"
            )


def _nothing(found: Survey, layout: Layout) -> str:
    listed = "".join(f"\n{unread.said}" for unread in (found.unread + layout.unread)[:20])
    return f"{found.directory}: nothing in it can be used{listed}"


def _write(asked: Import, found: Survey, layout: Layout, warn: Callable[[str], None]) -> None:
    began = monotonic()
    write_whole(asked.directory, warn, lambda writer: _fill(writer, asked, found, layout, began))


def _fill(writer: LogWriter, asked: Import, found: Survey, layout: Layout, began: float) -> None:
    first: list[Event] = [_started(asked, found, layout), opened(writer.epoch, os.getpid())]
    for events in commits(first, facts(found, layout, asked.dataset)):
        writer.append(events)
    pending = layout.counts["pending"]
    active_ns = round((monotonic() - began) * 1e9)
    last: list[Event] = [SessionClosed(writer.epoch, "finished", None, active_ns)]
    if pending:
        detail = f"imported from {asked.source}; {pending} prompts are left to run"
        last = [SessionClosed(writer.epoch, "interrupted", detail, active_ns)]
    else:
        last.insert(0, RunFinished(layout.counts))
    writer.append([encode_event(event) for event in last])


def _started(asked: Import, found: Survey, layout: Layout) -> RunStarted:
    """The run's beginning: of its settings what is known; a resume asks for the rest."""
    settings = Settings(
        dataset="" if asked.dataset is None else str(asked.dataset),
        model=layout.model,
        batch_size=asked.batch_size,
    )
    inputs: list[InputDigest] = found.sources
    record: dict[str, Any] = settings_record(settings)
    return RunStarted("batch", asked.run_name, record, {}, versions(), inputs)
