"""Evaluating an adapter on held-out tasks, attempt by attempt; it moves nothing that training made."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from eventlog.events import EvaluationAttemptJudged, EvaluationFinished, EvaluationStarted, Event, FileEntry
from projections import Evaluation, TrainingState, evaluation_unit

from ..effects.git import Tree
from ..errors import UsageFault
from .blobs import Content, Files, entries_of
from .committing import INVALID
from .finishing import files_of
from .jobs import run_jobs
from .means import Means
from .template import adapter_files
from .working import Job

NONE, ROOT, FINAL = "none", "root", "final"


class Chosen(NamedTuple):
    """The adapter that a selector means: `name` in units and files, its commit, its files; null for none."""

    name: str
    commit: str | None
    files: Files | None


def choose(selector: str, state: TrainingState, tree: Tree, run: str, means: Means) -> Chosen:
    """What is to be evaluated.

    Raises:
        UsageFault: there is no such adapter.
    """
    if selector == NONE:
        return Chosen(NONE, None, None)
    if selector == ROOT:
        return Chosen(ROOT, state.root, means.blobs.files(state.root_files))
    if selector == FINAL and state.final is None:
        raise UsageFault(
            f"--adapter final: {run} has chosen no final adapter yet",
            hint="train first: evrun train --config run.yaml; or evaluate root, none, a tag or a directory",
        )
    if selector == FINAL and state.final is not None:
        return Chosen(FINAL, state.final.commit.sha, means.blobs.files(state.final.commit.files))
    directory = Path(selector)
    if directory.is_dir():
        files = adapter_files(directory, f"--adapter {selector}")
        return Chosen(directory.resolve().name, None, files)
    return _version(selector, state, tree, run, means)


def _version(selector: str, state: TrainingState, tree: Tree, run: str, means: Means) -> Chosen:
    found = tree.resolve(selector) or tree.resolve(f"{run}/{selector}")
    if found is None:
        raise UsageFault(
            f"--adapter {selector}: no tag, branch or commit of {tree.path}, and no directory",
            hint="final, root, none, a tag, a commit, or an adapter's directory",
        )
    if INVALID in tree.commit(found).message:
        raise UsageFault(f"--adapter {selector}: this commit holds an adapter that did not pass the check")
    try:
        files: Files = means.blobs.files(files_of(found, state, means.blobs))
    except KeyError:
        files = {path: Content(*one) for path, one in tree.files(found).items()}
    return Chosen(selector.replace("/", "_"), found, files)


class Evaluator:
    """Works on one evaluation, a new one or one that was cut short."""

    def __init__(self, means: Means, chosen: Chosen) -> None:
        self._m = means
        self._chosen = chosen
        self._tasks = means.prepared.tasks.test
        self._repeats = means.prepared.config.eval.repeats

    async def run(self) -> int:
        """Bring it to its end, or return when the run is stopping; its number."""
        number = self._open() or await self._begin()
        files = self._chosen.files
        name = self._chosen.commit or f"{self._chosen.name}-{number}"
        adapter = None if files is None else self._m.places.adapter(name[:40], files)
        for repeat in range(1, self._repeats + 1):
            jobs = [self._job(number, task, repeat, adapter, name) for task in self._tasks]
            left = [job for job in jobs if not self._ended(number, repeat, job)]
            await run_jobs(
                self._m.prepared.config,
                self._m.control,
                self._m.rollouts,
                left,
                partial(judged_in_evaluation, number, repeat),
            )
            if not all(self._ended(number, repeat, job) for job in jobs):
                return number
        await self._m.journal.record(EvaluationFinished(number))
        return number

    def _ended(self, number: int, repeat: int, job: Job) -> bool:
        return (repeat, job.task_id) in self._m.state.evaluations[number].rollouts

    def _job(self, number: int, task: str, repeat: int, adapter: Path | None, name: str) -> Job:
        unit = evaluation_unit(self._chosen.name, number, task, repeat)
        row = self._m.prepared.tasks.rows[task]
        return Job(unit, task, row, adapter, "" if adapter is None else name, "evaluation")

    def _open(self) -> int | None:
        """The number of an evaluation of just this that was cut short."""
        files = self._entries()
        for evaluation in self._m.state.evaluations.values():
            if evaluation.finished_ns is None and self._is_this(evaluation, files):
                return evaluation.number
        return None

    def _is_this(self, evaluation: Evaluation, files: list[FileEntry] | None) -> bool:
        mine = (self._chosen.name, self._chosen.commit, files, self._tasks, self._repeats)
        its = (
            evaluation.selector, evaluation.commit, evaluation.files, evaluation.tasks, evaluation.repeats,
        )  # fmt: skip
        return mine == its

    async def _begin(self) -> int:
        number = max(self._m.state.evaluations, default=0) + 1
        started = EvaluationStarted(
            number, self._chosen.name, self._chosen.commit, self._entries(), self._tasks, self._repeats
        )
        contents = [] if self._chosen.files is None else self._m.blobs.missing(self._chosen.files)
        await self._m.journal.record(*contents, started)
        return number

    def _entries(self) -> list[FileEntry] | None:
        """The files of what is no commit."""
        if self._chosen.files is None or self._chosen.commit is not None:
            return None
        return entries_of(self._chosen.files)


def judged_in_evaluation(  # noqa: PLR0917 (a `Conclude`, with two of its own)
    number: int,
    repeat: int,
    job: Job,
    attempt: int,
    score: float | None,
    feedback: str | None,
    extra: bytes | None,
    error: str | None,
    _wall_ms: int,
) -> Event:
    """The event that ends an attempt of an evaluation."""
    return EvaluationAttemptJudged(
        number, repeat, job.task_id, job.unit, attempt, score, feedback, extra, error
    )
