"""What the fold of a training run keeps: small records of what is done, and what is open, whole."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from eventlog.events import (
    BudgetSpent,
    CandidateChecked,
    CandidateRepaired,
    Event,
    EvolverReturned,
    FileEntry,
    Issue,
    LearnerUsage,
    SpendInDoubt,
)

from .calls import Call
from .mean import mean

SUPERSEDED = "superseded"
"""The class of an attempt that could not go on as it is recorded: it is begun anew, which is no failure."""
AGENT_SETTINGS = ("agent.name", "agent.bound.usd")
"""What says whether an agent pays by itself."""


def pays_elsewhere(agent: Mapping[str, Any]) -> bool:
    """Whether an agent, by these settings, may pay for something that evrun does not see.

    The built-in one does not, and one whose bound is 0 says that it does not.
    """
    return agent["agent.name"] not in {None, "chat"} and agent["agent.bound.usd"] != 0


class Rollout(msgspec.Struct, gc=False):
    """A task that is worked on, in a step, for the learner, or in an evaluation.

    `attempt` is the newest (0: none yet), `status` how it ended ("ok", "error", "timeout"; null: not yet).
    `finished` and `judged` are the sequences of the events that say so, 0 for none. `failures` counts the
    attempts that ended otherwise than "ok", but for those that were superseded. `score` is null where there
    is none, `judge_error` says why the judge gave none. Money is in nano-USD: `settled` is the newest
    attempt's, `superseded` that of those before it; `unknown_cost` says that a part of it is not known.
    `heard`: the newest attempt's agent has a call in the account.
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
    heard: bool = False
    wall_ms: int = 0
    tokens: int = 0

    def book(self, call: Call, settled_nano_usd: int, event: Event) -> int:
        """The money of a call moved; gives how much of it is of an attempt that no longer counts."""
        unpriced = isinstance(event, BudgetSpent) and event.cost_nano_usd is None
        self.unknown_cost |= unpriced or isinstance(event, SpendInDoubt)
        if isinstance(event, BudgetSpent):
            self.tokens += (event.usage.input_tokens or 0) + (event.usage.output_tokens or 0)
        if call.attempt != self.attempt:
            self.superseded_nano_usd += settled_nano_usd
            return settled_nano_usd
        self.heard |= call.unit == self.unit
        self.settled_nano_usd += settled_nano_usd
        return 0

    @property
    def all_nano_usd(self) -> int:
        """What all its attempts cost so far."""
        return self.settled_nano_usd + self.superseded_nano_usd


class Measured(msgspec.Struct, frozen=True, gc=False):
    """How a rollout stood at one moment: fields as in `Rollout`; its cost is null where it is not known."""

    attempt: int
    status: str | None
    finished: int
    judged: int
    score: float | None
    cost_nano_usd: int | None
    wall_ms: int
    tokens: int

    @classmethod
    def of(cls, rollout: Rollout) -> Self:
        """How it stands now."""
        return cls(
            rollout.attempt, rollout.status, rollout.finished, rollout.judged,
            rollout.score if rollout.judged else None,
            None if rollout.unknown_cost else rollout.all_nano_usd,
            rollout.wall_ms, rollout.tokens,
        )  # fmt: skip


class RolloutSummary(msgspec.Struct, frozen=True, gc=False):
    """What became of the rollouts of a step, by task."""

    tasks: dict[str, Measured]
    wall_ns: int

    @property
    def scores(self) -> dict[str, float | None]:
        """The score of every task, null where it has none."""
        return {task: measured.score for task, measured in self.tasks.items()}

    @property
    def scored(self) -> list[float]:
        """The scores that there are."""
        return [one.score for one in self.tasks.values() if one.score is not None]

    @property
    def mean_score(self) -> float | None:
        """The mean of the scores that there are; null where there are none."""
        return mean(self.scored)

    @property
    def errors(self) -> int:
        """Tasks without a score."""
        return len(self.tasks) - len(self.scored)

    @property
    def coverage(self) -> float | None:
        """Which part of the tasks has a score, 0 to 1; null where there were no tasks."""
        return len(self.scored) / len(self.tasks) if self.tasks else None

    @property
    def cost_nano_usd(self) -> int | None:
        """What the tasks cost whose cost is known; null where there are tasks, and no cost is known."""
        return known_sum([one.cost_nano_usd for one in self.tasks.values()])

    @property
    def unknown_cost_tasks(self) -> int:
        """How many tasks have a cost that is not known."""
        return sum(one.cost_nano_usd is None for one in self.tasks.values())


class OpenStep(msgspec.Struct, gc=False):
    """The step that is going on. `returned` is the learner's answer, once there is one.

    `rollouts` are by task, in the order of the step. `measured` is how they stood when the learner was called
    for the first time: what it was shown. `began` is the sequence of the event by which the step began.
    """

    step: int
    epoch: int
    tasks: list[str]
    parent: str
    started_ns: int
    rollouts: dict[str, Rollout]
    rolled_out_ns: int = 0
    began: int = 0
    measured: RolloutSummary | None = None
    learner_attempt: int = 0
    returned: EvolverReturned | None = None
    returned_sequence: int = 0
    checks: list[CandidateChecked] = []
    repairs: list[CandidateRepaired] = []


class BudgetAfter(msgspec.Struct, frozen=True, gc=False):
    """Where the account stood at one moment; `active_ns` over all sessions, as far as they said by then."""

    settled_nano_usd: int
    in_doubt_nano_usd: int | None
    by_role: dict[str, int]
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
    candidate as it came (null: it was not checked), `issues_after_repair` of what was made of it. `began` and
    `sequence` are those of the events by which it began and ended.
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
    began: int
    sequence: int

    @property
    def changed(self) -> bool:
        """Whether the adapter is another than before."""
        return self.commit != self.parent


class Evaluation(msgspec.Struct, gc=False):
    """An evaluation: `rollouts` by (repeat, task). `finished_ns` is null while it is open.

    `attempts` are those that have ended, in this order: repeat, task, and how each stood then.
    """

    number: int
    selector: str
    commit: str | None
    files: list[FileEntry] | None
    tasks: list[str]
    repeats: int
    started_ns: int
    rollouts: dict[tuple[int, str], Rollout]
    attempts: list[tuple[int, str, Measured]] = []
    finished_ns: int | None = None


class GroupMoney(msgspec.Struct, gc=False):
    """What a part of the run cost, in nano-USD; `superseded` is in `settled`."""

    settled_nano_usd: int = 0
    superseded_nano_usd: int = 0


def known_sum(costs: Sequence[int | None]) -> int | None:
    """The sum of the costs that are known; null where there are costs, and none is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known or not costs else None
