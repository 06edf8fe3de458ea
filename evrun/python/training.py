"""Training from Python: as `evrun train` and `evrun eval`, in a script, an async program, a notebook."""

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from eventlog.events import Recorded, StepCommitted
from projections import RunState, evaluation_report, result_report, usd

from ..batch import Result, Switch
from ..effects.clock import monotonic
from ..errors import UsageFault
from ..training import (
    TrainingConfig,
    load_config,
    newest_evaluation,
    run_evaluation,
    run_training,
)
from ..training.config_file import parse_config
from ..training.config_record import section_of
from ..training.yaml_text import write_yaml
from .progress import LineProgress
from .threads import finish
from .training_run import TrainingRun

Config = TrainingConfig | Mapping[str, Any] | str | Path
Progress = bool | Callable[[str], None]
_CODE = ("agent", "judge", "evolver")
INTERVAL_S = 30.0
_busy: ContextVar[bool] = ContextVar("evrun_training", default=False)


class TrainResult(NamedTuple):
    """How a session of training ended.

    `state` is "done", "paused", "interrupted" or "failed" and `reason` says why it is not done; `exit_code`
    is that of `evrun train`; `report` is the object that `evrun train --json` prints; `run` reads the run.
    """

    state: str
    reason: str | None
    exit_code: int
    report: dict[str, Any]
    run: TrainingRun


class EvaluationResult(NamedTuple):
    """How a session of evaluating ended: as `TrainResult`; `report` is what `evrun eval --json` prints."""

    state: str
    reason: str | None
    exit_code: int
    report: dict[str, Any]
    run: TrainingRun


def train(
    config: Config,
    *,
    accept_changes: bool = False,
    progress: Progress = True,
    environment: Mapping[str, str] | None = None,
    **overrides: Any,
) -> TrainResult:
    """Train an adapter, or go on with an unfinished run of the same name; return when the session has ended.

    `config` is the path of a run.yaml, or a mapping of the same keys, whose relative paths begin at the
    working directory. `overrides` count more: ``trainer={"epochs": 2, "budget": {"usd": 5}}``. For `agent`,
    `judge` and `evolver` a function or class may be given, which has to stand at the top of a file.
    `environment` stands in for the process's own. `progress` may be a function that is given each line.

    Works inside a running event loop too (a notebook): the session then runs in a thread, and interrupting
    the cell ends it in order.

    Raises:
        UsageFault: refused; nothing was spent and nothing was changed.
        LogLocked, LogRefused: the log is in use by another process, or not whole.
    """
    _refuse_from_within()
    return finish(
        lambda switch: train_async(
            config, accept_changes=accept_changes, progress=progress, environment=environment, switch=switch,
            **overrides,
        )
    )  # fmt: skip


async def train_async(
    config: Config,
    *,
    accept_changes: bool = False,
    progress: Progress = True,
    environment: Mapping[str, str] | None = None,
    switch: Switch | None = None,
    **overrides: Any,
) -> TrainResult:
    """`train` for an asyncio program: on its own loop. `switch.turn()` ends the session in order."""
    told = configuration(config, overrides)
    variables = dict(os.environ if environment is None else environment)
    ui = _progress(progress)
    with _session():
        result = await run_training(told, variables, ui, switch or Switch(), accept_changes=accept_changes)
    ui.progress(result.state)
    return TrainResult(*_ended(result), _report(result, told), _run_of(told))


def evaluate(
    config: Config,
    adapter: str | Path = "final",
    *,
    accept_changes: bool = False,
    progress: Progress = True,
    environment: Mapping[str, str] | None = None,
    **overrides: Any,
) -> EvaluationResult:
    """Evaluate an adapter on the held-out tasks: final, root, none, a tag, a commit, or a directory.

    The other arguments, and what it raises, are those of `train`.
    """
    _refuse_from_within()
    return finish(
        lambda switch: evaluate_async(
            config, adapter, accept_changes=accept_changes, progress=progress, environment=environment,
            switch=switch, **overrides,
        )
    )  # fmt: skip


async def evaluate_async(
    config: Config,
    adapter: str | Path = "final",
    *,
    accept_changes: bool = False,
    progress: Progress = True,
    environment: Mapping[str, str] | None = None,
    switch: Switch | None = None,
    **overrides: Any,
) -> EvaluationResult:
    """`evaluate` for an asyncio program: on its own loop."""
    told = configuration(config, overrides)
    variables = dict(os.environ if environment is None else environment)
    ui, turned = _progress(progress), switch or Switch()
    with _session():
        result = await run_evaluation(
            told, str(adapter), variables, ui, turned, accept_changes=accept_changes
        )
    known = result.state.training.evaluations
    report = evaluation_report(newest_evaluation(result)) if known else {}
    return EvaluationResult(*_ended(result), report, _run_of(told))


