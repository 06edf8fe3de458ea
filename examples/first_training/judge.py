"""A judge that wants upper case, and says so: the score is for the record, the feedback for the learner."""

from typing import Any

from evrun import JudgeResult


def score(task: dict[str, Any], output: str) -> JudgeResult:
    """1.0 for the prompt in upper case, 0.0 for anything else."""
    wanted = str(task["prompt"]).upper()
    if output == wanted:
        return JudgeResult(1.0, "Right.")
    return JudgeResult(0.0, f"Wanted {wanted!r}, got {output!r}. The rule is: Output format: uppercase.")
