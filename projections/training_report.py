"""What status, list and audit say of a training run."""

import math
from typing import Any

from .calls import Call
from .money import usd
from .state import RunState
from .times import rfc3339
from .training import TrainingState
from .training_facts import GroupMoney
from .training_units import group_of, judged_unit

KEPT_ADAPTER = frozenset({"failed", "out_of_budget"})
"""Statuses of steps that came to nothing."""
OUTCOMES = ("committed", "failed", "superseded", "open", "evaluation", "other")


def training_counts(state: RunState) -> dict[str, int | None]:
    """Steps, done and in all (null while nobody knows), rollouts by how they ended, and what is open.

    Rollouts are counted by attempt: one that failed and was tried again counts as an error and as ok.
    """
    training = state.training
    return {
        "steps": steps_done(training),
        "steps_total": steps_total(state),
        "rollouts_ok": training.rollouts_ok,
        "rollouts_error": training.rollouts_error,
        "open": len(training.open),
    }


def steps_done(training: TrainingState) -> int:
    """How many steps are committed, without the bootstrap."""
    return len(training.steps) - training.bootstrapped


def steps_total(state: RunState) -> int | None:
    """How many steps there are to be, those that are done among them; null before the first epoch."""
    training, settings = state.training, state.batch.settings
    size, epochs = settings.get("data.step_size"), settings.get("trainer.epochs")
    if not isinstance(size, int) or not isinstance(epochs, int) or not training.epochs:
        return None
    newest = max(training.epochs)
    begun = [(step.epoch, step.tasks) for step in training.steps if step.step > 0]
    if training.current is not None and training.current.step > 0:
        begun.append((training.current.epoch, training.current.tasks))
    taken = {task for epoch, tasks in begun if epoch == newest for task in tasks}
    left = [task for task in training.epochs[newest] if task not in taken]
    later = max(0, epochs - newest) * math.ceil(len(training.epochs[newest]) / size)
    return len(begun) + math.ceil(len(left) / size) + later


def missing_scores(training: TrainingState) -> int:
    """How many tasks of committed steps have no score."""
    return sum(record.rollouts.errors for record in training.steps)


def step_report(state: RunState) -> dict[str, Any] | None:
    """The open step: what it is at, and what it cost so far; null between two steps."""
    training = state.training
    current = training.current
    if current is None:
        return None
    rollouts = current.rollouts.values()
    money = training.money.get(f"step:{current.step}", GroupMoney())
    return {
        "step": current.step,
        "epoch": current.epoch,
        "started_at": rfc3339(current.started_ns),
        "doing": _doing(state),
        "tasks": len(current.tasks),
        "scored": sum(rollout.judged > 0 and rollout.score is not None for rollout in rollouts),
        "failed": sum(_came_to_nothing(rollout.status, rollout.judge_error) for rollout in rollouts),
        "settled_usd": usd(money.settled_nano_usd),
    }


def _came_to_nothing(status: str | None, judge_error: str | None) -> bool:
    return status in {"error", "timeout"} or judge_error is not None


def _doing(state: RunState) -> str:
    current = state.training.current
    assert current is not None
    if current.returned is not None:
        return "committing"
    return "learner" if current.learner_attempt else "rollouts"


def evaluations_report(training: TrainingState) -> list[dict[str, Any]]:
    """Evaluations that are not over: how many of their attempts have ended."""
    return [
        {
            "evaluation": one.number,
            "adapter": one.selector,
            "started_at": rfc3339(one.started_ns),
            "attempts": len(one.tasks) * one.repeats,
            "ended": len(one.attempts),
        }
        for one in training.evaluations.values()
        if one.finished_ns is None
    ]


def money_by_outcome(training: TrainingState) -> dict[str, int]:
    """Settled nano-USD by what became of the work; the parts add up to the whole.

    ``failed``: steps that came to nothing; ``superseded``: attempts that later ones took the place of;
    ``evaluation``: held-out tasks; ``other``: calls that belong to none of these.
    """
    sums = dict.fromkeys(OUTCOMES, 0)
    status = {f"step:{record.step}": record.status for record in training.steps}
    for group, money in training.money.items():
        sums["superseded"] += money.superseded_nano_usd
        sums[_outcome(group, status, training)] += money.settled_nano_usd - money.superseded_nano_usd
    return sums


def _outcome(group: str, status: dict[str, str], training: TrainingState) -> str:
    if group == "eval":
        return "evaluation"
    if group in {"setup", "finalize"}:
        return _of_call(training.calls.get(group))
    if group in status:
        return "failed" if status[group] in KEPT_ADAPTER else "committed"
    return "open" if group.startswith("step:") else "other"


def _of_call(ended: tuple[int, str] | None) -> str:
    if ended is None:
        return "open"
    return "failed" if ended[1] in KEPT_ADAPTER else "committed"


def by_step(
    training: TrainingState, doubts: list[Call], reserved: list[Call], *, top: int | None
) -> list[dict[str, Any]]:
    """The parts of a run by what they cost, the dearest first; the first `top` of them."""
    status = {f"step:{record.step}": record.status for record in training.steps}
    names = {*training.money, *(group_of(judged_unit(call.unit)) for call in [*doubts, *reserved])}
    rows = [(name, training.money.get(name, GroupMoney())) for name in names]
    rows.sort(key=lambda row: (-row[1].settled_nano_usd, _order(row[0])))
    return [
        {
            "unit": name,
            "outcome": _outcome(name, status, training),
            "settled_usd": usd(money.settled_nano_usd),
            "superseded_usd": usd(money.superseded_nano_usd),
            "in_doubt_usd": _bounds(name, doubts),
            "reserved_usd": _bounds(name, reserved),
        }
        for name, money in rows[:top]
    ]


def _order(name: str) -> tuple[int, str]:
    number = name.removeprefix("step:")
    return (int(number), "") if number.isdigit() else (-1, name)


def _bounds(name: str, calls: list[Call]) -> str | None:
    bounds = [call.bound_nano_usd for call in calls if group_of(judged_unit(call.unit)) == name]
    return None if None in bounds else usd(sum(bound or 0 for bound in bounds))
