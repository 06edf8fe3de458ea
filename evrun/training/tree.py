"""The tree of versions: what a run's commits, branch and tags ought to be, from its log; and what is there.

The tree is a git repository that the runs of a template share. It is derived: a run's log makes it again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from eventlog.events import BlobStored, CommitMade, HistoryStored
from eventlog.storage import LogReader
from projections import FileCheck, GitObject, TrainingState

from .blobs import Blobs, Content
from .template import Template

TRUNK = "trunk"
ROOT = "root"


class Start(NamedTuple):
    """Where a run starts: the commit `head`, which rests on `objects` (parents first) down to `root`."""

    head: str
    root: str
    objects: list[GitObject]
    files: dict[str, Content]
    root_files: dict[str, Content]

    def events(self) -> list[BlobStored | HistoryStored]:
        """What the log has to hold of it, in the order in which it is recorded."""
        raise NotImplementedError


def root_commit(template: Template, time_s: int = 0) -> tuple[CommitMade, list[GitObject]]:
    """The commit of a template's files; of the same files always the same, in every tree."""
    raise NotImplementedError


def starting_point(tree: Path, template: Template, start_from: str | None) -> Start:
    """Where a run starts; looks only, and makes nothing.

    Raises:
        UsageFault: `start_from` is nothing to start from, or the template was changed under its version.
    """
    raise NotImplementedError


def refs_of(state: TrainingState, run: str) -> dict[str, str]:
    """The refs of a run, as its log has it now: its branch and its tags."""
    raise NotImplementedError


def tree_of(
    state: TrainingState, reader: LogReader, blobs: Blobs, run: str
) -> tuple[Iterator[GitObject], dict[str, str]]:
    """The objects of a run's commits, parents first, and its refs."""
    raise NotImplementedError


def restore_tree(
    state: TrainingState, reader: LogReader, blobs: Blobs, tree: Path, *, whole: bool = True
) -> list[str]:
    """Write what is missing of a run in its tree, and move its own refs; gives the names of refs that moved.

    Without `whole` the objects are written only where a ref is not as it ought to be.
    """
    raise NotImplementedError


def compare_tree(state: TrainingState, reader: LogReader, blobs: Blobs, tree: Path) -> list[FileCheck]:
    """A run's refs and commits in its tree, compared with its log; nothing is written."""
    raise NotImplementedError


def set_aside(tree: Path, run: str, name: str) -> None:
    """Give the branch and tags of a run another name, so that a new run can have it."""
    raise NotImplementedError