class StepLines(LineProgress):
    """Says each step that this session commits, and now and then how far the open one is."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        super().__init__(write)
        self._committed: list[int] = []
        self._spoke = monotonic()

    @property
    def see(self) -> Callable[[Recorded], None]:
        """Notes which steps are committed; those of earlier sessions are not shown here."""
        return self._see

    def _see(self, record: Recorded) -> None:
        if isinstance(record.event, StepCommitted):
            self._committed.append(record.sequence)

    def progress(self, state: RunState) -> None:
        """Say each of them once."""
        new, self._committed = self._committed, []
        current, now = state.training.current, monotonic()
        if new:
            self._spoke = now
        elif current is not None and now - self._spoke >= INTERVAL_S:
            self._spoke = now
            judged = sum(bool(rollout.judged) for rollout in current.rollouts.values())
            self.note(f"step {current.step}: {judged} of {len(current.tasks)} rollouts judged")
        for step in state.training.steps if new else ():
            if step.sequence in new:
                mean = step.rollouts.mean_score
                scored = "no score" if mean is None else f"mean {mean:.3f}"
                changed = "changed" if step.changed else "unchanged"
                how = f"{scored}, {step.status}, {changed}"
                spent = usd(step.budget.settled_nano_usd)
                self.note(f"step {step.step} (epoch {step.epoch}): {how}, {spent} USD")


class _Silent(StepLines):
    """Says nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


def configuration(config: Config, overrides: Mapping[str, Any]) -> TrainingConfig:
    """The configuration that a program gave.

    Raises:
        UsageFault: a key or value is wrong; a function stands in no file.
    """
    typed = list(_typed(_named(overrides)))
    if isinstance(config, str | Path):
        return load_config(Path(config), typed)
    if isinstance(config, TrainingConfig):
        if not typed:
            return config
        told = msgspec.to_builtins(config)
    else:
        told = _named(config)
    return parse_config(write_yaml(_plain(told)), "config", Path.cwd(), typed)


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same with functions and classes by the file in which they stand."""
    found = dict(given)
    for key in _CODE:
        value = found.get(key)
        inner = value.get("name") if isinstance(value, Mapping) else value
        if not callable(inner):
            continue
        file, name = _place(key, inner)
        named = {"path": file, "name": name} if key == "judge" else {"name": f"{file}:{name}"}
        found[key] = {**(value if isinstance(value, Mapping) else {}), **named}
    return found


def _place(key: str, value: Any) -> tuple[str, str]:
    name = getattr(value, "__qualname__", "")
    try:
        file = inspect.getsourcefile(value)
    except TypeError:
        file = None
    if file is None or not Path(file).is_file() or not name.isidentifier():
        raise UsageFault(
            f"{key}: {value!r} does not stand at the top of a file",
            hint=f"write it into a file and give that: {key}='FILE.py:NAME'",
        )
    return str(Path(file).resolve()), name


def _typed(overrides: Mapping[str, Any]) -> Iterator[str]:
    """Overrides as they are typed: one for each value, not for the sections that they are in."""
    for key, value in _flat(overrides, TrainingConfig, ""):
        try:
            yield f"{key}={'' if value is None else json.dumps(_plain(value))}"
        except (TypeError, ValueError) as error:
            raise UsageFault(f"{key}={value!r}: {error}", hint="values are those that YAML has") from error


def _flat(given: Mapping[str, Any], kind: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Any]]:
    sections = {field.name: section_of(field.type) for field in msgspec.structs.fields(kind)}
    for name, value in given.items():
        section = sections.get(name)
        if section is not None and isinstance(value, Mapping):
            yield from _flat(value, section, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _plain(value: Any) -> Any:
    """A value as YAML has it: paths are texts."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


@contextmanager
def _session() -> Iterator[None]:
    """While a session works here; whatever it loads must not begin another."""
    token = _busy.set(True)
    try:
        yield
    finally:
        _busy.reset(token)


def _refuse_from_within() -> None:
    """A file that evrun reads to find an agent, judge or learner must not train while it is read."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if _busy.get() or (spec is not None and str(spec.name).startswith("evrun.")):
        raise UsageFault(
            "evrun.train: called by a file that evrun reads to find its agent, judge or learner",
            hint='put the call below: if __name__ == "__main__":',
        )


def _progress(progress: Progress) -> StepLines:
    return StepLines(progress) if callable(progress) else StepLines() if progress else _Silent()


def _ended(result: Result) -> tuple[str, str | None, int]:
    return result.name, result.reason, result.exit_code


def _report(result: Result, config: TrainingConfig) -> dict[str, Any]:
    return result_report(
        result.state,
        run=config.trainer.run_name,
        dir=str(_directory(config)),
        state_name=result.name,
        exit_code=result.exit_code,
        reason=result.reason,
        chain=result.chain.hex(),
    )


def _directory(config: TrainingConfig) -> Path:
    return Path(config.trainer.output_dir) / config.trainer.run_name


def _run_of(config: TrainingConfig) -> TrainingRun:
    return TrainingRun(_directory(config))
