"""What is kept of a step once it is committed."""

from eventlog.events import Recorded, StepCommitted

from .spend import Ledger
from .training_facts import BudgetAfter, LearnerSummary, Measured, OpenStep, RolloutSummary, StepRecord


def step_record(record: Recorded, event: StepCommitted, current: OpenStep, budget: BudgetAfter) -> StepRecord:
    """The record of the step that `event` ends."""
    first = next((check for check in current.checks if not check.after_repair), None)
    after = next((check for check in reversed(current.checks) if check.after_repair), None)
    return StepRecord(
        step=event.step,
        epoch=event.epoch,
        tasks=current.tasks,
        rollouts=rollout_summary(current) if current.measured is None else current.measured,
        learner=_learner(current),
        status=event.status,
        note=event.note,
        session=event.session,
        parent=event.parent,
        commits=[commit.sha for commit in event.commits],
        commit=event.commits[-1].sha if event.commits else event.parent,
        passed=None if first is None else first.passed,
        issues=[] if first is None else first.issues,
        issues_after_repair=None if after is None else after.issues,
        repaired=current.repairs,
        budget=budget,
        tags=event.tags,
        time_ns=record.time_ns,
        began=current.began,
        sequence=record.sequence,
    )


def rollout_summary(current: OpenStep) -> RolloutSummary:
    """What became of the rollouts of the open step, so far."""
    ended = current.rolled_out_ns or current.started_ns
    tasks = {task: Measured.of(rollout) for task, rollout in current.rollouts.items()}
    return RolloutSummary(tasks, ended - current.started_ns)


def budget_after(ledger: Ledger, active_ns: int) -> BudgetAfter:
    """The account as it stands now."""
    total = ledger.total
    return BudgetAfter(
        settled_nano_usd=total.settled_nano_usd,
        in_doubt_nano_usd=None if total.in_doubt_unbounded else total.in_doubt_nano_usd,
        by_role={role: sums.settled_nano_usd for role, sums in sorted(ledger.by_role.items())},
        tokens=total.settled_tokens,
        unknown_cost_calls=total.unpriced,
        active_ns=active_ns,
    )


def _learner(current: OpenStep) -> LearnerSummary | None:
    returned = current.returned
    if returned is None:
        return None
    return LearnerSummary(
        returned.status,
        returned.summary,
        returned.rationale,
        returned.wall_ms,
        returned.usage,
        current.returned_sequence,
    )
