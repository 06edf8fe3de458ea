"""What a learner can read of earlier versions: log.jsonl, newest first, and a patch for each."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from eventlog.events import FileEntry, HistoryStored, StepCommitted
from eventlog.storage import LogReader
from projections import StepRecord, TrainingState, json_line, rfc3339

from .blobs import Blobs, Content
from .patches import changes, patch

NEWEST = 50
LOG = "log.jsonl"
_ID_SHOWN = 12


class _Version(NamedTuple):
    line: bytes
    name: str
    patch: bytes


class _Stamp(NamedTuple):
    inode: int
    size: int
    mtime_ns: int
    mode: int


class History:
    """The newest versions of a run's adapter; each is looked at once, when it is new.

    With a directory `shared` the files are there, and what a learner gets leads to it: so a step costs what
    it adds, and not fifty files.
    """

    def __init__(
        self,
        state: TrainingState,
        reader: LogReader,
        blobs: Blobs,
        newest: int = NEWEST,
        shared: Path | None = None,
    ) -> None:
        self._state, self._reader, self._blobs, self._newest = state, reader, blobs, newest
        self._shared = shared
        self._written: dict[str, _Stamp] = {}
        self._log = b""
        self._versions: list[_Version] = []
        self._seen = 0
        self._files: dict[str, Content] | None = None

    def write(self, directory: Path) -> None:
        """Let a directory, which is made if it is not there, hold log.jsonl and the patches."""
        self._catch_up()
        if self._shared is None:
            self._fill(directory)
            return
        self._fill(self._shared)
        if directory.is_dir():
            directory.rmdir()
        directory.symlink_to(self._shared, target_is_directory=True)

    def _fill(self, directory: Path) -> None:
        """Make the files of a directory those that they ought to be; what is right stays."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = {version.name: version.patch for version in self._versions}
        wanted[LOG] = b"".join(version.line for version in self._versions[::-1])
        if wanted[LOG] != self._log:
            self._written.pop(LOG, None)
            self._log = wanted[LOG]
        for entry in list(os.scandir(directory)):
            if entry.name in wanted and _stamp(entry) == self._written.get(entry.name):
                del wanted[entry.name]
            elif entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry)
            else:
                Path(entry).unlink()
        for name, data in wanted.items():
            (directory / name).write_bytes(data)
            (directory / name).chmod(0o400)
            self._written[name] = _stamp(directory / name)

    def _catch_up(self) -> None:
        """Take in the steps that are new; of a run that was long before, only the newest ones."""
        new = [record for record in self._state.steps[self._seen :] if record.commits]
        self._seen = len(self._state.steps)
        shown = new[-self._newest :]
        if not shown:
            return
        if self._files is None or len(shown) < len(new):
            self._files = self._before(new[: len(new) - len(shown)])
        for record in shown:
            self._versions += self._versions_of(record)
        self._versions = self._versions[-self._newest :]

    def _before(self, left_out: list[StepRecord]) -> dict[str, Content]:
        """The files that the first of the shown versions was made from."""
        if left_out:
            return self._blobs.files(self._trees(left_out[-1])[-1])
        if not self._state.history:
            return {}
        start = self._blobs.event(self._state.history[-1])
        assert isinstance(start, HistoryStored)
        return self._blobs.files(start.files)

    def _trees(self, record: StepRecord) -> list[list[FileEntry]]:
        """The files of each commit of a step; those of the newest one are at hand."""
        if len(record.commits) == 1 and record is self._state.steps[-1]:
            return [self._state.files]
        event = self._blobs.event(record.sequence)
        assert isinstance(event, StepCommitted)
        return [commit.files for commit in event.commits]

    def _versions_of(self, record: StepRecord) -> Iterator[_Version]:
        parent = record.parent
        for commit, files in zip(record.commits, self._trees(record), strict=True):
            before, after = self._files or {}, self._blobs.files(files)
            found = changes(before, after)
            self._files = after
            name = f"{record.step:04d}-{commit[:_ID_SHOWN]}.patch"
            line = {"commit": commit, "parent": parent, **_told(record)}
            line |= {"valid": commit == record.commit, "changed": [one.path for one in found], "patch": name}
            parent = commit
            yield _Version(json_line(line), name, patch(found).encode("utf-8", "replace"))


def _told(record: StepRecord) -> dict[str, Any]:
    """A step as log.jsonl tells it. The score is that of its tasks with the version before it."""
    return {
        "step": record.step,
        "epoch": record.epoch,
        "status": record.status,
        "summary": "" if record.learner is None else record.learner.summary,
        "parent_mean_score": record.rollouts.mean_score,
        "time": rfc3339(record.time_ns),
    }


def _stamp(path: Path | os.DirEntry[str]) -> _Stamp:
    """By what a file is known to be as it was written; nobody changes one without that."""
    found = path.stat(follow_symlinks=False)
    return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
