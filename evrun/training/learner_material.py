"""What a learner reads of how tasks went: in the learning material, and from the tool run_agent.

The first has score and feedback under ``judge``, the second beside the output.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Trial(NamedTuple):
    """How one task went: `score` is null where it could not be done or judged, and `error` says why."""

    task: str
    given: Any
    output: Any
    score: float | None
    feedback: str
    error: str


def rolled_out(material: Path) -> list[Trial]:
    """The newest step's tasks, in the order in which the step took them."""
    current = material / "current"
    order = json.loads((current / "summary.json").read_text("utf-8"))["tasks"]
    rows = [json.loads(file.read_text("utf-8")) for file in (current / "tasks").glob("*.json")]
    place = {task: number for number, task in enumerate(order)}
    return sorted((_trial(row) for row in rows), key=lambda trial: place.get(trial.task, len(place)))


def trials_of(answer: Mapping[str, Any]) -> list[Trial]:
    """What run_agent gave back."""
    return [_trial(row) for row in answer["results"]]


def _trial(row: Mapping[str, Any]) -> Trial:
    judge = row.get("judge") or row
    score = judge.get("score") if row["status"] == "ok" else None
    return Trial(
        task=str(row["id"]),
        given=row.get("input"),
        output=row.get("output"),
        score=None if score is None else float(score),
        feedback=str(judge.get("feedback") or ""),
        error=str(row.get("error") or row["status"] or "no result") if score is None else "",
    )
