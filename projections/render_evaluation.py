"""eval/<selector>/: what was measured of an adapter on held-out tasks."""

from collections.abc import Iterator, Sequence
from typing import Any

from eventlog.events import EvaluationAttemptJudged, RolloutFinished

from .interval import LEVEL, interval
from .jsontext import json_line
from .mean import mean
from .render_json import document, seconds_of_ms, usd_or_null
from .render_material import judgement, outcome_of, value_of
from .times import in_seconds, rfc3339
from .training import TrainingState
from .training_contents import Contents
from .training_facts import Evaluation, Measured, known_sum
from .training_views import selector_directory

Attempt = tuple[Evaluation, int, str, Measured]
"""An attempt of an evaluation that has ended: its repeat, its task, and how it stood then."""


def by_directory(training: TrainingState) -> dict[str, list[Evaluation]]:
    """The evaluations by the name of their directory, each in the order in which they began."""
    found: dict[str, list[Evaluation]] = {}
    for evaluation in list(training.evaluations.values()):
        found.setdefault(selector_directory(evaluation.selector), []).append(evaluation)
    return found


def attempts_of(evaluations: Sequence[Evaluation]) -> list[Attempt]:
    """The attempts that have ended, of all of these evaluations, in the order of the log."""
    found = [(one, *attempt) for one in evaluations for attempt in list(one.attempts)]
    return sorted(found, key=lambda attempt: attempt[3].judged)


def result_lines(contents: Contents, attempts: Sequence[Attempt]) -> Iterator[bytes]:
    """The lines of results.jsonl for these attempts."""
    return (result_line(contents, *attempt) for attempt in attempts)


def result_line(
    contents: Contents, evaluation: Evaluation, repeat: int, task: str, measured: Measured
) -> bytes:
    """An attempt's line in results.jsonl."""
    judged = contents.event(measured.judged, EvaluationAttemptJudged)
    finished = contents.event(measured.finished, RolloutFinished) if measured.finished else None
    outcome = outcome_of(finished, judged.error)
    return json_line(
        {
            "evaluation": evaluation.number,
            "repeat": repeat,
            "id": task,
            "status": outcome["status"],
            "error": outcome["error"] or judged.error,
            "output": None if finished is None else value_of(finished.output),
            "judge": judgement(judged.score, judged.feedback, judged.extra),
            "cost_usd": usd_or_null(measured.cost_nano_usd),
            "wall_s": seconds_of_ms(measured.wall_ms),
            "tokens": measured.tokens or None,
            "attempts": measured.attempt,
        }
    )


def finished_of(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Those of which every attempt has ended."""
    return [one for one in evaluations if one.finished_ns is not None]


def render_evaluation(evaluation: Evaluation) -> bytes:
    """summary.json of a finished evaluation."""
    return document(evaluation_report(evaluation))


def evaluation_report(evaluation: Evaluation) -> dict[str, Any]:
    """What a finished evaluation came to.

    `mean_score` is over the attempts that have a score, `solved_once` the share of tasks that were solved at
    least once.
    """
    measured = [attempt[2] for attempt in evaluation.attempts]
    scores: dict[str, list[float]] = {task: [] for task in evaluation.tasks}
    for _, task, one in evaluation.attempts:
        if one.score is not None:
            scores.setdefault(task, []).append(one.score)
    all_scores = [one.score for one in measured if one.score is not None]
    sure = interval(scores.values())
    ended_ns = evaluation.finished_ns or evaluation.started_ns
    return {
        "evaluation": evaluation.number,
        "adapter": evaluation.selector,
        "commit": evaluation.commit,
        "tasks": len(evaluation.tasks),
        "repeats": evaluation.repeats,
        "mean_score": mean(all_scores),
        "confidence_interval": None if sure is None else {"level": LEVEL, "low": sure[0], "high": sure[1]},
        "solved_once": _share([max(found, default=0.0) >= 1.0 for found in scores.values()]),
        "cost_usd": usd_or_null(known_sum([one.cost_nano_usd for one in measured])),
        "unknown_cost_tasks": len(
            {task for _, task, one in evaluation.attempts if one.cost_nano_usd is None}
        ),
        "errors": len(measured) - len(all_scores),
        "wall_s": in_seconds(ended_ns - evaluation.started_ns),
        "started_at": rfc3339(evaluation.started_ns),
        "finished_at": rfc3339(ended_ns),
    }


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None
