"""summary.json: how training ended."""

from typing import Any

from .money import usd
from .render_json import document, usd_or_null
from .state import RunState
from .times import rfc3339
from .training import TrainingState
from .training_facts import BudgetAfter
from .training_report import steps_done


def render_summary(state: RunState) -> bytes:
    """summary.json of a run whose final adapter was chosen, and no step came after it."""
    training, settings = state.training, state.batch.settings
    final, budget = training.standing_final, training.final_budget
    assert final is not None
    assert budget is not None
    run = training.name
    return document(
        {
            "run": run,
            "stop_reason": final.stop_reason,
            "final_commit": final.commit.sha,
            "final_tag": f"{run}/final",
            "tree": settings.get("trainer.tree_dir"),
            "branch": run,
            "steps": steps_done(training),
            "bootstrap": training.bootstrapped,
            "spending": spending(budget),
            "checkpoints": checkpoints(run, training),
            "finalize": final.finalize,
            "best": {
                "step": final.step,
                "commit": final.chosen,
                "how": final.how,
                "score": final.score,
            },
            "warnings": warnings_of(training, budget),
            "time": rfc3339(training.final_ns),
            "sequence": training.final_sequence,
        }
    )


def spending(budget: BudgetAfter) -> dict[str, Any]:
    """The account at one moment."""
    return {
        "settled_usd": usd(budget.settled_nano_usd),
        "in_doubt_usd": usd_or_null(budget.in_doubt_nano_usd),
        "by_role": {role: usd(nano) for role, nano in budget.by_role.items()},
        "tokens": budget.tokens,
        "unknown_cost_calls": budget.unknown_cost_calls,
    }


def checkpoints(run: str, training: TrainingState) -> list[str]:
    """The tags of the steps that were kept by name."""
    tags = [tag for record in training.steps for tag in record.tags]
    return [tag if tag.startswith(f"{run}/") else f"{run}/{tag}" for tag in tags]


def warnings_of(training: TrainingState, budget: BudgetAfter) -> list[str]:
    """What a person should know before trusting the scores and sums."""
    found = []
    missing = sum(record.rollouts.errors for record in training.steps)
    if missing:
        found.append(f"rollouts without a score, which are in no mean: {missing}")
    failed = [record.step for record in training.steps if record.status in {"failed", "out_of_budget"}]
    if failed:
        found.append(f"steps that kept the adapter because they came to nothing: {_few(failed)}")
    repaired = [record.step for record in training.steps if record.repaired]
    if repaired:
        found.append(f"steps whose adapter had to be repaired: {_few(repaired)}")
    if budget.unknown_cost_calls:
        found.append(f"calls of unknown cost, which are in no sum: {budget.unknown_cost_calls}")
    if budget.in_doubt_nano_usd is None:
        found.append("calls are in doubt, and nobody can say what they cost at most")
    elif budget.in_doubt_nano_usd:
        found.append(f"calls are in doubt, which may have cost {usd(budget.in_doubt_nano_usd)} USD more")
    return found


def _few(steps: list[int], most: int = 10) -> str:
    """The numbers of some steps."""
    shown = ", ".join(map(str, steps[:most]))
    return shown if len(steps) <= most else f"{shown}, …"
