"""steps.jsonl, a line for each committed step, and what the learner said of each (step_result.json)."""

from collections.abc import Sequence
from typing import Any

from eventlog.events import CandidateRepaired, EvolverReturned, Issue, LearnerUsage

from .jsontext import json_line, loads_lenient
from .money import usd
from .render_json import document, seconds_of_ms, usd_or_null
from .times import in_seconds, rfc3339
from .training_facts import BudgetAfter, RolloutSummary, StepRecord


def render_step(record: StepRecord) -> bytes:
    """The step's line in steps.jsonl."""
    line: dict[str, Any] = {"step": record.step, "epoch": record.epoch, "tasks": record.tasks}
    if record.step == 0:
        line["bootstrap"] = True
    line |= {
        "rollout": _rollout(record.rollouts),
        "evolver": _evolver(record),
        "status": record.status,
        "note": record.note,
        "session": record.session,
        "parent": record.parent,
        "commits": record.commits,
        "commit": record.commit,
        "changed": record.changed,
        "check": _check(record),
        "repaired": repaired(record.repaired),
        "check_feedback_next": repaired(record.repaired) or None,
        "budget_after": _budget(record.budget),
        "time": rfc3339(record.time_ns),
    }
    return json_line(line)


def render_step_result(record: StepRecord, returned: EvolverReturned | None) -> bytes:
    """step_result.json of a step: what its learner gave back, or why there was nothing."""
    if returned is None:
        result: dict[str, Any] = {
            "status": record.status, "summary": record.note or "", "rationale": "", "session": None,
            "usage": [], "extra": None, "error": None,
        }  # fmt: skip
        return document(result)
    return document(
        {
            "status": returned.status,
            "summary": returned.summary,
            "rationale": returned.rationale,
            "session": returned.session,
            "usage": [usage(one) for one in returned.usage],
            "extra": None if returned.extra is None else loads_lenient(returned.extra),
            "error": returned.error,
        }
    )


def repaired(repairs: Sequence[CandidateRepaired]) -> list[dict[str, str]]:
    """Files that were put back, or removed."""
    return [{"path": one.path, "restored_from": one.restored_from, "reason": one.reason} for one in repairs]


def usage(one: LearnerUsage) -> dict[str, Any]:
    """What a learner says that it used of a model."""
    return {
        "model": one.model,
        "input_tokens": one.input_tokens,
        "cached_input_tokens": one.cached_input_tokens,
        "output_tokens": one.output_tokens,
        "calls": one.calls,
        "cost_usd": usd_or_null(one.cost_nano_usd),
    }


def _rollout(summary: RolloutSummary) -> dict[str, Any]:
    return {
        "mean_score": summary.mean_score,
        "scores": summary.scores,
        "coverage": summary.coverage,
        "errors": summary.errors,
        "cost_usd": usd_or_null(summary.cost_nano_usd),
        "unknown_cost_tasks": summary.unknown_cost_tasks,
        "wall_s": in_seconds(summary.wall_ns),
    }


def _evolver(record: StepRecord) -> dict[str, Any]:
    """`status` is null where the learner was not called, and `summary` says why."""
    learner = record.learner
    if learner is None:
        return {"status": None, "summary": record.note, "wall_s": None, "usage": []}
    return {
        "status": learner.status,
        "summary": learner.summary,
        "wall_s": seconds_of_ms(learner.wall_ms),
        "usage": [usage(one) for one in learner.usage],
    }


def _check(record: StepRecord) -> dict[str, Any]:
    """`passed` is of the candidate as it came, and null where there was none that counted."""
    if record.passed is None:
        if record.learner is None or record.status in {"failed", "out_of_budget"}:
            why = record.note or "the previous adapter is kept"
            return {"passed": None, "issues": [], "skipped": why}
        return {"passed": True, "issues": [], "note": "the adapter was not changed"}
    check: dict[str, Any] = {"passed": record.passed, "issues": _issues(record.issues)}
    if record.issues_after_repair is not None:
        after = record.issues_after_repair
        check["after_repair"] = {"passed": not after, "issues": _issues(after)}
    return check


def _issues(issues: Sequence[Issue]) -> list[dict[str, Any]]:
    return [{"path": one.path, "check": one.check, "problem": one.problem} for one in issues]


def _budget(budget: BudgetAfter) -> dict[str, Any]:
    return {
        "usd": usd(budget.settled_nano_usd),
        "tokens": budget.tokens,
        "in_doubt_usd": usd_or_null(budget.in_doubt_nano_usd),
        "unknown_cost_calls": budget.unknown_cost_calls,
        "seconds": in_seconds(budget.active_ns),
        "by_role": {role: usd(nano) for role, nano in budget.by_role.items()},
    }
