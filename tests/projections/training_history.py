"""Training runs that never were: legal histories of events, drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.events import (
    AttemptSuperseded,
    BudgetChanged,
    BudgetReleased,
    BudgetReserved,
    EvaluationAttemptJudged,
    Event,
    EvolverReturned,
    EvolverStarted,
    RolloutJudged,
    RolloutStarted,
    RunFinished,
    SessionClosed,
    SessionOpened,
    SettingsChanged,
    SpendCorrected,
    SpendInDoubt,
)
from projections import evaluation_unit, judge_unit, learner_unit, rollout_unit, trial_unit

from .histories import answered, reserve, spent
from .training_events import TrainingRun, entries, rolled_out, stored

if TYPE_CHECKING:
    from random import Random

TASKS = "abcdef"
RETRIES = 1


class TrainingHistory(TrainingRun):
    """A training run that goes on at random: each `advance` appends one legal commit, or a few."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.attempts: dict[str, int] = {}
        self.open: dict[str, str] = {}  # unit -> task, of attempts that have begun
        self.judging: dict[str, str] = {}
        self.ended: set[str] = set()
        self.calls = 0
        self.waiting: list[BudgetReserved] = []
        self.doubts: list[str] = []
        self.phase = "between"
        self.attempt = 0
        self.begin()
        self.add(BudgetChanged({}, {"usd": 10**15, "step_usd": 10**14, "role_usd.rollout": 10**14}))
        self._learner_call("setup")

    def run_on(self, moves: int) -> list[list[Event]]:
        """So many moves; all commits so far."""
        for _ in range(moves):
            self.advance()
        return self.commits

    def advance(self) -> None:
        """One move."""
        ways = (
            [self._work] * 8
            + [self._send] * 2
            + [self._settle] * 3
            + [self._die, self._change, self._correct]
        )
        self.random.choice(ways)()

    # Money.

    def _send(self) -> None:
        units = [
            *self.open,
            *map(judge_unit, self.judging),
            *([self.learner] if self.phase == "learning" else []),
        ]
        if units:
            unit = self.random.choice(units)
            self.calls += 1
            attempt = self.attempts.get(unit.removesuffix("/judge"), self.attempt)
            role = "judge" if unit.endswith("/judge") else "learner" if unit == self.learner else "rollout"
            bound = self.random.choice([None, 100, 100])
            reserved = reserve(f"s{self.session}.c{self.calls}", unit, attempt, bound, role=role)
            self.waiting.append(reserved)
            self.add(reserved)

    def _settle(self) -> None:
        if not self.waiting:
            return
        call = self.waiting.pop(self.random.randrange(len(self.waiting)))
        way = self.random.randrange(5)
        if way == 0:
            self.add(BudgetReleased(call.call, "refused"))
        elif way == 1:
            self.doubts.append(call.call)
            self.add(SpendInDoubt(call.call, "lost", call.bound_nano_usd, 30))
        else:
            cost = None if call.bound_nano_usd is None else self.random.randrange(100)
            self.add(spent(call.call, cost), answered(call.call))

    def _correct(self) -> None:
        if self.doubts:
            self.add(SpendCorrected(self.random.choice(self.doubts), self.random.randrange(50), "an invoice"))

    # Work.

    def _work(self) -> None:
        if self.judging:
            self._judge()
        elif self.open and self.random.random() < 0.8:
            self._end_rollout()
        elif self.phase == "between":
            self.random.choice([self._next_step, self._next_step, self._evaluate, self._end])()
        elif self.phase == "rollouts":
            self._next_rollout() or self._learn_or_skip()
        elif self.phase == "learning":
            self.random.choice([self._trial, self._return, self._return])()
        elif self.phase == "evaluating":
            self._next_attempt()

    def _next_step(self) -> None:
        done = self.step % 3
        if done == 0:
            self.start_epoch(*self.random.sample(TASKS, 6))
            self.order = list(self.commits[-1][0].tasks)
        self.start_step(*self.order[2 * done : 2 * done + 2])
        self.phase, self.attempt = "rollouts", 0

    def _begin(self, unit: str, task: str, *, carried: bool = False) -> None:
        if not carried:
            self.attempts[unit] = self.attempts.get(unit, 0) + 1
        self.open[unit] = task
        self.add(RolloutStarted(unit, self.attempts[unit], task, self.head, carried))

    def _next_rollout(self) -> bool:
        for task in self.tasks:
            unit = rollout_unit(self.step, task)
            if unit not in self.ended and unit not in self.open:
                self._begin(unit, task)
                return True
        return bool(self.open)

    def _end_rollout(self) -> None:
        unit = self.random.choice(list(self.open))
        task = self.open.pop(unit)
        status = self.random.choice(["ok", "ok", "ok", "error", "timeout"])
        self.add(*rolled_out(unit, self.attempts[unit], task, status))
        if status == "ok":
            self.judging[unit] = task
        elif self.attempts[unit] > RETRIES:
            self.ended.add(unit)
            if unit.startswith("eval:"):
                self._judged_attempt(unit, task, None)

    def _judge(self) -> None:
        unit = self.random.choice(list(self.judging))
        task = self.judging.pop(unit)
        self.ended.add(unit)
        score = self.random.choice([None, 0.0, 0.25, 1.0])
        if unit.startswith("eval:"):
            self._judged_attempt(unit, task, score)
        else:
            error = None if score is not None else "no number"
            self.add(RolloutJudged(unit, self.attempts[unit], score, "hm", None, error, 2))

    def _learn_or_skip(self) -> None:
        if self.random.random() < 0.2:
            self.skip()
            self.phase = "between"
            return
        self.attempt = 1
        self.start_learner()
        self.phase = "learning"

    def _trial(self) -> None:
        number = sum(unit.startswith(f"{self.learner}/") for unit in self.attempts) + 1
        self._begin(trial_unit(self.learner, "0a1b2c", self.tasks[0], number), self.tasks[0])

    def _return(self) -> None:
        if self.open:
            return
        status = self.random.choice(["done", "done", "failed", "out_of_budget"])
        word = self.random.randrange(3)
        self.candidate = self.files | {"ADAPTER.md": b"word %d\n" % word}
        self.state = {"memory.json": b"%d" % self.random.randrange(9)}
        self.add(
            *stored(*self.candidate.values(), *self.state.values()),
            EvolverReturned(
                self.learner, self.attempt, "step", self.step, status, "a word", "", None, [], None, None, 7,
                entries(self.candidate), entries(self.state), [],
            ),
        )  # fmt: skip
        self.commit(status=status, repaired=self.random.random() < 0.3, tags=(f"ckpt-step-{self.step}",))
        self.phase = "between"

    def _learner_call(self, call: str) -> None:
        unit = learner_unit(call, 0)
        attempt = self.attempts[unit] = self.attempts.get(unit, 0) + 1
        self.add(EvolverStarted(unit, attempt, call, 0))
        self.add(
            EvolverReturned(
                unit, attempt, call, 0, "done", "", "", None, [], None, None, 1, None, [], []
            )
        )  # fmt: skip

    def _end(self) -> None:
        self._learner_call("finalize")
        self.finish()
        if self.random.random() < 0.3:
            self.add(RunFinished({}))

    def _evaluate(self) -> None:
        self.evaluation = 1 + sum(
            commit[0].__class__.__name__ == "EvaluationStarted" for commit in self.commits
        )
        selector = self.random.choice(["final", "root"])
        self.start_evaluation(self.evaluation, "x", "y", selector=selector, repeats=2)
        self.left = [
            evaluation_unit(selector, self.evaluation, task, repeat) for repeat in (1, 2) for task in "xy"
        ]
        self.phase = "evaluating"

    def _next_attempt(self) -> None:
        for unit in self.left:
            if unit not in self.ended and unit not in self.open:
                self._begin(unit, unit.rpartition("task:")[2].partition(".")[0])
                return
        if not self.open:
            self.end_evaluation(self.evaluation)
            self.phase = "between"

    def _judged_attempt(self, unit: str, task: str, score: float | None) -> None:
        repeat, error = int(unit.rpartition(".")[2]), None if score is not None else "nothing to score"
        number = int(unit.split("/")[1])
        self.add(
            EvaluationAttemptJudged(
                number, repeat, task, unit, self.attempts[unit], score, None, None, error
            )
        )  # fmt: skip

    # Sessions.

    def _die(self) -> None:
        """The process dies, or ends in order, and another goes on: what was open goes on under its number."""
        if self.random.random() < 0.5:
            self.add(SessionClosed(self.session, "interrupted", None, 5))
        self.session += 1
        doubts = [SpendInDoubt(one.call, "the session ended", one.bound_nano_usd, 30) for one in self.waiting]
        self.doubts += [one.call for one in self.waiting]
        self.waiting.clear()
        self.add(SessionOpened(self.session, self.session, "host", "0"), *doubts)
        for unit, task in list(self.open.items()):
            self._begin(unit, task, carried=self.random.random() < 0.8)
        if self.phase == "learning":
            carried = self.random.random() < 0.8
            self.attempt += not carried
            self.start_learner(self.attempt, carried=carried)

    def _change(self) -> None:
        self.add(SettingsChanged({"trainer.epochs": (2, self.random.randrange(2, 9))}, None))
        if self.open and self.random.random() < 0.2:
            unit = next(iter(self.open))
            self.add(AttemptSuperseded(unit, self.attempts[unit], "the request differs"))
            self._begin(unit, self.open[unit])
