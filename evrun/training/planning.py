"""What a training run does next, from what is recorded. Pure: resuming is asking again."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from eventlog.events import FileEntry
from projections import StepRecord, TrainingState, adapter_digest, mean

from .config import TrainingConfig
from .tasks import epoch_order


class Chunk(NamedTuple):
    """The next step: its number, its epoch, its tasks; `order` is the epoch's where that begins with it.

    `ends_epoch` says that no tasks of the epoch are left after it.
    """

    step: int
    epoch: int
    tasks: list[str]
    order: list[str] | None
    ends_epoch: bool


def next_chunk(state: TrainingState, train: Sequence[str], config: TrainingConfig) -> Chunk | None:
    """The step that comes after the committed ones; null where none is left.

    An epoch takes its tasks in the order that was recorded when it began. What a changed split took away is
    passed over, what it added comes in the next epoch.
    """
    known = set(train)
    for epoch in range(1, config.trainer.epochs + 1):
        order = state.epochs.get(epoch)
        begun = order is not None
        order = epoch_order(list(train), config, epoch) if order is None else order
        done = {task for step in state.steps if step.epoch == epoch for task in step.tasks}
        left = [task for task in order if task not in done and task in known]
        if left:
            tasks = left[: config.data.step_size]
            ends = len(left) == len(tasks)
            return Chunk(state.next_step, epoch, tasks, None if begun else order, ends)
    return None


def ends_epoch(state: TrainingState, train: Sequence[str]) -> bool:
    """Whether the open step takes the last tasks of its epoch."""
    current = state.current
    assert current is not None
    order = state.epochs.get(current.epoch, [])
    done = {task for step in state.steps if step.epoch == current.epoch for task in step.tasks}
    return not (set(order) & set(train)) - done - set(current.tasks)


def steps_in_all(state: TrainingState, train: Sequence[str], config: TrainingConfig) -> int:
    """How many steps there are, done and to come, without the bootstrap."""
    known, total = set(train), 0
    for epoch in range(1, config.trainer.epochs + 1):
        records = [step for step in state.steps if step.epoch == epoch]
        if state.current is not None and state.current.epoch == epoch:
            done = {task for step in records for task in step.tasks} | set(state.current.tasks)
            total += 1
        else:
            done = {task for step in records for task in step.tasks}
        left = [task for task in state.epochs.get(epoch, train) if task not in done and task in known]
        total += len(records) + math.ceil(len(left) / config.data.step_size)
    return total


def checkpoint_tags(step: int, epoch: int, config: TrainingConfig, *, ends: bool) -> list[str]:
    """The tags of a step's commit, without the run's name."""
    often = config.trainer.save_freq
    tags = [f"ckpt-step-{step}"] if often.steps and step and step % often.steps == 0 else []
    if often.epochs and ends and epoch and epoch % often.epochs == 0:
        tags.append(f"ckpt-epoch-{epoch}")
    return tags


class Choice(NamedTuple):
    """The adapter that becomes final: the step it is of (0: the start), its commit, how it was chosen."""

    step: int
    commit: str
    how: str
    score: float | None


def choose_final(state: TrainingState, start: str, val: Sequence[str], wanted: int | None) -> Choice:
    """The final adapter: that of the step `wanted` by the learner, else the best on `val`, else the last.

    Only scores that are recorded count, and only of adapters that were tried on all of `val`; of equals the
    latest.
    """
    steps = {record.step: record.commit for record in state.steps}
    if wanted is not None and (wanted in steps or wanted == 0):
        return Choice(wanted, steps.get(wanted, start), "learner", None)
    last = _last(state.steps, start)
    best: Choice | None = None
    for step, commit in [(0, start), *steps.items()]:
        score = mean_on(state.trials.get(state.adapters.get(commit, ""), {}), val)
        if score is not None and (best is None or best.score is None or score >= best.score):
            best = Choice(step, commit, "best", score)
    return best or last


def step_with(state: TrainingState, start: str, files: Iterable[FileEntry]) -> int | None:
    """The newest step whose adapter has these files, 0: the one that the run began with; null: none has."""
    digest = adapter_digest(files)
    steps = [(0, start), *((record.step, record.commit) for record in state.steps)]
    return next((step for step, commit in reversed(steps) if state.adapters.get(commit) == digest), None)


def mean_on(scores: Mapping[str, float], tasks: Sequence[str]) -> float | None:
    """The mean score on all of these tasks; null where one has none, or there are no tasks."""
    if not tasks or any(task not in scores for task in tasks):
        return None
    return mean([scores[task] for task in tasks])


def _last(steps: Sequence[StepRecord], start: str) -> Choice:
    if not steps:
        return Choice(0, start, "last", None)
    return Choice(steps[-1].step, steps[-1].commit, "last", None)
