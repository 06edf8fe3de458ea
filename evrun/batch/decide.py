"""What an attempt does next, and how it ends. Pure: state in, a step or an event out.

The built-in `chat` agent is this function: because it looks at nothing but what is recorded, resuming an
attempt is the ordinary step from its recorded state.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from eventlog.events import (
    AttemptSuperseded,
    BudgetReserved,
    BudgetSpent,
    Counts,
    Event,
    ModelAnswered,
    PromptFailed,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryJudged,
)
from projections import (
    Answer,
    Attempt,
    attempt_messages,
    batch_request,
    count_attempt,
    own_tools,
    request_messages,
    row_messages,
    unknown_calls,
)

from ..ledger import request_digest
from . import judging
from .brief import Brief as Brief  # noqa: PLC0414 (others know it from here)
from .quality import Facts, reason_to_discard, rules_of
from .request import request_body

JUDGE_FAILED = "judge_failed"
BAD_TURNS_IN_A_ROW = 3
"""So many turns of nothing but unknown tools or unreadable arguments end an attempt as partial."""


class Ended(NamedTuple):
    """How a conversation has ended, before anybody says what it is worth."""

    finish_reason: str
    completed: bool
    counts: Counts
    unknown_tool: bool


class Send(NamedTuple):
    """Ask the model: the exact request body."""

    body: bytes


class RunTools(NamedTuple):
    """Run the tool calls at these positions of the answer of turn `turn`."""

    turn: int
    positions: list[int]


class Judge(NamedTuple):
    """The conversation has ended, and so far no rule sets it aside: ask the model that judges."""

    body: bytes


class Score(NamedTuple):
    """The same, with a function that judges. `ended` is how the conversation has ended."""

    ended: Ended


class Finish(NamedTuple):
    """End the attempt with this event; `judged` is recorded with it, where there is a score."""

    event: TrajectoryCompleted | TrajectoryDiscarded | PromptFailed
    judged: TrajectoryJudged | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """All that is recorded, in one commit."""
        return (self.event,) if self.judged is None else (self.judged, self.event)


Step = Send | RunTools | Judge | Score | Finish


def next_step(attempt: Attempt, brief: Brief) -> Step:
    """The next step of an attempt, from what is recorded of it."""
    if brief.over is not None:
        return _ended(attempt, brief, brief.over.finish_reason, completed=brief.over.completed)
    if not attempt.turns or attempt.open_turn is not None:
        return Send(next_body(attempt, brief))
    turn, answers = attempt.turns[-1], attempt.answers()
    answer = answers[-1]
    if answer.problem is not None:
        return Finish(_unusable(attempt, answer))
    if not answer.tool_calls or batch_request(brief.row) is not None:
        whole = answer.finish_reason != "length"
        return _ended(attempt, brief, answer.finish_reason or "stop", completed=whole)
    missing = [position for position in range(len(answer.tool_calls)) if position not in turn.results]
    if missing:
        return RunTools(turn.number, missing)
    if _only_bad_calls(attempt):
        return _ended(attempt, brief, "invalid_tool_calls", completed=False)
    if attempt.api_calls >= brief.settings.max_turns:
        return _ended(attempt, brief, "max_turns", completed=False)
    return Send(next_body(attempt, brief))


def conclusion(
    attempt: Attempt, brief: Brief, reserved: BudgetReserved, answered: tuple[Event, ...]
) -> tuple[Event, ...]:
    """How an attempt ends with an answer that is about to be recorded; nothing: it goes on.

    The answer and the end that follows from it are facts of one moment, so they can share a commit.
    """
    trial = msgspec.structs.replace(attempt, turns=list(attempt.turns), judgings=list(attempt.judgings))
    trial.reserved(reserved)
    for event in answered:
        if isinstance(event, BudgetSpent):
            trial.spent(event)
        elif isinstance(event, ModelAnswered):
            trial.answered(event)
    step = next_step(trial, brief)
    return step.events if isinstance(step, Finish) else ()


def scored(attempt: Attempt, brief: Brief, ended: Ended, score: judging.Score, call: str | None) -> Finish:
    """The end of an attempt that the judge has looked at."""
    facts = Facts(ended.counts, ended.unknown_tool, score.value)
    reason = reason_to_discard(rules_of(brief.settings, brief.row), facts)
    return Finish(_boundary(attempt, ended, reason), judging.judged(attempt, brief.settings, score, call))


def judge_failed(attempt: Attempt, message: str, status: int | None = None) -> PromptFailed:
    """The event that ends an attempt whose trajectory could not be judged."""
    return failed(attempt, JUDGE_FAILED, message, status, retryable=True)


def reason_to_supersede(
    attempt: Attempt,
    brief: Brief,
    settings: bytes,
    safe_to_repeat: Callable[[str], bool],
    *,
    directory_there: bool,
) -> str | None:
    """Why an attempt of an earlier session cannot go on, or null: it goes on from its last recorded call."""
    if attempt.settings != settings:
        return "settings changed"
    for turn, answer in zip(attempt.turns, attempt.answers(), strict=False):
        for position in turn.started - turn.results.keys():
            name = answer.tool_calls[position].name
            if not safe_to_repeat(name):
                return f"tool {name} was interrupted and is not safe to repeat"
    # It is made for the first tool that runs; until one has finished there is nothing in it to be missed.
    if not directory_there and _has_worked(attempt):
        return "its working directory is gone"
    if attempt.turns and attempt.turns[-1].request != request_digest(_last_body(attempt, brief)):
        return "the rebuilt request differs from the recorded one"
    return None


def _has_worked(attempt: Attempt) -> bool:
    """Whether a tool has finished in an attempt's directory."""
    own = () if attempt.own is None else attempt.own.tools.values()
    in_turns = any(turn.started & turn.results.keys() for turn in attempt.turns)
    return in_turns or any(use.content is not None for use in own)


