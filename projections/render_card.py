"""CARD.md: what an adapter is, where it came from, and what was measured of it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .money import usd
from .render_evaluation import evaluation_report, finished_of
from .render_summary import warnings_of
from .state import RunState
from .training_facts import BudgetAfter, Evaluation
from .training_records import budget_after
from .training_report import steps_done

_HOUR_NS = 3600 * 10**9


class FinalChoice(NamedTuple):
    """The adapter that a run chooses at its end: fields as in `FinalSelected`."""

    step: int
    how: str
    score: float | None
    finalize: str | None
    stop_reason: str


def render_card(state: RunState, choice: FinalChoice) -> bytes:
    """The card of the adapter that is about to be chosen: the file CARD.md of its commit."""
    training = state.training
    active_ns = training.steps[-1].budget.active_ns if training.steps else 0
    evaluations = finished_of(list(training.evaluations.values()))
    return _render(state, choice, budget_after(state.ledger, active_ns), evaluations)


def render_standing_card(state: RunState, evaluations: Sequence[Evaluation]) -> bytes | None:
    """The card of the adapter that was chosen, with what was measured since; null where none stands."""
    final, budget = state.training.standing_final, state.training.final_budget
    if final is None or budget is None:
        return None
    choice = FinalChoice(final.step, final.how, final.score, final.finalize, final.stop_reason)
    return _render(state, choice, budget, evaluations)


def _render(
    state: RunState, choice: FinalChoice, budget: BudgetAfter, evaluations: Sequence[Evaluation]
) -> bytes:
    warnings = warnings_of(state.training, budget)
    lines = [f"# {state.batch.run}", ""]
    lines += [f"- {name}: {value}" for name, value in _facts(state, choice, budget)]
    lines += ["", "## Warnings", "", *([f"- {one}" for one in warnings] or ["None."])]
    learned = choice.finalize or "The learner said nothing at the end."
    lines += ["", "## What was learned", "", learned.strip()]
    lines += ["", "## Evaluation", "", *_table(evaluations)]
    lines += ["", "It was measured on the tasks above and on no others: elsewhere it is untested.", ""]
    return "\n".join(lines).encode("utf-8", "replace")


def _facts(state: RunState, choice: FinalChoice, budget: BudgetAfter) -> Iterator[tuple[str, str]]:
    training, settings = state.training, state.batch.settings
    score = "" if choice.score is None else f", score {choice.score:g} on the validation tasks"
    yield "template", f"{settings.get('template')}, root commit {training.root}"
    yield "started from", training.start
    yield "adapter", f"that of step {choice.step} ({choice.how}{score})"
    yield "stopped", choice.stop_reason
    yield "learner", _named(settings, "evolver.name")
    yield "agent", _named(settings, "agent.name", "model")
    yield "judge", _named(settings, "judge.path", "judge.name")
    yield "tasks", _named(settings, "data.tasks", "task_info")
    yield "training", f"steps: {steps_done(training)}, epochs: {len(training.epochs)}"
    yield "spent", f"{_spent(budget)}; {budget.active_ns / _HOUR_NS:.1f} hours up to the last step"
    yield "validation", "none" if settings.get("data.val") is None else "given"


def _named(settings: dict[str, Any], *names: str) -> str:
    """What settings say, files by their name: where they are on a machine is nobody's business."""
    known = [str(settings[name]) for name in names if settings.get(name) is not None]
    return ", ".join(one.rpartition("/")[2] if one.startswith("/") else one for one in known) or "not said"


def _spent(budget: BudgetAfter) -> str:
    roles = ", ".join(f"{role} {usd(nano)}" for role, nano in budget.by_role.items())
    whole = f"{usd(budget.settled_nano_usd)} USD"
    return f"{whole} ({roles})" if roles else whole


def _table(evaluations: Sequence[Evaluation]) -> list[str]:
    if not evaluations:
        return ["None yet: `evrun eval --config run.yaml --adapter final` makes one."]
    head = ["number", "adapter", "tasks", "repeats", "mean score", "95 % interval", "errors", "cost USD"]
    return [_row(head), _row(["---"] * len(head)), *(_row(_cells(one)) for one in evaluations)]


def _cells(evaluation: Evaluation) -> list[str]:
    report = evaluation_report(evaluation)
    sure, score = report["confidence_interval"], report["mean_score"]
    return [
        str(report["evaluation"]),
        report["adapter"],
        str(report["tasks"]),
        str(report["repeats"]),
        "none" if score is None else f"{score:.4g}",
        "unknown" if sure is None else f"{sure['low']:.4g} to {sure['high']:.4g}",
        str(report["errors"]),
        report["cost_usd"] or "unknown",
    ]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
