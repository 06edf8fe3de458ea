"""Folds dispatch on an event's type; each one must have an answer for every type there is."""

from collections.abc import Iterable

from eventlog.events import EVENT_TYPES, Event


def require_answers(
    fold: str, handled: Iterable[type[Event]], ignored: Iterable[type[Event]]
) -> frozenset[type[Event]]:
    """Every event type is handled or knowingly ignored, and none is both; gives the ignored ones back.

    Called at import, so a new event type stops the program until every fold has an answer for it.

    Raises:
        TypeError: naming the types without an answer, or with two.
    """
    known, passed = set(handled), frozenset(ignored)
    unanswered = [kind.__name__ for kind in EVENT_TYPES if kind not in known and kind not in passed]
    doubled = sorted(kind.__name__ for kind in known & passed)
    if unanswered or doubled:
        raise TypeError(f"{fold}: event types without an answer: {unanswered}; with two: {doubled}")
    return passed
