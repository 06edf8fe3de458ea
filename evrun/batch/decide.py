"""What an attempt does next, and how it ends. Pure: state in, a step or an event out.

The built-in `chat` agent is this function: because it looks at nothing but what is recorded, resuming an
attempt is the ordinary step from its recorded state.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

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
    TrajectoryRestored,
)
from projections import Answer, Attempt, attempt_messages, count_attempt, request_messages, row_messages

from ..ledger import request_digest
from .request import request_body
from .settings import Settings

BAD_TURNS_IN_A_ROW = 3
"""So many turns of nothing but unknown tools or unreadable arguments end an attempt as partial."""


class Brief(msgspec.Struct, frozen=True, gc=False):
    """What an attempt works from: its row, its tools' definitions, its seed, and the settings in force.

    `record` is the settings as the log records them, which is how the projections read them.
    """

    row: dict[str, Any]
    settings: Settings
    record: dict[str, Any]
    tools: list[dict[str, Any]]
    seed: int | None


class Send(NamedTuple):
    """Ask the model: the exact request body."""

    body: bytes


class RunTools(NamedTuple):
    """Run the tool calls at these positions of the answer of turn `turn`."""

    turn: int
    positions: list[int]


class Finish(NamedTuple):
    """End the attempt with this event."""

    event: TrajectoryCompleted | TrajectoryDiscarded | PromptFailed


def next_step(attempt: Attempt, brief: Brief) -> Send | RunTools | Finish:
    """The next step of an attempt, from what is recorded of it."""
    if not attempt.turns or attempt.open_turn is not None:
        return Send(next_body(attempt, brief))
    turn, answers = attempt.turns[-1], attempt.answers()
    answer = answers[-1]
    if answer.problem is not None:
        return Finish(_unusable(attempt, answer))
    if not answer.tool_calls:
        whole = answer.finish_reason != "length"
        return Finish(_ended(attempt, brief.settings, answer.finish_reason or "stop", completed=whole))
    missing = [position for position in range(len(answer.tool_calls)) if position not in turn.results]
    if missing:
        return RunTools(turn.number, missing)
    if _only_bad_calls(attempt):
        return Finish(_ended(attempt, brief.settings, "invalid_tool_calls", completed=False))
    if attempt.api_calls >= brief.settings.max_turns:
        return Finish(_ended(attempt, brief.settings, "max_turns", completed=False))
    return Send(next_body(attempt, brief))


def conclusion(
    attempt: Attempt, brief: Brief, reserved: BudgetReserved, answered: tuple[Event, ...]
) -> TrajectoryCompleted | TrajectoryDiscarded | PromptFailed | None:
    """How an attempt ends with an answer that is about to be recorded, or null: it goes on.

    The answer and the end that follows from it are facts of one moment, so they can share a commit.
    """
    trial = msgspec.structs.replace(attempt, turns=list(attempt.turns))
    trial.reserved(reserved)
    for event in answered:
        if isinstance(event, BudgetSpent):
            trial.spent(event)
        elif isinstance(event, ModelAnswered):
            trial.answered(event)
    step = next_step(trial, brief)
    return step.event if isinstance(step, Finish) else None


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
    if any(turn.started & turn.results.keys() for turn in attempt.turns) and not directory_there:
        return "its working directory is gone"
    if attempt.turns and attempt.turns[-1].request != request_digest(_last_body(attempt, brief)):
        return "the rebuilt request differs from the recorded one"
    return None


def superseded(attempt: Attempt, reason: str) -> AttemptSuperseded:
    """The event that gives up an open attempt."""
    return AttemptSuperseded(attempt.unit, attempt.attempt, reason)


def failed(
    attempt: Attempt, error_class: str, message: str, status: int | None, *, retryable: bool
) -> PromptFailed:
    """The event that ends an attempt without a trajectory."""
    return PromptFailed(attempt.unit, attempt.attempt, error_class, message, status, retryable)


def quality_rule(settings: Settings, counts: Counts) -> str | None:
    """The rule by which a trajectory is set aside, or null: it is kept."""
    if settings.require_reasoning and counts.turns_with_reasoning == 0:
        return "no_reasoning"
    return None


def rejudge(unit: str, settings: Settings, counts: Counts, reason: str | None) -> TrajectoryRestored | None:
    """What today's rules say of a trajectory kept (`reason` null) or set aside before; null: the same."""
    now = quality_rule(settings, counts)
    return None if now == reason else TrajectoryRestored(unit, now is None, now, counts)


def _ended(
    attempt: Attempt, settings: Settings, finish_reason: str, *, completed: bool
) -> TrajectoryCompleted | TrajectoryDiscarded:
    counts = count_attempt(attempt)
    reason = quality_rule(settings, counts)
    ended = (attempt.unit, attempt.attempt, completed, not completed, finish_reason, counts)
    return TrajectoryCompleted(*ended) if reason is None else TrajectoryDiscarded(*ended, reason)


def _unusable(attempt: Attempt, answer: Answer) -> PromptFailed:
    error_class = "content_policy" if answer.finish_reason == "content_filter" else "unusable_answer"
    return failed(attempt, error_class, answer.problem or "", None, retryable=error_class != "content_policy")


def _only_bad_calls(attempt: Attempt) -> bool:
    last = attempt.turns[-BAD_TURNS_IN_A_ROW:]
    return len(last) == BAD_TURNS_IN_A_ROW and not any(turn.started for turn in last)


def next_body(attempt: Attempt, brief: Brief) -> bytes:
    """The request that follows what is recorded of an attempt."""
    messages = row_messages(brief.row, brief.record) + attempt_messages(attempt)
    return request_body(brief.settings, request_messages(messages, brief.record), brief.tools, brief.seed)


def _last_body(attempt: Attempt, brief: Brief) -> bytes:
    """The request of the last turn, answered or not, made again from what came before it."""
    earlier = msgspec.structs.replace(attempt, turns=attempt.turns[:-1])
    return next_body(earlier, brief)
