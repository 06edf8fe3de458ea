"""A training run from nothing but its log: its views, and its versions in the tree."""

from pathlib import Path

from eventlog.storage import LogReader
from projections import (
    FileCheck,
    RunState,
    check_training,
    fold_log,
    rebuild_training,
)

from .blobs import Blobs
from .tree import compare_tree, restore_tree

TREE = "tree"
"""Where the versions go, below a directory that is not the run's own."""


def rebuild_training_run(reader: LogReader, target: Path, sequence: int, *, own: bool) -> list[str]:
    """Make every view in `target`, and the commits, branch and tags of the run; the names of what there is.

    `own`: `target` is the run's directory, and its versions belong into the tree that its runs share. Else
    they go into a tree of their own below `target`. The names of refs that were moved follow those of views.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
        RunFailed: the tree cannot be written.
    """
    names = rebuild_training(reader, target, sequence)
    state = fold_log(reader, sequence)
    tree = tree_place(state, target, own=own)
    if tree is None:
        return names
    moved = restore_tree(state.training, Blobs(state.training, reader), tree)
    return [*names, *(f"{TREE}/{name}" for name in moved)]


def check_training_run(reader: LogReader, target: Path, sequence: int, *, own: bool) -> list[FileCheck]:
    """Compare every view in `target`, and the run's refs and commits, with the log; nothing is written.

    Raises:
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    checks = check_training(reader, target, sequence)
    state = fold_log(reader, sequence)
    tree = tree_place(state, target, own=own)
    if tree is None:
        return checks
    return checks + compare_tree(state.training, Blobs(state.training, reader), tree)


def tree_place(state: RunState, target: Path, *, own: bool) -> Path | None:
    """Where the run's versions are; null where it has none yet."""
    named = state.batch.settings.get("trainer.tree_dir")
    if not state.training.history_complete:
        return None
    if not own:
        return target / TREE
    return None if named is None else Path(named)
