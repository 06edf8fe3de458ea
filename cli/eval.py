"""`evrun eval`: evaluate an adapter on the held-out tasks."""

from typing import Annotated, Any

import typer

from evrun.training import load_config, newest_evaluation, run_evaluation_sync
from projections import evaluation_report

from . import output
from .config import environment
from .output import JsonFlag
from .training import (
    AcceptChanges,
    ConfigPath,
    Executor,
    Overrides,
    Quiet,
    RayAddress,
    TrainingProgress,
    typed,
)

Selector = Annotated[
    str,
    typer.Option(
        "--adapter", metavar="SELECTOR", help="final, root, none, a tag, a commit, or an adapter's directory."
    ),
]


def eval_command(
    config: ConfigPath,
    overrides: Overrides = None,
    *,
    adapter: Selector,
    accept_changes: AcceptChanges = False,
    executor: Executor = None,
    ray_address: RayAddress = None,
    quiet: Quiet = False,
    json: JsonFlag = False,
) -> int:
    """Evaluate an adapter on the held-out tasks (data.test), each eval.repeats times.

    Every attempt is recorded: one that was interrupted goes on where it was. What training chose stays as it
    is. Results are in RUN/eval/SELECTOR/.

    Exit codes as of `evrun train`.
    """
    told = load_config(config, typed(overrides, executor, ray_address))
    with TrainingProgress(quiet=quiet) as progress:
        result = run_evaluation_sync(told, adapter, environment(), progress, accept_changes=accept_changes)
    if not result.state.training.evaluations:
        output.complain(result.reason or "nothing was evaluated")
        return result.exit_code
    report = evaluation_report(newest_evaluation(result))
    if json:
        output.as_json(report)
        return result.exit_code
    output.facts(_facts(report))
    if result.reason is not None:
        output.line(f"reason: {result.reason}")
    return result.exit_code


def _facts(report: dict[str, Any]) -> list[tuple[str, object]]:
    """The evaluation for people; what is not known is left out."""
    shown = dict(report)
    sure = shown["confidence_interval"]
    if sure is not None:
        shown["confidence_interval"] = f"{sure['low']:.3f} to {sure['high']:.3f} ({sure['level']:.0%})"
    return [(name.replace("_", " "), value) for name, value in shown.items() if value is not None]
