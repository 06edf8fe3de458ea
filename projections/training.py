"""The fold of a training run: steps done, the step that is open, the adapter and the learner's state now."""

from collections.abc import Callable
from typing import Any, ClassVar

from eventlog.events import (
    AttemptSuperseded,
    BlobStored,
    BudgetChanged,
    BudgetExhausted,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    CandidateChecked,
    CandidateRepaired,
    EpochStarted,
    EvaluationAttemptJudged,
    EvaluationFinished,
    EvaluationStarted,
    Event,
    EvolverReturned,
    EvolverStarted,
    FileEntry,
    FinalSelected,
    HistoryStored,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    PromptsWithdrawn,
    Recorded,
    RolloutFinished,
    RolloutJudged,
    RolloutStarted,
    RowsSkipped,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    SettingsChanged,
    SpendCorrected,
    SpendInDoubt,
    StepCommitted,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryImported,
    TrajectoryJudged,
    TrajectoryRestored,
)

from .conversation import Attempt
from .exhaustive import require_answers
from .open_attempts import OpenAttempts
from .spend import Booking, Ledger
from .training_facts import (
    AGENT_SETTINGS,
    SUPERSEDED,
    BudgetAfter,
    Evaluation,
    GroupMoney,
    Measured,
    OpenStep,
    Rollout,
    StepRecord,
    pays_elsewhere,
)
from .training_records import budget_after, rollout_summary, step_record
from .training_units import adapter_digest, group_of, judge_unit, judged_unit, rollout_unit, trial_of

RUN_NAME = "trainer.run_name"
"""The setting by which a run is called; one that was put aside for another is called otherwise."""
INPUT = "input:"
"""How a changed input is named among changed settings: ``input:data.train``, with digests before and now."""


