"""What a line of Hermit's records holds, as far as it is used; fields that are not named here are left.

Hermit's money is binary floating point, its times are local and without a zone.
"""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""A number that a log can hold; a line with another one is listed as damaged."""


class UsagePart(msgspec.Struct, gc=False):
    """What a learner said that it used of a model."""

    model: str = ""
    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    output_tokens: Count | None = None
    calls: Count | None = None
    cost_usd: float | None = None


class RolloutPart(msgspec.Struct, gc=False):
    """What became of a step's rollouts; a score of 0.0 may be that of an agent or a judge that failed."""

    scores: dict[str, float | None] = {}
    cost_usd: float | None = None
    wall_s: float = 0.0


class EvolverPart(msgspec.Struct, gc=False):
    """What became of the learner's call."""

    status: str
    summary: str = ""
    wall_s: float = 0.0
    usage: list[UsagePart] = []
    metered_tool_usage: list[UsagePart] = []


class IssuePart(msgspec.Struct, gc=False):
    """What a check found."""

    path: str = ""
    check: Count = 0
    problem: str = ""


class CheckPart(msgspec.Struct, gc=False):
    """What the check said; without `issues` there was nothing to check."""

    passed: bool | None = None
    issues: list[IssuePart] | None = None
    after_repair: "CheckPart | None" = None


class RepairPart(msgspec.Struct, gc=False):
    """A file that was put back."""

    path: str
    restored_from: str = ""
    reason: str = ""


class SpentPart(msgspec.Struct, gc=False):
    """An account: USD and tokens by part (rollout, evolver)."""

    usd: dict[str, float] = {}
    tokens: dict[str, Count] = {}
    unknown_cost_calls: Count = 0
    seconds: float = 0.0


class StepLine(msgspec.Struct, gc=False):
    """A line of steps.jsonl."""

    step: Count
    epoch: Count
    tasks: list[str]
    rollout: RolloutPart
    evolver: EvolverPart
    parent: str
    commit: str
    commits: list[str] = []
    bootstrap: bool = False
    session: str | None = None
    check: CheckPart = msgspec.field(default_factory=CheckPart)
    repaired: list[RepairPart] = []
    budget_after: SpentPart = msgspec.field(default_factory=SpentPart)
    time: str = ""


class ResultPart(msgspec.Struct, gc=False):
    """step_result.json: what the learner said, whole."""

    rationale: str = ""
    extra: dict[str, object] = {}


class JudgePart(msgspec.Struct, gc=False):
    """What the judge said."""

    score: float | None = None
    feedback: str | None = None
    extra: dict[str, object] | None = None


class TaskFile(msgspec.Struct, gc=False):
    """learning_material/step_NNNN/tasks/<id>.json, and a line of eval/<selector>/results.jsonl."""

    id: str
    status: str
    input: dict[str, object] | None = None
    repeat: Count = 1
    error: str | None = None
    traceback: str | None = None
    output: object = None
    judge: JudgePart = msgspec.field(default_factory=JudgePart)
    cost_usd: float | None = None
    wall_s: float | None = None
    tokens: Count | None = None
    messages: list[object] | None = None
    pipeline_extra: dict[str, object] | None = None
    trajectory: str | None = None


class MaterialPart(msgspec.Struct, gc=False):
    """learning_material/step_NNNN/summary.json."""

    step: Count
    epoch: Count
    adapter_commit: str
    tasks: list[str]
    wall_s: float = 0.0


class RunSummary(msgspec.Struct, gc=False):
    """summary.json, which says that Hermit has ended with the run."""

    stop_reason: str
    final_commit: str
    finalize: str = ""
    spending: SpentPart = msgspec.field(default_factory=SpentPart)


class EvaluationSummary(msgspec.Struct, gc=False):
    """eval/<selector>/summary.json."""

    adapter: str
    commit: str | None = None
    repeats: Count = 1
    wall_s: float = 0.0
