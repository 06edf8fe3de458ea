"""The log beside what the endpoint served: every request is accounted for, no result is double."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from eventlog.events import (
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    PromptFailed,
    SpendInDoubt,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    decode_event,
)
from eventlog.storage import LogReader
from evrun.budget import OWN
from projections import idempotency_key

ENDS = (TrajectoryCompleted, TrajectoryDiscarded, PromptFailed)


class Calls(NamedTuple):
    """Calls of a log, counted by the key that their requests carried."""

    spent: Counter[str]
    in_doubt: Counter[str]
    released: Counter[str]


def events_of(run: Path) -> list[Event]:
    """All events of a run's log."""
    with LogReader.open(run / "log") as reader:
        return [decode_event(record.payload) for record in reader.read()]


def calls_of(events: list[Event]) -> Calls:
    """How each call of a log ended; not what agents pay by themselves. Fails where one did not, or twice."""
    keys: dict[str, str] = {}
    found = Calls(Counter(), Counter(), Counter())
    for event in events:
        if isinstance(event, BudgetReserved) and event.endpoint != OWN:
            assert event.call not in keys, event
            keys[event.call] = idempotency_key(event.unit, event.attempt, event.request)
    own = {event.call for event in events if isinstance(event, BudgetReserved)} - set(keys)
    left = set(keys)
    for event in events:
        if isinstance(event, BudgetSpent | SpendInDoubt | BudgetReleased) and event.call not in own:
            assert event.call in left, f"a call ended twice: {event}"
            left.remove(event.call)
            place = {BudgetSpent: found.spent, SpendInDoubt: found.in_doubt, BudgetReleased: found.released}
            place[type(event)][keys[event.call]] += 1
    assert not left, f"calls without an end: {sorted(left)}"
    return found


def check_accounts(events: list[Event], served: list[dict[str, Any]]) -> Calls:
    """Every request that was served is a call that was paid or is in doubt, and every answer is paid once."""
    calls = calls_of(events)
    seen = Counter(request["idempotency_key"] for request in served)
    answered = Counter(request["idempotency_key"] for request in served if request["outcome"] == "answered")
    known = calls.spent + calls.in_doubt
    assert seen <= known, f"served and not accounted for: {seen - known}"
    assert calls.spent <= answered, f"paid and never answered: {calls.spent - answered}"
    assert known - seen <= calls.in_doubt, "only what is in doubt may never have been served"
    recorded = sum(isinstance(event, ModelAnswered) for event in events)
    assert recorded == calls.spent.total()
    return calls


def workers_of(run: Path) -> set[str]:
    """The workers that have asked for calls so far, by the names of these (``s1n2.c7``: worker 2)."""
    calls = [event.call for event in events_of(run) if isinstance(event, BudgetReserved)]
    return {call.partition(".")[0] for call in calls}


def check_ended_once(events: list[Event], units: int) -> None:
    """Each unit has one end, and there are so many of them."""
    ends = Counter(event.unit for event in events if isinstance(event, ENDS))
    assert len(ends) == units
    assert set(ends.values()) == {1}, [unit for unit, count in ends.items() if count > 1]