class TrainingState:
    """All there is to know about a training run, but for its money in sum, which is the ledger's.

    `name` is how it is called now, which its branch and its tags follow.
    `blobs` says where contents are: the sequence of a `BlobStored` by digest. `history` are the sequences of
    `HistoryStored`. `head` is the commit that the branch stands at, `files` its files, `start` where the run
    began; `root` and `root_files` are the template's. `state_files` and `session` are the learner's, as of
    its last call that counts. `steps` are the committed ones (0: the bootstrap), `current` the open one.
    `calls` holds the learner's ended calls outside steps, by name: (sequence, status). `rollouts` are by
    unit: those of the open step, of its learner, and of open evaluations. `trials` are the newest scores that
    learners saw, by the candidate's digest and task; `adapters` the digests of the adapters by commit.
    `money` is by part of the run (`group_of`). `inputs` are digests in hex by name. `told` is the sequence of
    the newest event that said how the run is set up. `final_budget` is the account when the final adapter
    was chosen. `unexplained` counts events that do not fit.
    """

    def __init__(self) -> None:
        self.name = ""
        self.blobs: dict[bytes, int] = {}
        self.history: list[int] = []
        self.history_complete = False
        self.head = self.start = ""
        self.files: list[FileEntry] = []
        self.root = ""
        self.root_files: list[FileEntry] = []
        self.state_files: list[FileEntry] = []
        self.session: str | None = None
        self.epochs: dict[int, list[str]] = {}
        self.steps: list[StepRecord] = []
        self.current: OpenStep | None = None
        self.calls: dict[str, tuple[int, str]] = {}
        self.call_attempts: dict[str, int] = {}
        self.call_money: dict[str, int] = {}
        self.rollouts: dict[str, Rollout] = {}
        self.adapters: dict[str, str] = {}
        self.trials: dict[str, dict[str, float]] = {}
        self.rollouts_ok = 0
        self.rollouts_error = 0
        self.open = OpenAttempts()
        self.money: dict[str, GroupMoney] = {}
        self.final: FinalSelected | None = None
        self.final_ns = 0
        self.final_sequence = 0
        self.final_budget: BudgetAfter | None = None
        self.told = 0
        self.evaluations: dict[int, Evaluation] = {}
        self.inputs: dict[str, str] = {}
        self.agent: dict[str, Any] = dict.fromkeys(AGENT_SETTINGS)
        self.unexplained = 0

    def apply(self, record: Recorded, ledger: Ledger) -> None:
        """Fold one record, which `ledger` has seen. Records come in the order of the log, each once."""
        event = record.event
        if isinstance(event, StepCommitted):
            self._step_committed(record, event, ledger)
        elif isinstance(event, FinalSelected):
            self._final_selected(record, event, ledger)
        elif (of_call := self._CALLS.get(type(event))) is not None:
            of_call(self.open, event)
        elif (handler := self._HANDLERS.get(type(event))) is not None:
            handler(self, record, event)

    def book(self, booking: Booking, event: Event) -> None:
        """The money of a call moved."""
        call, settled = booking
        unit = judged_unit(call.unit)
        group = self.money.setdefault(group_of(unit), GroupMoney())
        group.settled_nano_usd += settled
        rollout = self.rollouts.get(unit)
        if rollout is not None:
            group.superseded_nano_usd += rollout.book(call, settled, event)
        if unit in self.call_attempts:
            if call.attempt == self.call_attempts[unit]:
                self.call_money[unit] = self.call_money.get(unit, 0) + settled
            else:
                group.superseded_nano_usd += settled
        self.open.book(call.unit, call.attempt, settled, event)

    @property
    def next_step(self) -> int:
        """The number of the step that comes after the committed ones."""
        return self.steps[-1].step + 1 if self.steps else 1

    @property
    def bootstrapped(self) -> bool:
        """Whether step 0 was committed."""
        return bool(self.steps) and self.steps[0].step == 0

    @property
    def standing_final(self) -> FinalSelected | None:
        """The final adapter, if no step was committed after it was chosen."""
        newest = self.steps[-1].sequence if self.steps else 0
        return self.final if self.final_sequence > newest else None

    # Contents and the starting point.

    def _run_started(self, record: Recorded, event: RunStarted) -> None:
        self.told, self.name = record.sequence, event.run
        self.agent = {name: event.settings.get(name) for name in AGENT_SETTINGS}
        self.inputs = {one.name: one.sha256 for one in event.inputs}

    def _settings_changed(self, record: Recorded, event: SettingsChanged) -> None:
        self.told = record.sequence
        self.agent |= {name: now for name, (_, now) in event.changes.items() if name in self.agent}
        for name, (_before, now) in event.changes.items():
            if name == RUN_NAME:
                self.name = str(now)
            if name.startswith(INPUT):
                self.inputs[name.removeprefix(INPUT)] = str(now)

    def _blob_stored(self, record: Recorded, event: BlobStored) -> None:
        self.blobs.setdefault(event.digest, record.sequence)

    def _history_stored(self, record: Recorded, event: HistoryStored) -> None:
        self.history.append(record.sequence)
        if event.complete:
            self.history_complete, self.told = True, record.sequence
            self.head, self.start, self.root = event.head, event.head, event.root
            self.files, self.root_files = event.files, event.root_files
            self.adapters[event.head] = adapter_digest(event.files)

    # Steps and their rollouts.

    def _epoch_started(self, _: Recorded, event: EpochStarted) -> None:
        self.epochs[event.epoch] = event.tasks

    def _step_started(self, record: Recorded, event: StepStarted) -> None:
        if self.current is not None:
            self.unexplained += 1
            return
        rollouts = {task: Rollout(rollout_unit(event.step, task), task) for task in event.tasks}
        self.rollouts |= {rollout.unit: rollout for rollout in rollouts.values()}
        self.current = OpenStep(
            event.step, event.epoch, event.tasks, event.parent, record.time_ns, rollouts,
            began=record.sequence,
        )  # fmt: skip

    def _rollout_started(self, record: Recorded, event: RolloutStarted) -> None:
        rollout = self.rollouts.get(event.unit)
        if rollout is None:
            rollout = self.rollouts[event.unit] = Rollout(event.unit, event.task)
        if event.carried and rollout.attempt == event.attempt and event.unit in self.open:
            return
        rollout.superseded_nano_usd += rollout.settled_nano_usd
        if rollout.settled_nano_usd:
            group = self.money.setdefault(group_of(event.unit), GroupMoney())
            group.superseded_nano_usd += rollout.settled_nano_usd
        rollout.settled_nano_usd, rollout.heard = 0, False
        rollout.attempt, rollout.status, rollout.finished, rollout.judged = event.attempt, None, 0, 0
        self._begin(record, event.unit, event.attempt)

    def _rollout_finished(self, record: Recorded, event: RolloutFinished) -> None:
        rollout = self.rollouts.get(event.unit)
        if rollout is None or rollout.attempt != event.attempt or rollout.finished:
            self.unexplained += 1
            return
        self.open.close(event.unit)
        rollout.status, rollout.finished, rollout.wall_ms = event.status, record.sequence, event.wall_ms
        rollout.unknown_cost |= (
            event.cost_nano_usd is None and not rollout.heard and pays_elsewhere(self.agent)
        )
        if event.status == "ok":
            self.rollouts_ok += 1
            self._begin(record, judge_unit(event.unit), event.attempt)
        else:
            failed = event.error_class != SUPERSEDED
            self.rollouts_error += failed
            rollout.failures += failed
        self._rolled_out(record, rollout)

    def _judged(self, record: Recorded, event: RolloutJudged | EvaluationAttemptJudged) -> None:
        rollout = self.rollouts.get(event.unit)
        if rollout is None or rollout.attempt != event.attempt or rollout.judged:
            self.unexplained += 1
            return
        self.open.close(judge_unit(event.unit))
        rollout.judged, rollout.score, rollout.judge_error = record.sequence, event.score, event.error
        trial = trial_of(event.unit, rollout.task)
        if trial is not None and event.score is not None:
            self.trials.setdefault(trial.candidate, {})[trial.task] = event.score
        self._rolled_out(record, rollout)

    def _rolled_out(self, record: Recorded, rollout: Rollout) -> None:
        current = self.current
        if current is not None and current.rollouts.get(rollout.task) is rollout:
            current.rolled_out_ns = record.time_ns

    def _begin(self, record: Recorded, unit: str, attempt: int) -> None:
        self.open.begin(Attempt(unit, attempt, record.time_ns, record.session, [], b""))

    # The learner.

    def _evolver_started(self, record: Recorded, event: EvolverStarted) -> None:
        if self.call_attempts.get(event.unit) != event.attempt:
            before = self.call_money.pop(event.unit, 0)
            if before:
                self.money[group_of(event.unit)].superseded_nano_usd += before
        self.call_attempts[event.unit] = event.attempt
        if event.call == "bootstrap" and self.current is None:
            self.current = OpenStep(0, 0, [], self.head, record.time_ns, {}, began=record.sequence)
        if self.current is not None and event.call in {"bootstrap", "step"}:
            self.current.learner_attempt = event.attempt
            if self.current.measured is None:
                self.current.measured = rollout_summary(self.current)
        known = self.open.get(event.unit)
        if known is None or known.attempt != event.attempt:
            self._begin(record, event.unit, event.attempt)

    def _evolver_returned(self, record: Recorded, event: EvolverReturned) -> None:
        self.open.close(event.unit)
        if event.call in {"setup", "finalize"}:
            self.calls[event.call] = (record.sequence, event.status)
            if event.state is not None:
                self.state_files = event.state
            if event.call == "setup":
                self.session = event.session
            return
        if self.current is None or self.current.step != event.step:
            self.unexplained += 1
            return
        self.current.returned, self.current.returned_sequence = event, record.sequence

    def _candidate_checked(self, _: Recorded, event: CandidateChecked) -> None:
        if self.current is None or self.current.step != event.step:
            self.unexplained += 1
            return
        self.current.checks.append(event)

    def _candidate_repaired(self, _: Recorded, event: CandidateRepaired) -> None:
        if self.current is None or self.current.step != event.step:
            self.unexplained += 1
            return
        self.current.repairs.append(event)

    def _step_committed(self, record: Recorded, event: StepCommitted, ledger: Ledger) -> None:
        current = self.current
        if current is None or current.step != event.step:
            self.unexplained += 1
            return
        self.steps.append(step_record(record, event, current, budget_after(ledger, event.active_ns)))
        if event.commits:
            self.head, self.files = event.commits[-1].sha, event.commits[-1].files
            self.adapters[self.head] = adapter_digest(self.files)
        self.state_files, self.session = event.state, event.session
        own = f"step:{event.step}/"
        self.rollouts = {name: one for name, one in self.rollouts.items() if not name.startswith(own)}
        for name in [name for name in self.open if name.startswith(own)]:
            self.open.close(name)
        self.current = None

    # The end, and evaluations.

    def _final_selected(self, record: Recorded, event: FinalSelected, ledger: Ledger) -> None:
        self.final, self.final_ns, self.final_sequence = event, record.time_ns, record.sequence
        self.final_budget = budget_after(ledger, self.steps[-1].budget.active_ns if self.steps else 0)

    def _evaluation_started(self, record: Recorded, event: EvaluationStarted) -> None:
        self.evaluations[event.number] = Evaluation(
            event.number, event.selector, event.commit, event.files, event.tasks, event.repeats,
            record.time_ns, {},
        )  # fmt: skip

    def _evaluation_judged(self, record: Recorded, event: EvaluationAttemptJudged) -> None:
        evaluation, rollout = self.evaluations.get(event.number), self.rollouts.get(event.unit)
        self._judged(record, event)
        if evaluation is None or rollout is None:
            self.unexplained += evaluation is None
            return
        if (event.repeat, event.task) not in evaluation.rollouts:
            evaluation.attempts.append((event.repeat, event.task, Measured.of(rollout)))
        evaluation.rollouts[event.repeat, event.task] = rollout

    def _evaluation_finished(self, record: Recorded, event: EvaluationFinished) -> None:
        evaluation = self.evaluations.get(event.number)
        if evaluation is None:
            self.unexplained += 1
            return
        evaluation.finished_ns = record.time_ns
        for rollout in evaluation.rollouts.values():
            self.rollouts.pop(rollout.unit, None)

    _CALLS: ClassVar[dict[type[Event], Callable[[OpenAttempts, Any], None]]] = {
        BudgetReserved: OpenAttempts.reserved,
        ModelAsked: OpenAttempts.asked,
        ModelAnswered: OpenAttempts.answered,
        ModelCallFailed: OpenAttempts.call_failed,
        ToolStarted: OpenAttempts.tool_started,
        ToolFinished: OpenAttempts.tool_finished,
    }
    _HANDLERS: ClassVar[dict[type[Event], Callable[[Any, Recorded, Any], None]]] = {
        RunStarted: _run_started,
        SettingsChanged: _settings_changed,
        BlobStored: _blob_stored,
        HistoryStored: _history_stored,
        EpochStarted: _epoch_started,
        StepStarted: _step_started,
        RolloutStarted: _rollout_started,
        RolloutFinished: _rollout_finished,
        RolloutJudged: _judged,
        EvolverStarted: _evolver_started,
        EvolverReturned: _evolver_returned,
        CandidateChecked: _candidate_checked,
        CandidateRepaired: _candidate_repaired,
        EvaluationStarted: _evaluation_started,
        EvaluationAttemptJudged: _evaluation_judged,
        EvaluationFinished: _evaluation_finished,
    }

    # Sessions and the run's facts are `RunFacts`; whose money moved comes in through `book`.
    _IGNORED: ClassVar = require_answers(
        "TrainingState",
        [*_HANDLERS, *_CALLS, FinalSelected, StepCommitted],
        [
            AttemptSuperseded, BudgetChanged, BudgetExhausted, BudgetReleased, BudgetSpent, PromptFailed,
            PromptStarted, PromptsPlanned, PromptsWithdrawn, RowsSkipped, RunFinished, SessionClosed,
            SessionOpened, SpendCorrected, SpendInDoubt, TrajectoryCompleted, TrajectoryDiscarded,
            TrajectoryImported, TrajectoryJudged, TrajectoryRestored,
        ],
    )  # fmt: skip
