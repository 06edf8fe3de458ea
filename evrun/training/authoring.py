"""What a user's agent, judge or learner is written with: ``from evrun import Evolver, StepResult, …``.

Names and fields are those of Hermit, so that what was written for it runs after changing its import line.
"""

import threading
from pathlib import Path
from typing import Any, Protocol

import msgspec

USAGE_FILE = "usage.jsonl"
"""Below a learner's output: what it says of its own spending while it is going on, one `Usage` a line."""


class Usage(msgspec.Struct):
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
    """Where a learner works, all of it private to this call but what is there to be read.

    `adapter` is the adapter to change, `state` is kept from call to call, `output` is kept with the step,
    `scratch` is thrown away, `history` tells of earlier versions (log.jsonl, newest first, and patches).
    `learning_material`, `history` and `task_info` (null where the run has none) are to be read only.
    """

    root: Path
    adapter: Path
    state: Path
    output: Path
    scratch: Path
    history: Path
    learning_material: Path
    task_info: Path | None = None


class Access(msgspec.Struct, frozen=True):
    """What else a learner may read: the validation tasks (JSON lines), null where there are none.

    `environment` is always empty: evrun hides no files from a learner, so none have to be granted.
    """

    validation: Path | None
    task_info: Path | None
    environment: tuple[Path, ...] = ()


class Progress(msgspec.Struct, frozen=True):
    """How far the run is: `step` counts from 1 through the run, `epoch` from 1; 0 before the first step."""

    epoch: int
    step: int
    is_epoch_end: bool


class ToolError(RuntimeError):
    """A tool of ``ctx.tools`` could not do what it was asked, and why."""


class StepTool(Protocol):
    """One of ``ctx.tools``: called with its arguments by name, it gives an object.

    Raises `ToolError` where it cannot do what it was asked.
    """

    name: str
    description: str
    source: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Do it."""


class StepContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner is given with a call.

    `params` is ``evolver.params``; `message` says in words what this call is about; `session` is what the
    last committed step handed on (with ``evolver.resume``). `tools` are by name; the same tools are behind
    `tool_url` over HTTP. `cancel` is set when the call should come to its end: its time is nearly over, or
    the run is ending. `base` is the directory of ``data.tasks``. `sandbox` is always null: evrun runs none.
    """

    workspace: Workspace
    access: Access
    progress: Progress
    params: dict[str, Any]
    message: str
    session: str | None
    tools: dict[str, StepTool]
    tool_url: str | None
    cancel: threading.Event
    base: Path | None = None
    sandbox: None = None

    def report_usage(self, usage: Usage) -> None:
        """Say at once what was used of a model outside evrun: it is booked even if this call dies later.

        It is a line in ``output/usage.jsonl``. What a `StepResult` says in `usage` counts instead of these
        lines, where it says anything.
        """
        with (self.workspace.output / USAGE_FILE).open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(usage) + b"\n")

    def __getattr__(self, name: str) -> Any:
        """Say by name what there is not."""
        there = ", ".join(self.__struct_fields__)
        raise AttributeError(
            f"evrun gives a learner no ctx.{name}; there is {there}, report_usage(). "
            "See docs/training-learners.md"
        )


class FinalResult(msgspec.Struct):
    """What `finalize` may give back as in Hermit: the final adapter's directory, and what was learned."""

    adapter: Path
    summary: str
    extra: dict[str, Any] | None = None


class Evolver:
    """A learner. Only `step` has to be there; what one call leaves in attributes is gone after a crash.

    What has to last belongs into files under ``ctx.workspace.state``.
    """

    def setup(self, ctx: StepContext) -> None:
        """Called once, when the run begins."""

    def bootstrap(self, ctx: StepContext) -> StepResult | None:
        """Called once before the first step; a `StepResult` as of `step`, recorded as step 0."""

    def step(self, ctx: StepContext) -> StepResult:
        """Change ``ctx.workspace.adapter`` as the newest learning material says; a `StepResult`."""
        raise NotImplementedError

    def finalize(self, ctx: StepContext) -> Any:
        """Called once at the end: what was learned, as text; or ``{"text", "step"}``; or a `FinalResult`.

        With `step` the adapter of that step becomes the final one.
        """
