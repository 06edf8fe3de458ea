"""The attempts that have begun and not ended, and which call belongs to which of them."""

from collections.abc import Iterable, Iterator
from typing import Self

from eventlog.events import (
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
)

from .conversation import Attempt


class OpenAttempts:
    """Open attempts by their unit, fed with the events that are about them; others change nothing."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}
        # call id -> unit, from its reservation until it is answered or failed.
        self._calls: dict[str, str] = {}

    @classmethod
    def of(cls, attempts: Iterable[Attempt], calls: dict[str, str]) -> Self:
        """These attempts, oldest first, and these `calls`."""
        made = cls()
        made._attempts = {attempt.unit: attempt for attempt in attempts}
        made._calls = calls
        return made

    @property
    def calls(self) -> dict[str, str]:
        """The calls that wait for an answer, each with its unit."""
        return dict(self._calls)

    def __getitem__(self, unit: str) -> Attempt:
        return self._attempts[unit]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attempts)

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, unit: object) -> bool:
        return unit in self._attempts

    def get(self, unit: str) -> Attempt | None:
        """The open attempt at a unit, null if there is none."""
        return self._attempts.get(unit)

    def values(self) -> list[Attempt]:
        """All of them, oldest first."""
        return list(self._attempts.values())

    def items(self) -> list[tuple[str, Attempt]]:
        """Each with its unit, oldest first."""
        return list(self._attempts.items())

    def begin(self, attempt: Attempt) -> None:
        """An attempt began; one that is open at the same unit is over."""
        self.close(attempt.unit)
        self._attempts[attempt.unit] = attempt

    def close(self, unit: str) -> Attempt | None:
        """An attempt ended: gives it back, null if none was open."""
        attempt = self._attempts.pop(unit, None)
        for call in () if attempt is None else attempt.open_calls:
            self._calls.pop(call, None)
        return attempt

    def book(self, unit: str, attempt: int, settled_nano_usd: int, event: Event) -> None:
        """The money of a call moved: `event` adds so much to the settled sum (negative: a correction)."""
        conversation = self._attempts.get(unit)
        if conversation is None or conversation.attempt != attempt:
            return
        match event:
            case BudgetSpent():
                conversation.spent(event)
            case SpendInDoubt():
                conversation.went_in_doubt(event)
            case BudgetReleased():
                conversation.released(event)
            case SpendCorrected():
                conversation.corrected(event, settled_nano_usd)
            case _:
                raise AssertionError(f"{type(event).__name__} moves no money")

    def reserved(self, event: BudgetReserved) -> None:
        """A call is about to be sent."""
        attempt = self._attempts.get(event.unit)
        if attempt is None or attempt.attempt != event.attempt:
            return
        for turn in (attempt.open_turn, attempt.open_judging):
            if turn is not None:
                self._calls.pop(turn.call, None)
        attempt.reserved(event)
        self._calls[event.call] = event.unit

    def asked(self, event: ModelAsked) -> None:
        """An own agent asks."""
        attempt = self._attempts.get(event.unit)
        if attempt is not None and attempt.attempt == event.attempt:
            attempt.asked(event)

    def answered(self, event: ModelAnswered) -> None:
        """A call was answered."""
        attempt = self._of_call(event.call)
        if attempt is not None:
            attempt.answered(event)

    def call_failed(self, event: ModelCallFailed) -> None:
        """A call gave no usable answer."""
        attempt = self._of_call(event.call)
        if attempt is not None:
            attempt.call_failed(event)

    def tool_started(self, event: ToolStarted) -> None:
        """A tool call is about to run."""
        attempt = self._attempts.get(event.unit)
        if attempt is not None and attempt.attempt == event.attempt:
            attempt.tool_started(event)

    def tool_finished(self, event: ToolFinished) -> None:
        """A tool call ended."""
        attempt = self._attempts.get(event.unit)
        if attempt is not None and attempt.attempt == event.attempt:
            attempt.tool_finished(event)

    def _of_call(self, call: str) -> Attempt | None:
        unit = self._calls.pop(call, None)
        return None if unit is None else self._attempts.get(unit)
