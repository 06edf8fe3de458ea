"""What comes after the last step of a Hermit run: its final adapter, and its evaluations."""

from collections.abc import Iterator
from functools import partial

from eventlog.events import (
    EvaluationAttemptJudged,
    EvaluationFinished,
    EvaluationStarted,
    Event,
    FileEntry,
    FinalSelected,
)
from projections import evaluation_unit

from ..training.manifest import FRAMEWORK_FILES
from .attempts import Attempt, Judged, attempt_facts
from .contents import Contents
from .facts import Moment
from .lines import TaskFile
from .money import Books, Payer
from .step_facts import finalize_facts
from .survey import EVALUATIONS, Survey
from .timing import span_ns


def is_finished(found: Survey) -> bool:
    """Whether nothing was left to do; a run that a cap had stopped may go on."""
    return found.summary is not None and not found.summary.stop_reason.startswith("hard budget")


def final_facts(found: Survey, contents: Contents, run: str, state: list[FileEntry]) -> Iterator[Moment]:
    """The learner's last word, and the final adapter with its card; nothing where Hermit had not ended."""
    summary = found.summary
    if summary is None or found.final is None:
        return
    blobs, (commit,) = contents.commits([found.final])
    more, last = contents.of_commit(found.head)
    how = "last" if _plain(commit.files) == _plain(last) else "learner"
    step = found.steps[-1].step if found.steps else 0
    selected = FinalSelected(
        step, found.head, how, None, summary.finalize or None, summary.stop_reason, commit, f"{run}/final"
    )
    said = finalize_facts(summary.finalize, commit.files, state)
    yield Moment(commit.time_s * 10**9, [*blobs, *more, *said, selected])


def evaluation_facts(found: Survey, contents: Contents, books: Books) -> Iterator[Moment]:
    """Every evaluation that was ended, oldest first, with what it cost."""
    for number, (name, summary) in enumerate(found.evaluations.items(), 1):
        place = f"{EVALUATIONS}/{name}"
        results = [one for _, one in found.source.lines(f"{place}/results.jsonl", TaskFile)]
        ended = (found.source.directory / place / "summary.json").stat().st_mtime_ns
        tasks = list(dict.fromkeys(one.id for one in results))
        known = summary.commit is not None and found.tree.has(summary.commit)
        blobs = contents.of_commit(summary.commit)[0] if known and summary.commit else []
        adapter = summary.commit or ("" if summary.adapter == "none" else name)
        started = EvaluationStarted(
            number, name, summary.commit, None if known or not adapter else [], tasks, summary.repeats
        )
        yield Moment(ended - span_ns(summary.wall_s), [*blobs, started])
        moment = Moment(ended, [])
        for one in results:
            moment.events.extend(_attempt(number, name, adapter, one, books))
        moment.events.append(EvaluationFinished(number))
        yield moment


def _attempt(number: int, name: str, adapter: str, one: TaskFile, books: Books) -> list[Event]:
    unit = evaluation_unit(name, number, one.id, one.repeat)
    told = partial(_judged, number, one.repeat, one.id, unit)
    attempt = Attempt(Payer(unit, 1, "evaluation"), one.id, adapter, told, tells_failures=True)
    return attempt_facts(attempt, one, books, ([], []))


def _judged(number: int, repeat: int, task: str, unit: str, judged: Judged) -> EvaluationAttemptJudged:
    return EvaluationAttemptJudged(number, repeat, task, unit, 1, *judged)


def _plain(files: list[FileEntry]) -> list[FileEntry]:
    return [entry for entry in files if entry.path not in FRAMEWORK_FILES]
