"""An attempt of Hermit's at a task as events: what was made, what it cost, what the judge said."""

import math
from collections.abc import Callable
from typing import NamedTuple

from eventlog.events import BlobStored, Event, FileEntry, RolloutFinished, RolloutStarted, Usage

from .lines import TaskFile
from .money import Books, Payer, known_nano
from .reading import as_json
from .timing import span_ns

OK, ERROR, JUDGE_ERROR = "ok", "error", "judge_error"
NO_SCORE = "Hermit left no score of it"


class Judged(NamedTuple):
    """What a judge said, or why it said nothing."""

    score: float | None
    feedback: str | None = None
    extra: bytes | None = None
    error: str | None = None


class Attempt(NamedTuple):
    """Whose attempt it was, with which adapter, and how its judgement is told.

    `tells_failures`: that an agent failed is told as a judgement too, as evaluations have it.
    """

    payer: Payer
    task: str
    adapter: str
    event: Callable[[Judged], Event]
    tells_failures: bool = False


def attempt_facts(
    attempt: Attempt, found: TaskFile, books: Books, files: tuple[list[BlobStored], list[FileEntry]]
) -> list[Event]:
    """What Hermit recorded of it, in one attempt: it ended well, or the agent failed, or the judge.

    A score of 0.0 that stands for a failure is none.
    """
    payer, cost, failed = attempt.payer, known_nano(found.cost_usd), found.status == ERROR
    blobs, entries = files
    error_class, _, message = (found.error or "unknown").partition(": ") if failed else ("", "", "")
    judged = _judged(found)
    return [
        RolloutStarted(payer.unit, payer.attempt, attempt.task, attempt.adapter),
        *books.book(payer, cost, Usage(found.tokens, None, None, None)),
        *blobs,
        RolloutFinished(
            payer.unit, payer.attempt, ERROR if failed else OK, as_json(found.output), error_class or None,
            message or None, found.traceback, cost, found.tokens, span_ns(found.wall_s) // 1_000_000,
            entries, as_json(found.messages), as_json(found.pipeline_extra or None),
        ),
        *([attempt.event(judged)] if attempt.tells_failures or not failed else []),
    ]  # fmt: skip


def score_facts(attempt: Attempt, score: float | None) -> list[Event]:
    """The same where only the score is left."""
    unit, number = attempt.payer.unit, attempt.payer.attempt
    judged = Judged(score) if _is_finite(score) else Judged(None, error=NO_SCORE)
    return [
        RolloutStarted(unit, number, attempt.task, attempt.adapter),
        RolloutFinished(unit, number, OK, None, None, None, None, None, None, 0, [], None, None),
        attempt.event(judged),
    ]


def _judged(found: TaskFile) -> Judged:
    judge = found.judge
    if found.status == ERROR:
        return Judged(None, error=found.error or "the agent failed")
    if found.status == JUDGE_ERROR:
        return Judged(None, error=found.error or "the judge failed")
    if not _is_finite(judge.score):
        return Judged(None, judge.feedback, error=f"the score {judge.score} is no finite number")
    return Judged(judge.score, judge.feedback, as_json(judge.extra or None))


def _is_finite(score: float | None) -> bool:
    return score is not None and math.isfinite(score)
