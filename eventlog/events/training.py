"""Facts about the steps, rollouts, learners and adapters of a training run.

Files are told by digest (`FileEntry`); their contents are in the log too, each once, as `BlobStored`, in the
same commit or before it. Values that users' code made (outputs, extras) are kept as the bytes of their JSON.
"""

import msgspec

from .base import Event


class FileEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One file of a tree: its path with slashes, relative to the root; SHA-256 and size of its content."""

    path: str
    digest: bytes
    size_bytes: int
    executable: bool = False


class BlobStored(Event, frozen=True, gc=False):
    """The content of a file, under its SHA-256. Each content is stored once in a log."""

    digest: bytes
    data: bytes


class HistoryStored(Event, frozen=True, gc=False):
    """Git objects that the run's starting point `head` rests on: (kind, content), down to the commit `root`.

    `kind` is "blob", "tree" or "commit". `complete` is true on the last of several such events; that one also
    tells the files of both commits, whose contents are stored as blobs like all others.

    Of a run that was imported, the objects of the commits that others made in it are here too. A `CommitMade`
    with the hash of a commit that is here only names it: its object is this one, whatever its fields are.
    """

    head: str
    root: str
    objects: list[tuple[str, bytes]]
    complete: bool
    files: list[FileEntry]
    root_files: list[FileEntry]


class EpochStarted(Event, frozen=True, gc=False):
    """An epoch (from 1) began: all its tasks, in the order in which its steps take them."""

    epoch: int
    tasks: list[str]


class StepStarted(Event, frozen=True, gc=False):
    """A step (from 1) began with the adapter of the commit `parent`.

    `rows` are its tasks' rows, in the order of `tasks`: digests of contents that are JSON objects.
    """

    step: int
    epoch: int
    tasks: list[str]
    parent: str
    rows: list[bytes] = msgspec.field(default_factory=list)


class RolloutStarted(Event, frozen=True, gc=False):
    """An attempt (from 1) at a task began. `adapter` is what it works with: a commit, a digest, or empty.

    `carried`: an attempt that an earlier session left open goes on under its number. It runs again from its
    beginning, in a new directory, and what was recorded of it is fed to it.
    """

    unit: str
    attempt: int
    task: str
    adapter: str
    carried: bool = False


class RolloutFinished(Event, frozen=True, gc=False):
    """An attempt at a task ended: `status` is "ok", "error" or "timeout".

    `output`, `messages` and `extra` are JSON, null where there is none. `error_class`, `message` and
    `traceback` say what went wrong. `cost_nano_usd` and `tokens` are what an agent says of its own spending
    outside evrun, which is booked by events of its own. `files` is its trajectory.
    """

    unit: str
    attempt: int
    status: str
    output: bytes | None
    error_class: str | None
    message: str | None
    traceback: str | None
    cost_nano_usd: int | None
    tokens: int | None
    wall_ms: int
    files: list[FileEntry]
    messages: bytes | None
    extra: bytes | None


class RolloutJudged(Event, frozen=True, gc=False):
    """What the judge said of an attempt that ended "ok"; `score` is null where it failed, and `error` why."""

    unit: str
    attempt: int
    score: float | None
    feedback: str | None
    extra: bytes | None
    error: str | None
    wall_ms: int


class EvolverStarted(Event, frozen=True, gc=False):
    """The learner was called: `call` is "setup", "bootstrap", "step" or "finalize"; `step` 0 outside steps.

    `carried` as for `RolloutStarted`.
    """

    unit: str
    attempt: int
    call: str
    step: int
    carried: bool = False


class LearnerUsage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a learner says that it used of a model outside evrun; null where it does not say."""

    model: str
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    calls: int | None
    cost_nano_usd: int | None


class EvolverReturned(Event, frozen=True, gc=False):
    """The learner's call ended: `status` is "done", "failed", "out_of_budget" or "stop".

    `adapter` is its candidate, `state` and `output` are what it left there, all as files; null where it died
    or was stopped, so that nothing of it counts. `error` says how it died; `extra` is JSON.
    """

    unit: str
    attempt: int
    call: str
    step: int
    status: str
    summary: str
    rationale: str
    session: str | None
    usage: list[LearnerUsage]
    extra: bytes | None
    error: str | None
    wall_ms: int
    adapter: list[FileEntry] | None
    state: list[FileEntry] | None
    output: list[FileEntry] | None


class Issue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a check found wrong: `check` is its number, 1 to 6 (docs/adapters.md); `path` may be empty."""

    path: str
    check: int
    problem: str


class CandidateChecked(Event, frozen=True, gc=False):
    """A candidate was looked at; with `after_repair` it is the repaired one."""

    step: int
    passed: bool
    issues: list[Issue]
    after_repair: bool = False


class CandidateRepaired(Event, frozen=True, gc=False):
    """A file of a candidate was put back, from the "root" or the "parent", or removed as neither has it."""

    step: int
    path: str
    restored_from: str
    reason: str


class CommitMade(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A git commit, whole: from these fields alone its object, and so its hash, can be made again.

    But for one whose object `HistoryStored` holds, which others made, by their name and in their words.
    """

    sha: str
    parent: str
    message: str
    time_s: int
    files: list[FileEntry]


class StepCommitted(Event, frozen=True, gc=False):
    """The boundary: a step is over, with what it changed. `step` 0 is the bootstrap.

    `status` is the learner's, or "failed" where it was not called; `note` says why that was. `commits` are
    none, one, or two (as it came, and repaired). `state` is the learner's state from here on. `active_ns` is
    how long the run has been worked on, over all sessions.
    """

    step: int
    epoch: int
    status: str
    note: str | None
    parent: str
    commits: list[CommitMade]
    state: list[FileEntry]
    session: str | None
    tags: list[str]
    active_ns: int


class FinalSelected(Event, frozen=True, gc=False):
    """The run's adapter was chosen: that of `step`, "best" or "last" (`how`), and committed with its card.

    `score` is what it was best by. `finalize` is what the learner said of the whole. A run that goes on after
    a stop chooses anew; the newest counts.
    """

    step: int
    chosen: str
    how: str
    score: float | None
    finalize: str | None
    stop_reason: str
    commit: CommitMade
    tag: str


class EvaluationStarted(Event, frozen=True, gc=False):
    """An evaluation (numbers from 1) of an adapter on held-out tasks began.

    `commit` is null for a directory and for no adapter; `files` are the adapter's then.
    """

    number: int
    selector: str
    commit: str | None
    files: list[FileEntry] | None
    tasks: list[str]
    repeats: int


class EvaluationAttemptJudged(Event, frozen=True, gc=False):
    """As `RolloutJudged`, of an evaluation's attempt: `repeat` counts from 1.

    `error` is also why an attempt that ended otherwise than "ok" has no score.
    """

    number: int
    repeat: int
    task: str
    unit: str
    attempt: int
    score: float | None
    feedback: str | None
    extra: bytes | None
    error: str | None


class EvaluationFinished(Event, frozen=True, gc=False):
    """Every attempt of an evaluation has ended."""

    number: int


TRAINING_EVENTS: tuple[type[Event], ...] = (
    BlobStored,
    HistoryStored,
    EpochStarted,
    StepStarted,
    RolloutStarted,
    RolloutFinished,
    RolloutJudged,
    EvolverStarted,
    EvolverReturned,
    CandidateChecked,
    CandidateRepaired,
    StepCommitted,
    FinalSelected,
    EvaluationStarted,
    EvaluationAttemptJudged,
    EvaluationFinished,
)
"""All of these, for folds that are not about training."""
