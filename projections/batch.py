"""The fold of a batch run: what was planned, which attempts are open, and how each unit ended."""

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from eventlog.errors import MalformedEvent
from eventlog.events import (
    TRAINING_EVENTS,
    AttemptSuperseded,
    BudgetChanged,
    BudgetExhausted,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PlannedRow,
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    PromptsWithdrawn,
    Recorded,
    RowsSkipped,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    SettingsChanged,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryImported,
    TrajectoryJudged,
    TrajectoryRestored,
)

from .conversation import Attempt
from .counts import offered, unknown_calls
from .exhaustive import require_answers
from .open_attempts import OpenAttempts
from .own_fields import OwnFields
from .packed_index import CONTENT_BYTES
from .run_facts import RunFacts
from .tally import Tally
from .templates import PLAIN
from .unit_rows import Unit
from .unit_table import UnitTable
from .units import DISCARDED, ENDED, FAILED, KEPT, OPEN, OUTCOMES, PENDING, WITHDRAWN

_Boundary = TrajectoryCompleted | TrajectoryDiscarded | TrajectoryImported | PromptFailed


_HAVE_REASONS = frozenset({DISCARDED, FAILED})


class BatchState(RunFacts):
    """All there is to know about a batch run, but for its money, which is the ledger's.

    `units` are in the order of planning; `open` holds the attempts that have begun and not ended. `counts`
    are by outcome, and ``total`` is all of them but the withdrawn. `complete_batches` is how many `batches`
    there were when the plan was complete last. `own_fields` says what the rows bring along. `kept` sums up
    the kept trajectories. `filtered_by_reason` and `failed_by_class` count units. `settled` is what the
    newest attempts cost, by the outcome of their units. `superseded_attempts` counts the attempts that no
    longer stand for their unit; what they cost is in `superseded_nano_usd`. `other_nano_usd` is what calls
    cost that belong to no planned unit. `unexplained` counts events that do not fit what was recorded before
    them; they change nothing, and the audit shows them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.plan_complete = False
        self.batches = 0
        self.complete_batches = 0
        self.rows_skipped = 0
        self.units = UnitTable()
        self.open = OpenAttempts()
        self.counts: dict[str, int] = {"total": 0, **dict.fromkeys(OUTCOMES, 0)}
        self.own_fields = OwnFields()
        self.kept = Tally()
        self.filtered_by_reason: Counter[str] = Counter()
        self.failed_by_class: Counter[str] = Counter()
        self.settled = dict.fromkeys((KEPT, DISCARDED, FAILED, OPEN), 0)
        self.superseded_attempts = 0
        self.superseded_nano_usd = 0
        self.other_nano_usd = 0
        self.unexplained = 0

    def apply(self, record: Recorded) -> None:
        """Fold one record. Records come in the order of the log, each once.

        Raises:
            MalformedEvent: it has a number that no run can have.
        """
        self.see(record)
        handler = self._HANDLERS.get(type(record.event))
        if handler is not None:
            try:
                handler(self, record, record.event)
            except OverflowError as error:
                raise self._beyond(record.event) from error

    def book(self, unit: str, attempt: int, settled_nano_usd: int, event: Event) -> None:
        """The money of a call moved: give it to the unit, and to the attempt if that is still open.

        `settled_nano_usd` is what `event` adds to the settled sum (negative when a correction lowers it).
        """
        try:
            if settled_nano_usd:
                self._book_unit(unit, attempt, settled_nano_usd)
        except OverflowError as error:
            raise self._beyond(event) from error
        self.open.book(unit, attempt, settled_nano_usd, event)

    def _beyond(self, event: Event) -> MalformedEvent:
        return MalformedEvent(
            f"sequence {self.sequence}, {type(event).__name__}: a number in it, or a sum that it adds to, is "
            "negative or has more than 64 bits; no evrun writes that"
        )

    def _book_unit(self, name: str, attempt: int, settled_nano_usd: int) -> None:
        unit = self.units.get(name)
        if unit is None:
            self.other_nano_usd += settled_nano_usd
        elif attempt == unit.attempt and (outcome := unit.outcome) in self.settled:
            unit.settled_nano_usd += settled_nano_usd
            self.settled[outcome] += settled_nano_usd
        else:
            self.superseded_nano_usd += settled_nano_usd
            unit.earlier_nano_usd += settled_nano_usd

    # The plan.

    def _prompts_planned(self, record: Recorded, event: PromptsPlanned) -> None:
        for position, row in enumerate(event.rows):
            self._plan(record.sequence, position, row)
        self.plan_complete = event.complete
        if event.complete:
            self.complete_batches = self.batches
        if event.rows or not event.complete:
            self.finished_ns = None

    def _plan(self, sequence: int, position: int, row: PlannedRow) -> None:
        if len(row.content) != CONTENT_BYTES:
            raise MalformedEvent(
                f"sequence {sequence}, row {position}: expected a content id of {CONTENT_BYTES} bytes, "
                f"found {len(row.content)}"
            )
        self.own_fields.add(row.row, str(self.settings.get("template") or PLAIN))
        for sample in range(row.first_sample, row.first_sample + row.samples):
            before = len(self.units)
            unit = self.units.add(
                row.content, row.occurrence, sample,
                index=row.index, batch=row.batch, planned=sequence, position=position,
            )  # fmt: skip
            if len(self.units) > before:
                self.batches = max(self.batches, row.batch)
                self.counts[PENDING] += 1
                self.counts["total"] += 1
            elif unit.gone:
                # The row came back: it keeps its place, and its outcome if it had ended.
                unit.gone = False
                if unit.outcome == WITHDRAWN:
                    self._move(unit, PENDING)
            else:
                self.unexplained += 1

    def _rows_skipped(self, _: Recorded, event: RowsSkipped) -> None:
        self.rows_skipped += len(event.lines)

    def _prompts_withdrawn(self, _: Recorded, event: PromptsWithdrawn) -> None:
        for name in event.units:
            unit = self.units.get(name)
            if unit is None:
                self.unexplained += 1
                continue
            unit.gone = True
            if unit.outcome not in ENDED and unit.outcome != WITHDRAWN:
                if unit.outcome == OPEN:
                    self._give_up(name, unit)
                self._move(unit, WITHDRAWN)

    # Attempts.

    def _prompt_started(self, record: Recorded, event: PromptStarted) -> None:
        unit = self.units.get(event.unit)
        outcome = WITHDRAWN if unit is None else unit.outcome
        if unit is None or outcome in {KEPT, WITHDRAWN}:
            self.unexplained += 1
            return
        if outcome != PENDING:
            self._give_up(event.unit, unit)
        self._move(unit, OPEN)
        unit.begin(event.attempt)
        self.open.begin(Attempt.start(event, record.time_ns, record.session))
        self.finished_ns = None

    def _attempt_superseded(self, _: Recorded, event: AttemptSuperseded) -> None:
        unit = self.units.get(event.unit)
        if unit is None or unit.outcome != OPEN or unit.attempt != event.attempt:
            self.unexplained += 1
            return
        self._give_up(event.unit, unit)
        self._move(unit, PENDING)

    def _give_up(self, name: str, unit: Unit) -> None:
        """The unit's newest attempt no longer stands for it; what it cost is superseded."""
        self.open.close(name)
        self.superseded_attempts += 1
        settled = unit.settled_nano_usd
        self.superseded_nano_usd += settled
        self.settled[unit.outcome] -= settled
        unit.earlier_nano_usd += settled
        unit.settled_nano_usd = 0

    def _reserved(self, _: Recorded, event: BudgetReserved) -> None:
        self.open.reserved(event)

    def _asked(self, _: Recorded, event: ModelAsked) -> None:
        self.open.asked(event)

    def _answered(self, _: Recorded, event: ModelAnswered) -> None:
        self.open.answered(event)

    def _call_failed(self, _: Recorded, event: ModelCallFailed) -> None:
        self.open.call_failed(event)

    def _tool_started(self, _: Recorded, event: ToolStarted) -> None:
        self.open.tool_started(event)

    def _tool_finished(self, _: Recorded, event: ToolFinished) -> None:
        self.open.tool_finished(event)

    # Boundaries, and the score that comes with one.

    def _judged(self, _: Recorded, event: TrajectoryJudged) -> None:
        attempt, unit = self.open.get(event.unit), self.units.get(event.unit)
        if attempt is None or unit is None or attempt.attempt != event.attempt:
            self.unexplained += 1
            return
        attempt.judged(event)
        unit.score = event.score

    def _completed(self, record: Recorded, event: TrajectoryCompleted) -> None:
        self._note_unknown(event)
        if self._ended(record, event, KEPT, None):
            self.kept.add(event.counts)

    def _discarded(self, record: Recorded, event: TrajectoryDiscarded) -> None:
        self._note_unknown(event)
        self._ended(record, event, DISCARDED, event.reason)

    def _note_unknown(self, event: TrajectoryCompleted | TrajectoryDiscarded) -> None:
        attempt = self.open.get(event.unit) if event.counts.tools else None
        if attempt is not None and unknown_calls(
            attempt, event.counts, offered(attempt.toolsets, self.toolsets)
        ):
            unit = self.units.get(event.unit)
            if unit is not None:
                unit.unknown_tools = True

    def _failed(self, record: Recorded, event: PromptFailed) -> None:
        self._ended(record, event, FAILED, event.error_class)

    def _imported(self, record: Recorded, event: TrajectoryImported) -> None:
        if event.outcome not in ENDED:
            self.unexplained += 1
        elif self._ended(record, event, event.outcome, event.reason):
            self.tools |= event.counts.tools.keys()
            if event.outcome == KEPT:
                self.kept.add(event.counts)

    def _ended(self, record: Recorded, event: _Boundary, outcome: str, reason: str | None) -> bool:
        unit = self.units.get(event.unit)
        if unit is None or not unit.may_end(event.attempt):
            self.unexplained += 1
            return False
        self.open.close(event.unit)
        if unit.outcome == PENDING:
            unit.attempt = event.attempt
        self._move(unit, outcome, reason)
        unit.boundary = record.sequence
        return True

    def _restored(self, _: Recorded, event: TrajectoryRestored) -> None:
        unit = self.units.get(event.unit)
        if unit is None or unit.outcome not in {KEPT, DISCARDED}:
            self.unexplained += 1
            return
        # What a finished run counted is true no longer.
        self.finished_ns = None
        was_kept = unit.outcome == KEPT
        self._move(unit, KEPT if event.kept else DISCARDED, event.reason)
        if was_kept != event.kept:
            self.kept.add(event.counts, 1 if event.kept else -1)

    def _move(self, unit: Unit, outcome: str, reason: str | None = None) -> None:
        """The unit has another outcome now; the counts follow."""
        before, settled = unit.outcome, unit.settled_nano_usd
        self.counts[before] -= 1
        self.counts[outcome] += 1
        if settled:
            self.settled[before] -= settled
            self.settled[outcome] += settled
        if before in _HAVE_REASONS:
            self._reasons(before)[unit.reason or ""] -= 1
        if outcome in _HAVE_REASONS:
            self._reasons(outcome)[reason or ""] += 1
        if before == WITHDRAWN or outcome == WITHDRAWN:  # noqa: PLR1714 (this is the hot path)
            self.counts["total"] += (before == WITHDRAWN) - (outcome == WITHDRAWN)
        unit.move(outcome, reason if outcome in _HAVE_REASONS else None)

    def _reasons(self, outcome: str) -> Counter[str]:
        return self.filtered_by_reason if outcome == DISCARDED else self.failed_by_class

    _HANDLERS: ClassVar[dict[type[Event], Callable[[Any, Recorded, Any], None]]] = {
        RunStarted: RunFacts.run_started,
        SettingsChanged: RunFacts.settings_changed,
        SessionOpened: RunFacts.session_opened,
        SessionClosed: RunFacts.session_closed,
        RunFinished: RunFacts.run_finished,
        PromptsPlanned: _prompts_planned,
        RowsSkipped: _rows_skipped,
        PromptsWithdrawn: _prompts_withdrawn,
        PromptStarted: _prompt_started,
        AttemptSuperseded: _attempt_superseded,
        ModelAsked: _asked,
        BudgetReserved: _reserved,
        ModelAnswered: _answered,
        ModelCallFailed: _call_failed,
        ToolStarted: _tool_started,
        ToolFinished: _tool_finished,
        TrajectoryCompleted: _completed,
        TrajectoryDiscarded: _discarded,
        TrajectoryJudged: _judged,
        TrajectoryRestored: _restored,
        TrajectoryImported: _imported,
        PromptFailed: _failed,
        BudgetExhausted: RunFacts.budget_exhausted,
    }

    # Whose money moved is the ledger's to say: it comes in through `book`.
    _IGNORED: ClassVar = require_answers(
        "BatchState",
        _HANDLERS,
        [BudgetSpent, BudgetReleased, SpendInDoubt, SpendCorrected, BudgetChanged, *TRAINING_EVENTS],
    )