def superseded(attempt: Attempt, reason: str) -> AttemptSuperseded:
    """The event that gives up an open attempt."""
    return AttemptSuperseded(attempt.unit, attempt.attempt, reason)


def failed(
    attempt: Attempt, error_class: str, message: str, status: int | None, *, retryable: bool
) -> PromptFailed:
    """The event that ends an attempt without a trajectory."""
    return PromptFailed(attempt.unit, attempt.attempt, error_class, message, status, retryable)


def _ended(attempt: Attempt, brief: Brief, finish_reason: str, *, completed: bool) -> Step:
    counts = count_attempt(attempt)
    unknown = bool(counts.tools) and _called_unknown(attempt, brief, counts)
    ended = Ended(finish_reason, completed, counts, unknown)
    reason = reason_to_discard(rules_of(brief.settings, brief.row), Facts(counts, unknown, None))
    if brief.settings.judge is None or reason is not None:
        return Finish(_boundary(attempt, ended, reason))
    return _asked(attempt, brief, ended) if judging.asks_model(brief.settings) else Score(ended)


def _asked(attempt: Attempt, brief: Brief, ended: Ended) -> Step:
    """What the judging model has said, or what it is asked next."""
    heard = judging.heard_from_judge(attempt, brief)
    found: judging.Score | str = judging.read_score(heard[-1].answer) if heard else ""
    if isinstance(found, judging.Score):
        return scored(attempt, brief, ended, found, heard[-1].call)
    if len(heard) >= judging.JUDGE_TRIES:
        tries = f"the judge gave no score in {len(heard)} answers"
        return Finish(judge_failed(attempt, f"{tries}; the last: {found}"))
    return Judge(judging.judge_body(attempt, brief, heard))


def _called_unknown(attempt: Attempt, brief: Brief, counts: Counts) -> bool:
    offered = {tool["name"] for tool in (*brief.tools, *own_tools(brief.row))}
    return unknown_calls(attempt, counts, offered) > 0


def _boundary(
    attempt: Attempt, ended: Ended, reason: str | None
) -> TrajectoryCompleted | TrajectoryDiscarded:
    whole = ended.completed
    fields = (attempt.unit, attempt.attempt, whole, not whole, ended.finish_reason, ended.counts)
    return TrajectoryCompleted(*fields) if reason is None else TrajectoryDiscarded(*fields, reason)


def _unusable(attempt: Attempt, answer: Answer) -> PromptFailed:
    error_class = "content_policy" if answer.finish_reason == "content_filter" else "unusable_answer"
    return failed(attempt, error_class, answer.problem or "", None, retryable=error_class != "content_policy")


def _only_bad_calls(attempt: Attempt) -> bool:
    last = attempt.turns[-BAD_TURNS_IN_A_ROW:]
    return len(last) == BAD_TURNS_IN_A_ROW and not any(turn.started for turn in last)


def next_body(attempt: Attempt, brief: Brief) -> bytes:
    """The request that follows what is recorded of an attempt."""
    messages = row_messages(brief.row, brief.record) + attempt_messages(attempt)
    sent = request_messages(messages, brief.record)
    return request_body(brief.settings, sent, brief.tools, brief.seed, brief.row)


def _last_body(attempt: Attempt, brief: Brief) -> bytes:
    """The request of the last turn, answered or not, made again from what came before it."""
    earlier = msgspec.structs.replace(attempt, turns=attempt.turns[:-1])
    return next_body(earlier, brief)
