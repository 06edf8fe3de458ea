"""Facts about prompts, attempts, answers and tool calls of a batch run.

Free text from outside (rows, answers, tool results) is kept as bytes, exactly as it came: UTF-8 where it is
UTF-8, lone surrogates encoded with `surrogatepass`. So nothing is changed on the way in, and it is given back
exactly.
"""

import msgspec

from .base import Event


class PlannedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One dataset row and the units it makes.

    `content` is the 16-byte content id; `occurrence` numbers equal rows from 1; `index` is the 0-based place
    among accepted rows; `batch` counts from 1; `row` is the row's JSON object, as bytes, whole. The units are
    samples `first_sample` to `first_sample + samples - 1`.
    """

    content: bytes
    occurrence: int
    index: int
    batch: int
    row: bytes
    first_sample: int = 1
    samples: int = 1


class PromptsPlanned(Event, frozen=True, gc=False):
    """A chunk of rows entered the plan; `complete` is true on the chunk that ends a planning."""

    rows: list[PlannedRow]
    complete: bool


class RowsSkipped(Event, frozen=True, gc=False):
    """Dataset lines left out by `--skip-bad-rows`: (line number from 1, what was wrong)."""

    lines: list[tuple[int, str]]


class PromptsWithdrawn(Event, frozen=True, gc=False):
    """Units whose rows are gone from the dataset: not run if pending, kept in the views if finished."""

    units: list[str]


class PromptStarted(Event, frozen=True, gc=False):
    """An attempt at a unit began. `attempt` counts from 1; `settings`: digest of those in force."""

    unit: str
    attempt: int
    toolsets: list[str]
    settings: bytes


class ModelAsked(Event, frozen=True, gc=False):
    """What an own agent asked a model; in one commit with the call's `BudgetReserved`.

    `path` is where, such as ``chat/completions``. `request` is the body as JSON, told as what differs from
    the body of the call `base` of the same attempt (empty: from none): fields that are the same are left out,
    those in `dropped` are gone, and the list of messages (``messages``, or ``input``) is without its first
    `kept` items. So a chat that grows takes only what it grows by.
    """

    call: str
    unit: str
    attempt: int
    path: str
    base: str
    kept: int
    dropped: list[str]
    request: bytes


class ModelAnswered(Event, frozen=True, gc=False):
    """A call was answered; in one commit with its `BudgetSpent` (`SpendInDoubt`, where usage is missing).

    `body` is the response body as received (secrets replaced); `request_id` is the provider's, if any.
    """

    call: str
    body: bytes
    elapsed_ms: int
    request_id: str | None


class ModelCallFailed(Event, frozen=True, gc=False):
    """A call gave no usable answer; in one commit with its `BudgetReleased` or `SpendInDoubt`.

    `status` is the HTTP status, null if there was none; `wait_ms` is how long the provider asked to wait.
    """

    call: str
    error_class: str
    message: str
    status: int | None
    retryable: bool
    wait_ms: int | None
    request_id: str | None


class ToolStarted(Event, frozen=True, gc=False):
    """A tool call is about to run: the `position`-th (from 0) of the attempt's `turn`-th answer (from 1).

    `arguments` is the SHA-256 of the argument text, cut to 16 bytes: the text itself is in the answer. Turn 0
    is an own agent's code: its tool calls are numbered through the attempt.
    """

    unit: str
    attempt: int
    turn: int
    position: int
    tool: str
    arguments: bytes


class ToolFinished(Event, frozen=True, gc=False):
    """A tool call ended (or was answered with an error without running: no `ToolStarted` then).

    `content` is what the model is given back.
    """

    unit: str
    attempt: int
    turn: int
    position: int
    content: bytes
    success: bool
    duration_ms: int


class AttemptSuperseded(Event, frozen=True, gc=False):
    """An open attempt was given up, its cost kept; a new attempt will start. `reason` says why."""

    unit: str
    attempt: int
    reason: str


class Counts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a finished attempt adds to the statistics.

    `tools` maps a tool's name to (count, success, failure); `reasoning_tokens` is null where no answer said.
    """

    api_calls: int
    turns_with_reasoning: int
    turns_without_reasoning: int
    reasoning_tokens: int | None
    tools: dict[str, tuple[int, int, int]]


class TrajectoryCompleted(Event, frozen=True, gc=False):
    """A boundary: the unit ended with a trajectory that is kept."""

    unit: str
    attempt: int
    completed: bool
    partial: bool
    finish_reason: str
    counts: Counts


class TrajectoryDiscarded(Event, frozen=True, gc=False):
    """A boundary: the unit ended well and was set aside by the quality rule `reason`."""

    unit: str
    attempt: int
    completed: bool
    partial: bool
    finish_reason: str
    counts: Counts
    reason: str


class TrajectoryJudged(Event, frozen=True, gc=False):
    """The judge gave a trajectory its score; in one commit with the boundary that follows.

    `judge` is the digest of the judge: of its rubric, or of its file. `call` is the paid call whose answer
    this is, null where the judge is a function.
    """

    unit: str
    attempt: int
    score: float
    feedback: str | None
    judge: bytes
    call: str | None


class TrajectoryRestored(Event, frozen=True, gc=False):
    """A changed rule keeps (`kept`) or sets aside (`reason`) a trajectory that was decided before."""

    unit: str
    kept: bool
    reason: str | None
    counts: Counts


class TrajectoryImported(Event, frozen=True, gc=False):
    """A boundary: the unit ended elsewhere, in another program's run, and no call of this run belongs to it.

    `row` is that program's row, to the byte; empty where all that is known is that the prompt was done.
    `outcome` is "kept", "discarded" or "failed", and `reason` the rule or the class of the failure. `source`
    and `line` (from 1, null for no line) say where it stood.
    """

    unit: str
    attempt: int
    outcome: str
    reason: str | None
    counts: Counts
    row: bytes
    source: str
    line: int | None


class PromptFailed(Event, frozen=True, gc=False):
    """A boundary: the unit ended without a trajectory; `message` is the cause, verbatim where it is short."""

    unit: str
    attempt: int
    error_class: str
    message: str
    status: int | None
    retryable: bool
