"""The user's own projection: a fold of theirs over the events, run as the house runs its own."""

from typing import Any, Final, Protocol, TypeVar

from eventlog.events import Recorded

from .load import Log, recorded

State = TypeVar("State")


class Fold(Protocol[State]):
    """What a projection is: where it begins, what each event does to it, and how it looks in the end.

    It has to be pure: what comes out depends on the events alone, not on a clock, on chance, on files, or on
    what an earlier fold left in a class or a module.

    A class that has no `initial` is its own state: it begins as the class makes it (with the defaults of its
    fields), and has `apply(self, record)` and `render(self)`.
    """

    def initial(self) -> State:
        """The state before the first event; a new one at each call."""

    def apply(self, state: State, record: Recorded) -> State | None:
        """The state after an event. Nothing (null) where `state` itself was changed.

        `record.event` is the decoded event, `record.sequence` its number from 1, `record.time_ns` when it was
        committed (nanoseconds since 1970, UTC), `record.session` which session wrote it.
        """

    def render(self, state: State) -> Any:
        """What is shown: text, bytes, a value that JSON can hold, or an iterator of such, one a line."""


class FoldFailed(Exception):
    """A fold raised an error, which is the cause of this one.

    `part` is the method ("initial", "apply", "render"); `sequence` and `event` name the event that was
    applied, null in the other two.
    """

    def __init__(self, part: str, record: Recorded | None, error: BaseException) -> None:
        self.part = part
        self.sequence = None if record is None else record.sequence
        self.event = None if record is None else type(record.event).__name__
        where = "" if record is None else f" of event {self.sequence} ({self.event})"
        super().__init__(f"{part}{where}: {type(error).__name__}: {error}")


UNCHANGEABLE: Final = (int, float, complex, str, bytes, frozenset)
"""A state of these types cannot have been changed in place, so `apply` has to return the next one."""


def fold_events(log: Log, fold: Any, to_sequence: int | None = None) -> Any:
    """The state that a fold (`Fold`, or an instance that is its own state) comes to.

    `to_sequence` is the last event that is folded; without one all that are durable are.

    Raises:
        FoldFailed: the fold raised an error.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    whole = hasattr(fold, "initial")
    state = _begin(fold) if whole else fold
    for record in recorded(log, 1, to_sequence):
        try:
            after = fold.apply(state, record) if whole else state.apply(record)
            if after is None and isinstance(state, UNCHANGEABLE):
                _refuse_none(state)
        except (Exception, SystemExit) as error:
            raise FoldFailed("apply", record, error) from error
        state = state if after is None else after
    return state


def render_fold(fold: Any, state: Any) -> Any:
    """What the fold shows of a state that `fold_events` came to.

    Raises:
        FoldFailed: the fold raised an error. An iterator may also raise one later, as it is.
    """
    try:
        return fold.render(state) if hasattr(fold, "initial") else state.render()
    except (Exception, SystemExit) as error:
        raise FoldFailed("render", None, error) from error


def project(log: Log, fold: Any, to_sequence: int | None = None) -> Any:
    """`fold_events`, then `render_fold`. Errors as there."""
    return render_fold(fold, fold_events(log, fold, to_sequence))


def _begin(fold: Any) -> Any:
    try:
        return fold.initial()
    except (Exception, SystemExit) as error:
        raise FoldFailed("initial", None, error) from error


def _refuse_none(state: Any) -> None:
    raise TypeError(f"returned None, and {type(state).__name__} cannot be changed: return the next state")
