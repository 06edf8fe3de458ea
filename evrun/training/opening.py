"""Opening a training run, new or going on. What can be refused is refused before anything is written."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from eventlog.events import Event, InputDigest, RunStarted, SettingsChanged
from projections import INPUT, TRAINING, TrainingState

from ..batch import opening as batch_opening
from ..effects.git import HEADS, Tree
from ..errors import UsageFault
from ..versions import versions
from .agents import TrainingAgent, load_agent
from .bindings import Bindings, bindings_of
from .blobs import fitting
from .caps import caps_of, check_caps_hold, steps_afforded
from .config import TrainingConfig
from .config_file import changes_between, config_record, shaping_changes
from .inputs import input_digests
from .judges import TrainingJudge, load_judge
from .starting import Start
from .tasks import Tasks, load_tasks
from .template import Template, load_template


class Prepared(NamedTuple):
    """What a session works with, all of it looked at before anything is written."""

    config: TrainingConfig
    tasks: Tasks
    template: Template
    bindings: Bindings
    agent: TrainingAgent
    judge: TrainingJudge
    caps: dict[str, int]
    inputs: list[InputDigest]


def prepare(config: TrainingConfig, environment: Mapping[str, str]) -> Prepared:
    """Load everything that the configuration names.

    Raises:
        UsageFault: something is missing, or cannot be what it says; nothing was changed.
    """
    tasks = load_tasks(config)
    template = load_template(config.template)
    bindings = bindings_of(config, environment)
    caps = caps_of(config)
    check_caps_hold(config, caps, bindings)
    agent, judge = load_agent(config), load_judge(config)
    return Prepared(
        config, tasks, template, bindings, agent, judge, caps, input_digests(config, template.files)
    )


def reach(prepared: Prepared) -> str | None:
    """How many steps the cap on USD pays for, in words; null where it is enough, or nobody can say."""
    size = sum(len(content.data) for content in prepared.template.files.values())
    found = steps_afforded(
        prepared.config, prepared.caps, prepared.bindings, prepared.tasks, adapter_bytes=size
    )
    if found is None or found.steps >= found.total:
        return None
    return found.words(prepared.caps["usd"])


def run_directory(config: TrainingConfig) -> Path:
    """Where the run lives."""
    return Path(config.trainer.output_dir) / config.trainer.run_name


def check_name_is_free(config: TrainingConfig) -> None:
    """Refuse to begin where something by this name is.

    Raises:
        UsageFault: a directory with results but no log, or a branch of another run.
    """
    directory, name = run_directory(config), config.trainer.run_name
    there = sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []
    foreign = [entry for entry in there if entry not in {"log", "work"}]
    if foreign:
        raise UsageFault(
            f"{directory} holds {', '.join(foreign[:5])} but no log of evrun",
            hint="choose another trainer.run_name, or move this away; what Hermit left can be taken in: "
            f"evrun import hermit {directory} --run-name NAME",
        )
    tree = Path(config.trainer.tree_dir)
    if not Tree.exists(tree):
        return
    with Tree.open(tree) as found:
        taken = found.ref(f"{HEADS}{name}") is not None
    if taken:
        raise UsageFault(
            f"the tree {config.trainer.tree_dir} has a branch {name!r} already, and {directory} no log",
            hint="choose another trainer.run_name, or trainer.resume_mode=disable, which renames the branch",
        )


def first_events(prepared: Prepared, session: int, start: Start) -> list[list[Event]]:
    """The first commits of a new run: what it is, and all that its starting point rests on."""
    config = prepared.config
    events: list[Event] = [
        RunStarted(TRAINING, config.trainer.run_name, config_record(config), {}, versions(), prepared.inputs),
        batch_opening.opened(session, os.getpid()),
        *batch_opening.recapped({}, prepared.caps),
        *start.events(),
    ]
    return fitting(events)


def changed(
    prepared: Prepared, recorded: TrainingConfig, state: TrainingState, *, accept: bool
) -> SettingsChanged | None:
    """What a resume changes against the record; null: nothing.

    Raises:
        UsageFault: something changed that shapes the run, and it was not accepted; all of it is listed.
    """
    changes = changes_between(recorded, prepared.config)
    for one in prepared.inputs:
        before = state.inputs.get(one.name)
        if before != one.sha256:
            changes[f"{INPUT}{one.name}"] = (before, one.sha256)
    names = {one.name for one in prepared.inputs}
    for name in state.inputs.keys() - names:
        changes[f"{INPUT}{name}"] = (state.inputs[name], None)
    shaping = sorted(name for name in shaping_changes(changes) if not _of_evaluation(name))
    if shaping and not accept:
        raise UsageFault(
            f"changed since the run began: {'; '.join(_in_words(name, *changes[name]) for name in shaping)}",
            hint="put it back; or --accept-changes, which records the change and goes on with it; "
            "or choose another trainer.run_name",
        )
    return SettingsChanged(changes, None) if changes else None


def _of_evaluation(name: str) -> bool:
    """Held-out tasks shape no training."""
    return name in {f"{INPUT}data.test", "data.test"}


def _in_words(name: str, before: object, now: object) -> str:
    if name.startswith(INPUT):
        what = "is new" if before is None else "is gone" if now is None else "has another content"
        return f"{name.removeprefix(INPUT)} {what}"
    return f"{name} was {before!r}, is {now!r}"
