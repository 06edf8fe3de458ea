"""Directories of a training run that are views: which files they have, and what is in them."""

from collections.abc import Iterable
from typing import NamedTuple

from eventlog.events import EvolverReturned, FileEntry, StepCommitted

from .render_steps import render_step_result
from .training_contents import Contents
from .training_facts import StepRecord

OUTPUT = "output"
STATE = "state"
RESULT = "step_result.json"


class Tree(NamedTuple):
    """A directory: its files by path, as bytes or by digest; and folders that are there even if empty."""

    files: dict[str, bytes | FileEntry]
    folders: tuple[str, ...] = ()


def step_tree(contents: Contents, record: StepRecord) -> Tree:
    """``step_NNNN/``: what the learner left in its output, its state from then on, and what it said."""
    committed = contents.event(record.sequence, StepCommitted)
    learner = record.learner
    returned = None if learner is None else contents.event(learner.sequence, EvolverReturned)
    files: dict[str, bytes | FileEntry] = {RESULT: render_step_result(record, returned)}
    files |= below(OUTPUT, [] if returned is None else returned.output or [])
    files |= below(STATE, committed.state)
    return Tree(files, (OUTPUT, STATE))


def below(folder: str, entries: Iterable[FileEntry]) -> dict[str, bytes | FileEntry]:
    """Files in a folder."""
    return {f"{folder}/{entry.path}": entry for entry in entries}
