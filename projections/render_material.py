"""learning_material/: what a learner is shown of a step's rollouts."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from eventlog.events import (
    CandidateRepaired,
    FileEntry,
    RolloutFinished,
    RolloutJudged,
    StepStarted,
)

from .jsontext import json_line, loads_lenient
from .render_json import document, seconds_of_ms, usd_or_null
from .render_steps import repaired
from .times import in_seconds
from .training import TrainingState
from .training_contents import Contents
from .training_facts import Measured, OpenStep, RolloutSummary, StepRecord
from .training_records import rollout_summary
from .training_trees import Tree, below
from .training_views import file_name

SUMMARY = "summary.json"
FEEDBACK = "check_feedback.json"


class Material(NamedTuple):
    """What the learning material of a step is made of.

    `changed`: the adapter that the rollouts worked with, the commit `parent`, is another than the step
    before's. `feedback` is what was repaired of the candidate of the step before.
    """

    step: int
    epoch: int
    parent: str
    tasks: list[str]
    summary: RolloutSummary
    changed: bool
    feedback: list[CandidateRepaired]
    began: int


def material_of(step: StepRecord | OpenStep, before: StepRecord | None) -> Material:
    """The material of a step; `before` is the step that was committed before it."""
    if isinstance(step, StepRecord):
        summary = step.rollouts
    else:
        summary = rollout_summary(step) if step.measured is None else step.measured
    changed = before is not None and before.changed
    feedback = [] if before is None else before.repaired
    return Material(step.step, step.epoch, step.parent, step.tasks, summary, changed, feedback, step.began)


def open_material(training: TrainingState) -> OpenStep | None:
    """The open step, if its learner was called: then its material is there."""
    current = training.current
    return current if current is not None and current.step > 0 and current.measured is not None else None


def materials(training: TrainingState) -> Iterator[Material]:
    """The material of every step that has any, in order."""
    before: StepRecord | None = None
    for record in training.steps:
        if record.step > 0:
            yield material_of(record, before)
        before = record
    current = open_material(training)
    if current is not None:
        yield material_of(current, before)


def index_line(material: Material) -> bytes:
    """The step's line in index.jsonl."""
    summary = material.summary
    return json_line(
        {
            "step": material.step,
            "epoch": material.epoch,
            "mean_score": summary.mean_score,
            "coverage": summary.coverage,
            "cost_usd": usd_or_null(summary.cost_nano_usd),
            "adapter_changed": material.changed,
            "tasks": len(material.tasks),
        }
    )


def material_tree(contents: Contents, material: Material) -> Tree:
    """``learning_material/step_NNNN/``."""
    files: dict[str, bytes | FileEntry] = {SUMMARY: _summary(material)}
    rows = contents.event(material.began, StepStarted).rows
    for number, (task, measured) in enumerate(material.summary.tasks.items()):
        row = contents.blob_or_null(rows[number]) if number < len(rows) else None
        finished = contents.event(measured.finished, RolloutFinished) if measured.finished else None
        judged = contents.event(measured.judged, RolloutJudged) if measured.judged else None
        name = file_name(task)
        files[f"tasks/{name}.json"] = render_task(task, row, measured, finished, judged)
        if finished is not None:
            files |= below(f"trajectories/{name}", finished.files)
    if material.feedback:
        files[FEEDBACK] = document(repaired(material.feedback))
    return Tree(files)


def render_task(
    task: str,
    row: bytes | None,
    measured: Measured,
    finished: RolloutFinished | None,
    judged: RolloutJudged | None,
) -> bytes:
    """``tasks/<id>.json``: the task, what the agent made of it, and what the judge said."""
    known: dict[str, Any] = {"id": task, "input": value_of(row)}
    known |= outcome_of(finished, None if judged is None else judged.error)
    known |= {
        "output": None if finished is None else value_of(finished.output),
        "judge": None if judged is None else judgement(judged.score, judged.feedback, judged.extra),
        "cost_usd": usd_or_null(measured.cost_nano_usd),
        "wall_s": None if finished is None else seconds_of_ms(finished.wall_ms),
        "tokens": measured.tokens or None,
        "attempts": measured.attempt,
        "messages": None if finished is None else value_of(finished.messages),
        "pipeline_extra": None if finished is None else value_of(finished.extra),
        "trajectory": f"trajectories/{file_name(task)}" if finished is not None and finished.files else None,
    }
    return document(known)


def outcome_of(finished: RolloutFinished | None, judge_error: str | None) -> dict[str, Any]:
    """How an attempt ended: ok, error, timeout or judge_error, and why."""
    if finished is None:
        return {"status": None, "error": None, "traceback": None}
    if finished.status != "ok":
        parts = [part for part in (finished.error_class, finished.message) if part]
        return {
            "status": finished.status, "error": ": ".join(parts) or None, "traceback": finished.traceback,
        }  # fmt: skip
    if judge_error is not None:
        return {"status": "judge_error", "error": judge_error, "traceback": None}
    return {"status": "ok", "error": None, "traceback": None}


def judgement(score: float | None, feedback: str | None, extra: bytes | None) -> dict[str, Any]:
    """What a judge said."""
    return {"score": score, "feedback": feedback, "extra": value_of(extra)}


def value_of(data: bytes | None) -> Any:
    """The value of JSON that users' code made; null where there is none."""
    return None if data is None else loads_lenient(data)


def _summary(material: Material) -> bytes:
    summary = material.summary
    return document(
        {
            "step": material.step,
            "epoch": material.epoch,
            "adapter_commit": material.parent,
            "adapter_changed": material.changed,
            "tasks": material.tasks,
            "mean_score": summary.mean_score,
            "coverage": summary.coverage,
            "errors": summary.errors,
            "cost_usd": usd_or_null(summary.cost_nano_usd),
            "unknown_cost_tasks": summary.unknown_cost_tasks,
            "wall_s": in_seconds(summary.wall_ns),
        }
    )


README_TEXT = """\
# Learning material

What the rollouts of each step showed, for whoever changes the adapter. All of it is made from the run's log:
changing a file here changes nothing.

- `current`: the newest step's directory.
- `index.jsonl`: a line for each step: `step`, `epoch`, `mean_score`, `coverage`, `cost_usd`,
  `adapter_changed` (whether its rollouts worked with another adapter than those of the step before),
  `tasks` (how many).
- `step_NNNN/summary.json`: the step as a whole. `mean_score` is over the tasks that have a score.
- `step_NNNN/tasks/ID.json`: one task: `input` (its row), `status` (ok, error, timeout or judge_error),
  `error`, `output`, `judge` (`score`, `feedback`, `extra`), `cost_usd`, `wall_s`, `tokens`, `messages`.
  A task without a score was not judged: an error of the machinery is no 0.
- `step_NNNN/trajectories/ID/`: files that the agent left, where it left any.
- `step_NNNN/check_feedback.json`: what had to be repaired of the adapter that the step before proposed.
"""
