"""What a worker knows of the run: the attempts that it works on, folded from what is durable."""

from collections.abc import Callable
from typing import Any

from eventlog.events import (
    AttemptSuperseded,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PromptFailed,
    PromptStarted,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryJudged,
)
from projections import Attempt, OpenAttempts, RunState


class WorkerState(RunState):
    """The state of a run as a session sees it: nothing but attempts that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = OpenAttempts()
        self._calls: dict[str, tuple[str, int]] = {}
        self._ended: set[str] = set()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            BudgetReserved: self._reserved,
            BudgetSpent: self._settled,
            SpendInDoubt: self._settled,
            BudgetReleased: self._settled,
            ModelAsked: self.attempts.asked,
            ModelAnswered: self.attempts.answered,
            ModelCallFailed: self.attempts.call_failed,
            ToolStarted: self.attempts.tool_started,
            ToolFinished: self.attempts.tool_finished,
            TrajectoryJudged: self._judged,
            AttemptSuperseded: self._superseded,
            TrajectoryCompleted: self._end,
            TrajectoryDiscarded: self._end,
            PromptFailed: self._end,
        }

    def open_attempt(self, unit: str) -> Attempt:
        """As `RunState.open_attempt`."""
        return self.attempts[unit]

    def begin(self, attempt: Attempt) -> None:
        """An attempt is worked on, from where it stands."""
        self._ended.discard(attempt.unit)
        self.attempts.begin(attempt)

    def fold(self, event: Event) -> None:
        """An event of one of the attempts is durable."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def take_ended(self, unit: str) -> bool:
        """Whether the attempt at a unit has its boundary; asked once."""
        ended = unit in self._ended
        self._ended.discard(unit)
        return ended

    def _end(self, event: TrajectoryCompleted | TrajectoryDiscarded | PromptFailed) -> None:
        """It stays open here until its session is over: more may be asked of it."""
        self._ended.add(event.unit)

    def _reserved(self, event: BudgetReserved) -> None:
        self._calls[event.call] = event.unit, event.attempt
        self.attempts.reserved(event)

    def _settled(self, event: BudgetSpent | SpendInDoubt | BudgetReleased) -> None:
        cost = event.cost_nano_usd if isinstance(event, BudgetSpent) else None
        self.attempts.book(*self._calls.pop(event.call), cost or 0, event)

    def _judged(self, event: TrajectoryJudged) -> None:
        self.attempts[event.unit].judged(event)

    def _superseded(self, event: AttemptSuperseded) -> None:
        """Whoever works on it begins again."""
        attempt = self.attempts[event.unit]
        started = PromptStarted(attempt.unit, attempt.attempt + 1, attempt.toolsets, attempt.settings)
        self.attempts.begin(Attempt.start(started, 0, attempt.session))
