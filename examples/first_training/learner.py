"""A learner that copies a rule out of the feedback. It asks no model: it shows what a learner sees."""

import json
from pathlib import Path
from typing import Any

from evrun import Evolver, StepContext, StepResult

RULE = "Output format: uppercase."


class CopyRule(Evolver):
    """Puts the rule into ADAPTER.md once a task has failed whose feedback tells it."""

    def step(self, ctx: StepContext) -> StepResult:
        """Read how the step's tasks went; change the adapter; say what was done."""
        asked_for = [task for task in _tasks(ctx.workspace.learning_material) if _tells(task)]
        adapter = ctx.workspace.adapter / "ADAPTER.md"
        text = adapter.read_text("utf-8")
        if not asked_for or RULE in text:
            return StepResult("done", "nothing to change")
        adapter.write_text(f"{text.rstrip()}\n\n{RULE}\n", "utf-8")
        report = f"# Step {ctx.progress.step}\n\n{len(asked_for)} tasks failed for want of the rule.\n"
        (ctx.workspace.output / "report.md").write_text(report, "utf-8")
        return StepResult("done", f"copied the rule {RULE!r} into ADAPTER.md")

    def finalize(self, ctx: StepContext) -> str:
        """One sentence for the adapter's card."""
        text = (ctx.workspace.adapter / "ADAPTER.md").read_text("utf-8")
        return "The output has to be in upper case." if RULE in text else "Nothing was learned."


def _tasks(material: Path) -> list[dict[str, Any]]:
    files = sorted((material / "current" / "tasks").glob("*.json"))
    return [json.loads(file.read_text("utf-8")) for file in files]


def _tells(task: dict[str, Any]) -> bool:
    judged = task["judge"] or {}
    score, feedback = judged.get("score"), judged.get("feedback")
    return score is not None and score < 1 and RULE in (feedback or "")
