"""What the fold of a training run keeps: small records of what is done, and what is open, whole."""

import math

import msgspec

from eventlog.events import (
    CandidateChecked,
    CandidateRepaired,
    EvolverReturned,
    FileEntry,
    Issue,
    LearnerUsage,
)


class Rollout(msgspec.Struct, gc=False):
    """A task that is worked on, in a step, for the learner, or in an evaluation.

    `attempt` is the newest (0: none yet), `status` how it ended ("ok", "error", "timeout"; null: not yet).
    `finished` and `judged` are the sequences of the events that say so, 0 for none. `failures` counts the
    attempts that ended otherwise than "ok". `score` is null where there is none, `judge_error` says why the
    judge gave none. Money is in nano-USD: `settled` is the newest attempt's, `superseded` that of those
    before it; `unknown_cost` says that a call of it has no known cost.
    """

    unit: str
    task: str
    attempt: int = 0
    status: str | None = None
    finished: int = 0
    judged: int = 0
    failures: int = 0
    score: float | None = None
    judge_error: str | None = None
    settled_nano_usd: int = 0
    superseded_nano_usd: int = 0
    unknown_cost: bool = False
    wall_ms: int = 0
    tokens: int = 0

    @property
    def all_nano_usd(self) -> int:
        """What all its attempts cost so far."""
        return self.settled_nano_usd + self.superseded_nano_usd


class OpenStep(msgspec.Struct, gc=False):
    """The step that is going on. `returned` is the learner's answer, once there is one.

    `rollouts` are by task, in the order of the step. `repaired_at` is how many repairs there were when the
    candidate was checked last.
    """

    step: int
    epoch: int
    tasks: list[str]
    parent: str
    started_ns: int
    rollouts: dict[str, Rollout]
    rolled_out_ns: int = 0
    learner_attempt: int = 0
    returned: EvolverReturned | None = None
    returned_sequence: int = 0
    checks: list[CandidateChecked] = []
    repairs: list[CandidateRepaired] = []


class RolloutSummary(msgspec.Struct, frozen=True, gc=False):
    """What became of the rollouts of a step; `scores` has every task, null where it has none."""

    scores: dict[str, float | None]
    cost_nano_usd: int
    unknown_cost_tasks: int
    wall_ns: int
    finished: dict[str, tuple[int, int]]
    """By task: the sequences of its `RolloutFinished` and `RolloutJudged`, 0 for none."""

    @property
    def scored(self) -> list[float]:
        """The scores that there are."""
        return [score for score in self.scores.values() if score is not None]

    @property
    def mean_score(self) -> float | None:
        """The mean of the scores that there are; null where there are none."""
        scored = self.scored
        return math.fsum(scored) / len(scored) if scored else None

    @property
    def errors(self) -> int:
        """Tasks without a score."""
        return len(self.scores) - len(self.scored)

    @property
    def coverage(self) -> float | None:
        """Which part of the tasks has a score, 0 to 1; null where there were no tasks."""
        return len(self.scored) / len(self.scores) if self.scores else None


class BudgetAfter(msgspec.Struct, frozen=True, gc=False):
    """Where the account stood when a step was committed; `active_ns` over all sessions."""

    settled_nano_usd: int
    in_doubt_nano_usd: int | None
    tokens: int
    unknown_cost_calls: int
    active_ns: int


class LearnerSummary(msgspec.Struct, frozen=True, gc=False):
    """What the learner's call of a step came to; `sequence` is that of its `EvolverReturned`."""

    status: str
    summary: str
    rationale: str
    wall_ms: int
    usage: list[LearnerUsage]
    sequence: int


class StepRecord(msgspec.Struct, frozen=True, gc=False):
    """A committed step. `learner` is null where it was not called, and `note` says why.

    `commits` are what it added, `commit` is where the branch stood then. `passed` and `issues` are of the
    candidate as it came (null: it was not checked), `issues_after_repair` of what was made of it.
    """

    step: int
    epoch: int
    tasks: list[str]
    rollouts: RolloutSummary
    learner: LearnerSummary | None
    status: str
    note: str | None
    session: str | None
    parent: str
    commits: list[str]
    commit: str
    passed: bool | None
    issues: list[Issue]
    issues_after_repair: list[Issue] | None
    repaired: list[CandidateRepaired]
    budget: BudgetAfter
    tags: list[str]
    time_ns: int
    sequence: int

    @property
    def changed(self) -> bool:
        """Whether the adapter is another than before."""
        return self.commit != self.parent


class Evaluation(msgspec.Struct, gc=False):
    """An evaluation: `rollouts` by (repeat, task). `finished_ns` is null while it is open."""

    number: int
    selector: str
    commit: str | None
    files: list[FileEntry] | None
    tasks: list[str]
    repeats: int
    started_ns: int
    rollouts: dict[tuple[int, str], Rollout]
    finished_ns: int | None = None


class GroupMoney(msgspec.Struct, gc=False):
    """What a part of the run cost, in nano-USD; `superseded` is in `settled`."""

    settled_nano_usd: int = 0
    superseded_nano_usd: int = 0
