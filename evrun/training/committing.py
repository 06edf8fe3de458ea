"""From a learner's candidate to the step's boundary: checked, repaired, committed. Nothing is written."""

from collections.abc import Callable
from typing import NamedTuple

from eventlog.events import (
    BlobStored,
    CandidateChecked,
    CandidateRepaired,
    CommitMade,
    Event,
    EvolverReturned,
    FileEntry,
    StepCommitted,
)
from projections import FRAMEWORK_FILES, OpenStep, TrainingState, make_commit

from .adapter_check import check_candidate
from .blobs import Blobs, Content, Files, entries_of
from .config import TrainingConfig
from .manifest import with_origin
from .repair import repair
from .template import Template

INVALID = "[invalid adapter: it did not pass the check, and was repaired in the commit that follows]"
_LONGEST_RATIONALE = 2000
KEEPING = frozenset({"failed", "out_of_budget"})
"""Statuses that keep the adapter as it was."""


class Boundary(NamedTuple):
    """What ends a step: the events, in one commit, and the git objects that have to be there before."""

    events: list[Event]
    objects: list[tuple[str, bytes]]


class Moment(NamedTuple):
    """When a step is committed, and for how long the run has been worked on by then."""

    time_s: int
    active_ns: int


class Committer:
    """Makes the boundary of the open step."""

    def __init__(
        self, config: TrainingConfig, template: Template, state: TrainingState, blobs: Blobs
    ) -> None:
        self._config = config
        self._template = template
        self._state = state
        self._blobs = blobs

    def skipped(self, current: OpenStep, note: str, tags: list[str], moment: Moment) -> Boundary:
        """The boundary of a step whose learner is not called."""
        event = StepCommitted(
            current.step, current.epoch, "failed", note, current.parent, [], self._state.state_files,
            self._state.session, tags, moment.active_ns,
        )  # fmt: skip
        return Boundary([event], [])

    def boundary(self, current: OpenStep, tags: list[str], moment: Moment) -> Boundary:
        """The boundary of a step whose learner has returned."""
        returned = current.returned
        assert returned is not None
        counts = returned.adapter is not None and returned.status not in KEEPING
        candidate = self._blobs.files(returned.adapter or []) if counts else {}
        parent = self._blobs.files(self._state.files)
        events: list[Event] = []
        made = _Commits(self._state.head, moment.time_s, self._blobs)
        if counts and plain(candidate) != plain(parent):
            events = self._changed(current, returned, candidate, parent, made)
        bootstrap = ["bootstrap"] if current.step == 0 and made.commits else []
        committed = StepCommitted(
            current.step, current.epoch, returned.status, returned.error, current.parent, made.commits,
            self._state.state_files if returned.state is None else returned.state,
            self._state.session if returned.state is None else returned.session,
            [*bootstrap, *tags], moment.active_ns,
        )  # fmt: skip
        return Boundary([*made.blobs, *events, committed], made.objects)

    def _changed(
        self,
        current: OpenStep,
        returned: EvolverReturned,
        candidate: Files,
        parent: Files,
        made: "_Commits",
    ) -> list[Event]:
        """Check, and repair where it has to be; the commits go to `made`."""
        root = self._blobs.files(self._state.root_files)
        origin = {"run": self._config.trainer.run_name, "step": str(current.step)}
        issues = check_candidate(self._template, root, parent, candidate)
        events: list[Event] = [CandidateChecked(current.step, not issues, issues)]
        message = self._message(current, returned)
        if not issues:
            made.add(message, _signed(candidate, origin))
            return events
        made.add(f"{message}\n{INVALID}\n", candidate)
        repaired, repairs = repair(self._template, root, parent, candidate)
        events += [
            CandidateRepaired(current.step, one.path, one.restored_from, one.reason) for one in repairs
        ]
        left = check_candidate(self._template, root, parent, repaired)
        events.append(CandidateChecked(current.step, not left, left, after_repair=True))
        made.add(f"step {current.step} (epoch {current.epoch}): repaired\n", _signed(repaired, origin))
        return events

    def _message(self, current: OpenStep, returned: EvolverReturned) -> str:
        subject = " ".join(returned.summary.split())[:200] or returned.status
        where = f"step {current.step} (epoch {current.epoch})" if current.step else "bootstrap"
        # Where a learner's file lies is of this machine, and no part of what was learned.
        evolver = self._config.evolver.name.rpartition("/")[2]
        lines = [
            f"{where} [{evolver}]: {subject}",
            "",
            f"run: {self._config.trainer.run_name}",
            f"evolver: {evolver}",
            f"records: step_{current.step:04d}/",
        ]
        if returned.output and any(entry.path == "report.md" for entry in returned.output):
            lines.append(f"report: step_{current.step:04d}/output/report.md")
        if returned.rationale:
            lines += ["", returned.rationale[:_LONGEST_RATIONALE]]
        return "\n".join(lines) + "\n"


class _Commits:
    """Commits on top of each other, with the contents and objects that they need."""

    def __init__(self, head: str, time_s: int, blobs: Blobs) -> None:
        self._head = head
        self._time_s = time_s
        self._known = blobs
        self.commits: list[CommitMade] = []
        self.objects: list[tuple[str, bytes]] = []
        self.blobs: list[BlobStored] = []

    def add(self, message: str, files: Files) -> None:
        commit, objects = commit_of(self._head, message, self._time_s, files)
        self.commits.append(commit)
        self.objects += objects
        self.blobs += [one for one in self._known.missing(files) if one not in self.blobs]
        self._head = commit.sha


def commit_of(
    parent: str, message: str, time_s: int, files: Files
) -> tuple[CommitMade, list[tuple[str, bytes]]]:
    """A commit of these files, and its git objects."""
    entries = entries_of(files)
    return make_commit(parent, message, time_s, entries, _reader_of(files, entries))


def plain(files: Files) -> dict[str, Content]:
    """An adapter's files without evrun's own account in them."""
    return {path: content for path, content in files.items() if path not in FRAMEWORK_FILES}


def _signed(files: Files, origin: dict[str, str]) -> Files:
    """The files with their origin in the manifest."""
    manifest = files.get("adapter.yaml")
    if manifest is None:
        return files
    return {**files, "adapter.yaml": Content(with_origin(manifest.data, origin), manifest.executable)}


def _reader_of(files: Files, entries: list[FileEntry]) -> Callable[[bytes], bytes]:
    by_digest = {entry.digest: files[entry.path].data for entry in entries}
    return lambda digest: by_digest[digest]
