"""Putting a run aside so that another may have its name, and leaving nothing of a start that was refused."""

import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from eventlog.errors import LogLocked
from eventlog.events import SettingsChanged, encode_event
from eventlog.storage import LogReader, RealFileSystem, lock_holder, log_exists
from projections import RUN_NAME, fold_log, open_training_views

from ..batch.opening import open_writer
from ..effects.clock import now_ns
from ..errors import UsageFault
from .config import TrainingConfig
from .opening import run_directory
from .tree import set_aside


def put_aside(config: TrainingConfig, note: Callable[[str], None]) -> None:
    """Rename a run's directory, branch and tags: ``NAME.replaced-YYYYMMDD-HHMMSS``.

    Raises:
        LogLocked: a process works on it.
    """
    directory = run_directory(config)
    holder = lock_holder(directory / "log")
    if holder is not None:
        raise LogLocked(f"{directory / 'log'} is in use", holder=holder)
    moment = datetime.fromtimestamp(now_ns() / 1e9, UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{directory.name}.replaced-{moment}"
    if directory.with_name(name).exists():
        raise UsageFault(f"{directory.with_name(name)} is there already", hint="wait a second, then again")
    _rename_in_log(directory, name, note)
    tree = Path(config.trainer.tree_dir)
    if tree.is_dir():
        set_aside(tree, directory.name, name)
    files = RealFileSystem()
    files.rename(str(directory), str(directory.with_name(name)))
    files.sync_directory(str(directory.parent))
    moved = directory.with_name(name)
    with closing(LogReader.open(moved / "log")) as reader:
        open_training_views(moved, reader).finish()
    note(f"the run that was there is now {moved}")


def _rename_in_log(directory: Path, name: str, note: Callable[[str], None]) -> None:
    """The log says so first: its branch and its tags follow from that."""
    with closing(open_writer(directory, note)) as writer:
        before = fold_log(writer.reader()).training.name
        writer.append([encode_event(SettingsChanged({RUN_NAME: (before, name)}, None))])


def standing_above(directory: Path) -> Path:
    """The nearest directory above that is there."""
    return next(place for place in directory.absolute().parents if place.is_dir())


def remove_unbegun(directory: Path, below: Path) -> None:
    """Remove a run's directory in which nothing was ever recorded, and what was made for it `below`."""
    log = directory / "log"
    if not log.is_dir() or lock_holder(log) is not None:
        return
    if log_exists(log):
        with closing(LogReader.open(log)) as reader:
            if reader.end.sequence:
                return
    shutil.rmtree(log, ignore_errors=True)
    for place in (directory.absolute(), *directory.absolute().parents):
        if place == below or any(place.iterdir()):
            return
        place.rmdir()
