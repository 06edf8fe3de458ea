"""A new run from a step of another: its adapter, and what its learner kept."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from eventlog.events import (
    BudgetChanged,
    Event,
    EvolverReturned,
    EvolverStarted,
    HistoryStored,
    RunStarted,
    SessionClosed,
)
from eventlog.storage import LogReader, LogWriter
from projections import TRAINING, RunState, TrainingState, fold_log, learner_unit, open_training_views

from ..batch import opening as batch_opening
from ..errors import UsageFault
from ..versions import versions
from ..whole_log import commits, write_whole
from .blobs import Blobs
from .config import TrainingConfig
from .config_file import config_from_record, config_record
from .opening import check_name_is_free, run_directory
from .restoring import bring_up
from .tree import tree_of


class Forked(NamedTuple):
    """The run that was made."""

    directory: Path
    step: int
    commit: str


def fork_run(
    directory: Path, step: int, run_name: str, *, adapter_only: bool, note: Callable[[str], None]
) -> Forked:
    """Make a run that begins with the adapter of a step of another; it is begun, and not worked on.

    Step 0 is the bootstrap, or where the other run began.

    Raises:
        UsageFault: no such step, a run of prompts, or the name is taken; nothing was changed.
    """
    with closing(LogReader.open(directory / "log")) as reader:
        now = fold_log(reader)
        if not now.is_training:
            raise UsageFault(f"{directory} holds a run of prompts; only training runs have steps")
        config = _config(now, run_name)
        check_name_is_free(config)
        then = fold_log(reader, _sequence(now.training, step, directory))
        events = _events(now, then, config, reader, step, adapter_only=adapter_only)
    made = run_directory(config)

    def fill(writer: LogWriter) -> None:
        opened = batch_opening.opened(writer.epoch, os.getpid())
        closed = SessionClosed(writer.epoch, "interrupted", f"forked from {directory} at step {step}", 0)
        for part in commits([events[0], opened], [*events[1:], closed]):
            writer.append(part)

    write_whole(made, note, fill)
    with closing(LogReader.open(made / "log")) as reader:
        bring_up(open_training_views(made, reader), reader, config)
    return Forked(made, step, then.training.head)


def _config(state: RunState, run_name: str) -> TrainingConfig:
    config = config_from_record(state.batch.settings)
    trainer = msgspec.structs.replace(config.trainer, run_name=run_name)
    return msgspec.structs.replace(config, trainer=trainer)


def _sequence(state: TrainingState, step: int, directory: Path) -> int:
    """Where in the log the step was over."""
    found = [record.sequence for record in state.steps if record.step == step]
    if found:
        return found[0]
    if step == 0:
        return state.history[-1]
    last = max((record.step for record in state.steps), default=0)
    raise UsageFault(f"--at {step}: {directory} has the steps 0 to {last}")


def _events(
    now: RunState,
    then: RunState,
    config: TrainingConfig,
    reader: LogReader,
    step: int,
    *,
    adapter_only: bool,
) -> list[Event]:
    training, blobs = then.training, Blobs(then.training, reader)
    objects, _ = tree_of(training, blobs)
    kept = [] if adapter_only else training.state_files
    needed = {entry.digest for entry in (*training.files, *training.root_files, *kept)}
    events: list[Event] = [
        RunStarted(TRAINING, config.trainer.run_name, config_record(config), {}, versions(), now.batch.inputs)
    ]
    if now.ledger.caps:
        events.append(BudgetChanged({}, dict(now.ledger.caps)))
    events += [blobs.event(training.blobs[digest]) for digest in sorted(needed)]
    events.append(
        HistoryStored(
            training.head,
            training.root,
            list(objects),
            complete=True,
            files=training.files,
            root_files=training.root_files,
        )
    )
    if not adapter_only:
        unit = learner_unit("setup", 0)
        told = f"state of {now.batch.run} behind step {step}"
        events += [
            EvolverStarted(unit, 1, "setup", 0),
            EvolverReturned(
                unit, 1, "setup", 0, "done", told, "", training.session, [], None, None, 0, None, kept, None
            ),
        ]
    return events
