"""What a user's agent, judge or learner is written with: ``from evrun import Evolver, StepResult, …``.

Names and fields are those of Hermit, so that what was written for it runs after changing its import line.
"""

from pathlib import Path
from typing import Any

import msgspec


class Usage(msgspec.Struct, kw_only=True):
    """What was used of a model outside evrun; null where it is not known (never 0 instead)."""

    model: str = ""
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int | None = None
    cost_usd: float | None = None


class RunOutput(msgspec.Struct):
    """What an agent gives back: `output` is any JSON value, mostly text; `log` is a file or directory.

    `cost_usd` and `tokens` are what it spent by itself, outside evrun: calls through `ctx.complete` or
    evrun's endpoint are known anyway. `messages` is the conversation in OpenAI's shape.
    """

    output: Any = None
    log: str | Path | None = None
    cost_usd: float | None = None
    wall_s: float | None = None
    messages: list[dict[str, Any]] | None = None
    tokens: int | dict[str, int] | None = None
    extra: dict[str, Any] | None = None


class JudgeResult(msgspec.Struct):
    """What a judge gives back: a finite number, a word about it for the learner, and anything else."""

    score: float
    feedback: str | None = None
    extra: dict[str, Any] | None = None


class StepResult(msgspec.Struct):
    """What a learner gives back: `status` is "done", "failed", "out_of_budget" or "stop"."""

    status: str = "done"
    summary: str = ""
    rationale: str = ""
    session: str | None = None
    usage: list[Usage] | Usage | None = None
    extra: dict[str, Any] | None = None


class Workspace(msgspec.Struct, frozen=True):
    """Where a learner works, all of it private to this call but `learning_material`, which is to be read.

    `adapter` is the adapter to change, `state` is kept from call to call, `output` is kept with the step,
    `scratch` is thrown away, `history` tells of earlier versions (log.jsonl, newest first, and patches).
    """

    root: Path
    adapter: Path
    state: Path
    output: Path
    scratch: Path
    history: Path
    learning_material: Path


class Access(msgspec.Struct, frozen=True):
    """What else a learner may read: the validation tasks (JSON lines), null where there are none."""

    validation: Path | None
    task_info: Path | None


class Progress(msgspec.Struct, frozen=True):
    """How far the run is: `step` counts from 1 through the run, `epoch` from 1."""

    epoch: int
    step: int
    is_epoch_end: bool


class Evolver:
    """A learner. Only `step` has to be there; what one call leaves in attributes is gone after a crash.

    What has to last belongs into files under ``ctx.workspace.state``.
    """

    def setup(self, ctx: Any) -> None:
        """Called once, when the run begins."""

    def bootstrap(self, ctx: Any) -> Any:
        """Called once before the first step; a `StepResult` as of `step`, recorded as step 0."""

    def step(self, ctx: Any) -> Any:
        """Change ``ctx.workspace.adapter`` as the newest learning material says; a `StepResult`."""
        raise NotImplementedError

    def finalize(self, ctx: Any) -> Any:
        """Called once at the end: what was learned, as text; or a mapping ``{"text", "step"}``.

        With `step` the adapter of that step becomes the final one.
        """
