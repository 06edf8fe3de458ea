"""From a log to events, and to the state that they add up to."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from eventlog.events import Recorded, RunStarted, decode_event

from .state import RunState


class LogRecord(Protocol):
    """One durable payload and its coordinates."""

    @property
    def sequence(self) -> int:
        """Dense from 1."""

    @property
    def time_ns(self) -> int:
        """When it was committed, UTC."""

    @property
    def epoch(self) -> int:
        """The session that wrote it."""

    @property
    def payload(self) -> bytes:
        """An event's bytes."""


class LogPosition(Protocol):
    """Where a log stands."""

    @property
    def sequence(self) -> int:
        """The newest durable event; 0 in an empty log."""

    @property
    def chain(self) -> bytes:
        """The chain value there."""


class Log(Protocol):
    """What is needed of a log to read it; `eventlog.storage.LogReader` is one."""

    log_id: bytes
    """Which log it is: drawn at random when it began."""

    @property
    def end(self) -> LogPosition:
        """What was durable when the log was looked at last."""

    def refresh(self) -> LogPosition:
        """Look again."""

    def read(self, from_sequence: int = 1, to_sequence: int | None = None) -> Iterator[LogRecord]:
        """The records between two sequences, both included."""

    def search(
        self, may_hold: Callable[[bytes], bool] | None, from_sequence: int = 1, to_sequence: int | None = None
    ) -> Iterator[LogRecord]:
        """As `read`, but only of those commits for whose bytes, each event in one piece, it is true."""

    def read_one(self, sequence: int) -> LogRecord:
        """One record, without reading what is before it."""

    def chain_at(self, sequence: int) -> bytes:
        """The chain value of the commit that ends at a sequence; an EventLogError inside a commit."""


def recorded(log: Log, from_sequence: int = 1, to_sequence: int | None = None) -> Iterator[Recorded]:
    """The durable events from one sequence to another, both included; without a second one, to the end.

    Raises:
        UnknownEvent: a newer evrun wrote an event that this one does not know.
        MalformedEvent: bytes that are no event.
        EventLogError: the log cannot be read.
    """
    for record in log.read(from_sequence, to_sequence):
        yield Recorded(record.sequence, record.time_ns, record.epoch, decode_event(record.payload))


def sifted(
    log: Log, sieve: Callable[[bytes], bool], from_sequence: int = 1, to_sequence: int | None = None
) -> Iterator[Recorded]:
    """As `recorded`, only the events whose bytes pass through the sieve; the others are not decoded."""
    for record in log.read(from_sequence, to_sequence):
        if sieve(record.payload):
            yield Recorded(record.sequence, record.time_ns, record.epoch, decode_event(record.payload))


def fold_log(log: Log, to_sequence: int | None = None) -> RunState:
    """The state that the durable events up to a sequence add up to. Errors as `recorded`."""
    state = RunState()
    with collector_paused():
        for record in recorded(log, 1, to_sequence):
            state.apply(record)
    return state


def kind_of(log: Log) -> str:
    """The kind of run that a log is of, "batch" or "training"; empty where none has begun."""
    if not log.end.sequence:
        return ""
    first = decode_event(log.read_one(1).payload)
    return first.kind if isinstance(first, RunStarted) else ""


def sequence_at(log: Log, time_ns: int) -> int:
    """The last sequence that was durable at a moment; 0 if none was. Times in a log never go back."""
    low, high = 0, log.end.sequence
    while low < high:
        middle = (low + high + 1) // 2
        if log.read_one(middle).time_ns <= time_ns:
            low = middle
        else:
            high = middle - 1
    return low


def worked_on(log: Log, state: RunState, *, held: bool) -> bool:
    """Whether a process was at work on the run at the moment that `state` stands for.

    It was if the session that had begun last wrote anything later; for the log's end it is `held`, whether a
    process holds the run now. When exactly a session died that closed nothing is not known: at its last event
    it counts as at work no more.
    """
    if state.sequence >= log.end.sequence:
        return held
    if not state.batch.sessions:
        return False
    return log.read_one(state.sequence + 1).epoch == state.batch.sessions[-1].number


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the cyclic collector: loading makes very many objects and no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
