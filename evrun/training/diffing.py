"""Two versions of a run's adapter, side by side: found in its log, which needs no tree."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from eventlog.events import CommitMade, HistoryStored, StepCommitted
from eventlog.storage import LogReader
from projections import GitObject, StepRecord, TrainingState, fold_log, git_id, parse_commit, parse_tree

from ..errors import UsageFault
from .blobs import Blobs, Content
from .patches import changes

HEAD: Final = "head"
START: Final = "start"
ROOT: Final = "root"
FINAL: Final = "final"
_SHORTEST_PREFIX: Final = 4
_TREE, _EXECUTABLE = "40000", "100755"


class Version(NamedTuple):
    """A version of an adapter; `step` is null where it is no step's."""

    name: str
    commit: str
    step: int | None
    files: dict[str, Content]


class Versions:
    """The versions that a run's log holds, by the names that people give them."""

    def __init__(self, state: TrainingState, blobs: Blobs, run: str) -> None:
        self._state, self._blobs, self._run = state, blobs, run

    def find(self, name: str) -> Version:
        """The version that a name means.

        It is a step (``3`` or ``step:3``), ``root``, ``start``, ``head``, ``final``, a tag (with the run's
        name before it or without), or a commit, also the beginning of one.

        Raises:
            UsageFault: there is none, or there are several.
        """
        record = self._step(name)
        if record is not None:
            return self._version(name, record.commit, record.step)
        commit = self._named(name) or self._tagged(name) or self._begins(name)
        if commit is None:
            raise UsageFault(f"no version {name!r} of {self._run}", self._hint())
        return self._version(name, commit, self._step_of(commit))

    def _version(self, name: str, commit: str, step: int | None) -> Version:
        return Version(name, commit, step, self._sources()[commit]())

    def _step(self, name: str) -> StepRecord | None:
        """The committed step that is meant; null where none is named.

        Raises:
            UsageFault: there is no such step.
        """
        number = name.removeprefix("step:").removeprefix("step").strip()
        known_short = len(number) < _SHORTEST_PREFIX or name.startswith("step")
        if not number.isascii() or not number.isdigit() or not known_short:
            return None
        for record in self._state.steps:
            if record.step == int(number):
                return record
        raise UsageFault(f"{self._run} has no committed step {int(number)}", self._hint())

    def _named(self, name: str) -> str | None:
        state = self._state
        final = None if state.final is None else state.final.commit.sha
        start = state.steps[0].parent if state.steps else state.head
        return {HEAD: state.head, START: start, ROOT: state.root, FINAL: final}.get(name) or None

    def _tagged(self, name: str) -> str | None:
        short = name.removeprefix(f"{self._run}/")
        return next((record.commit for record in self._state.steps if short in record.tags), None) or (
            self._named(FINAL) if short == FINAL else None
        )

    def _begins(self, name: str) -> str | None:
        if len(name) < _SHORTEST_PREFIX:
            return None
        found = [commit for commit in self._sources() if commit.startswith(name.lower())]
        if len(found) > 1:
            raise UsageFault(f"{name}: {len(found)} commits of {self._run} begin so", "give more letters")
        return found[0] if found else None

    def _step_of(self, commit: str) -> int | None:
        """The step that made a commit."""
        return next((record.step for record in self._state.steps if commit in record.commits), None)

    def _sources(self) -> dict[str, Callable[[], dict[str, Content]]]:
        """How the files of each commit are had, the commits of the starting point first."""
        found: dict[str, Callable[[], dict[str, Content]]] = {}
        objects = self._history()
        for sha, (kind, _) in objects.items():
            if kind == "commit":
                found[sha] = lambda sha=sha: _files(sha, objects)  # type: ignore[misc]
        for record in self._state.steps:
            for sha in record.commits:
                found[sha] = lambda record=record, sha=sha: self._made(record, sha)  # type: ignore[misc]
        final = self._state.final
        if final is not None:
            found[final.commit.sha] = lambda: self._blobs.files(final.commit.files)
        return found

    def _history(self) -> dict[str, GitObject]:
        objects: dict[str, GitObject] = {}
        for sequence in self._state.history:
            event = self._blobs.event(sequence)
            assert isinstance(event, HistoryStored)
            objects |= {git_id(*one): one for one in event.objects}
        return objects

    def _made(self, record: StepRecord, sha: str) -> dict[str, Content]:
        event = self._blobs.event(record.sequence)
        assert isinstance(event, StepCommitted)
        return self._blobs.files(_by_sha(event.commits, sha).files)

    def _hint(self) -> str:
        steps = [record.step for record in self._state.steps]
        which = f"steps {steps[0]} to {steps[-1]}" if steps else "no step yet"
        final = ", final" if self._state.final is not None else ""
        return f"{which}, root, start, head{final}, a tag or a commit"


def compare_versions(directory: Path, before: str, after: str) -> dict[str, Any]:
    """What differs between two versions of the run in a directory, as `evrun diff --json` prints it.

    Raises:
        UsageFault: it trains nothing, or has no such version.
        EventLogError: its log cannot be read.
    """
    with closing(LogReader.open(directory / "log")) as reader:
        state = fold_log(reader)
        name = state.batch.run or directory.resolve().name
        if not state.is_training:
            raise UsageFault(
                f"{directory} is a run of prompts", "evrun diff compares what training runs made"
            )
        versions = Versions(state.training, Blobs(state.training, reader), name)
        return {"run": name, **_compare(versions.find(before), versions.find(after))}


def _compare(before: Version, after: Version) -> dict[str, Any]:
    return {
        "a": _told(before),
        "b": _told(after),
        "files": [
            {"path": one.path, "change": one.kind, "diff": one.diff or None}
            for one in changes(before.files, after.files)
        ],
    }


def _told(version: Version) -> dict[str, Any]:
    return {"name": version.name, "commit": version.commit, "step": version.step}


def _by_sha(commits: list[CommitMade], sha: str) -> CommitMade:
    return next(commit for commit in commits if commit.sha == sha)


def _files(commit: str, objects: dict[str, GitObject]) -> dict[str, Content]:
    """The files of a commit whose objects are all there."""
    found: dict[str, Content] = {}

    def collect(tree: str, above: str) -> None:
        for mode, name, child in parse_tree(objects[tree][1]):
            if mode == _TREE:
                collect(child, f"{above}{name}/")
            elif child in objects:
                found[f"{above}{name}"] = Content(objects[child][1], mode == _EXECUTABLE)

    collect(parse_commit(objects[commit][1]).tree, "")
    return dict(sorted(found.items()))
