"""What the commands of training runs have in common: the configuration, progress, and the last word."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from eventlog.events import Recorded
from evrun.batch import Result
from evrun.effects import monotonic
from evrun.errors import UsageFault
from evrun.training import TrainingConfig
from projections import RunState, result_report, usd

from . import output
from .progress import PLAIN_INTERVAL_S, Telling

ConfigPath = Annotated[Path, typer.Option("--config", metavar="RUN.YAML", help="The run's configuration.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY.SUB=VALUE]...", help="Keys of the configuration that count more than the file."
    ),
]
AcceptChanges = Annotated[
    bool,
    typer.Option(
        "--accept-changes", help="Go on although data, template, code or settings changed, and record that."
    ),
]
Executor = Annotated[
    str | None,
    typer.Option("--executor", metavar="local|ray", help="Where rollouts are worked on: trainer.executor."),
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray-address", metavar="HOST:PORT|auto", help="The Ray cluster: trainer.ray_address."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


class TrainingProgress(Telling):
    """What a person sees of a session while it works: a live line on a terminal, else one now and then."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(live=not quiet)
        self._quiet = quiet
        self._shown = 0.0
        self._said = 0
        self._last = ""

    @property
    def see(self) -> Callable[[Recorded], None] | None:
        """No event is shown one by one."""
        return None

    def progress(self, state: RunState) -> None:
        """Say each step that this session has committed once, and show what is open."""
        if self._quiet:
            return
        began = state.batch.sessions[-1].first_ns if state.batch.sessions else 0
        for record in state.training.steps[self._said :]:
            if record.time_ns < began:
                continue
            mean = record.rollouts.mean_score
            scored = "no score" if mean is None else f"mean {mean:.3f}"
            changed = "changed" if record.changed else "unchanged"
            self.note(f"step {record.step} (epoch {record.epoch}): {scored}, {record.status}, {changed}")
        self._said = len(state.training.steps)
        now, line = monotonic(), _line(state)
        if self._live is not None:
            self._live.show(line)
        elif now - self._shown >= PLAIN_INTERVAL_S and line != self._last:
            self._shown, self._last = now, line
            output.note(line)


def typed(overrides: list[str] | None, executor: str | None, ray_address: str | None) -> list[str]:
    """The keys of the configuration that were typed, those that have an option of their own among them.

    Raises:
        UsageFault: an address is given that nobody will ask.
    """
    given = [*(overrides or [])]
    if executor is not None:
        given.append(f"trainer.executor={executor}")
    if ray_address is not None:
        if executor == "local":
            raise UsageFault("--ray-address without --executor ray", hint="give both, or none")
        given.append(f"trainer.ray_address={ray_address}")
    return given


def _line(state: RunState) -> str:
    training = state.training
    spent = f"{usd(state.ledger.total.settled_nano_usd)} USD"
    current = training.current
    if current is None:
        return f"{training.rollouts_ok} rollouts, {spent}"
    done = sum(bool(rollout.judged) for rollout in current.rollouts.values())
    what = "the learner is at work" if current.learner_attempt else f"{done} of {len(current.tasks)} judged"
    return f"step {current.step}: {what}, {spent}"


def last_word(result: Result, config: TrainingConfig, *, json: bool) -> None:
    """Print how a session ended."""
    directory = Path(config.trainer.output_dir) / config.trainer.run_name
    report = result_report(
        result.state,
        run=config.trainer.run_name,
        dir=str(directory),
        state_name=result.name,
        exit_code=result.exit_code,
        reason=result.reason,
        chain=result.chain.hex(),
    )
    if json:
        output.as_json(report)
        return
    counts = report["counts"]
    output.line(f"{result.name}: {counts['steps']} of {counts['steps_total']} steps")
    if result.reason is not None:
        output.line(f"reason: {result.reason}")
    parts = [f"{report['settled_usd']} USD settled"]
    if result.state.ledger.in_doubt:
        parts.append(f"{output.at_most(report['in_doubt_usd'])} in doubt")
    output.line(f"spent: {', '.join(parts)}")
    output.line(f"files: {directory}")
    final = result.state.training.final
    if final is not None:
        output.line(f"final: {final.tag} in {config.trainer.tree_dir} ({final.how}, step {final.step})")
