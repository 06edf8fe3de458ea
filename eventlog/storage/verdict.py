"""The words in which recovery speaks: positions, records, and the verdict on a log."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..errors import LogLost, LogRefused, LogTampered, LogUnreadable, LogUnsupported, Problem
from .format import ZERO_CHAIN

Kind = Literal["clean", "torn", "lost", "unreadable", "tampered", "unsupported"]


class Position(NamedTuple):
    """A place in the log: the sequence of the last event up to there, and the chain value of its commit.

    The empty log stands at sequence 0 and 32 zero bytes. Kept elsewhere, a position is an anchor: it proves
    the whole log up to it.
    """

    sequence: int
    chain: bytes


class Record(NamedTuple):
    """One event as it lies in the log. `time_ns` is its commit's, `epoch` its session's number."""

    sequence: int
    time_ns: int
    epoch: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a log is found to be.

    `position` is the last complete boundary (of a live log: what is certainly durable), `size_bytes` the size
    of the segment files together, `torn_bytes` what a crash left behind the boundary.
    """

    kind: Kind
    position: Position
    segments: int
    size_bytes: int
    torn_bytes: int
    problem: Problem | None

    @property
    def opens(self) -> bool:
        """Whether the log may be written to."""
        return self.kind in ("clean", "torn")


EMPTY = Position(0, ZERO_CHAIN)


def refusal(verdict: Verdict, directory: str) -> LogRefused:
    """The error that a verdict other than clean and torn is."""
    problem = verdict.problem
    assert problem is not None
    match verdict.kind:
        case "unreadable":
            return LogUnreadable(problem.what, problem)
        case "unsupported":
            return LogUnsupported(problem.what, problem)
        case "tampered":
            return LogTampered(f"The log {directory} was changed: {problem.what}.", problem)
        case _:
            return LogLost(lost_message(directory, problem), problem)


def lost_message(directory: str, problem: Problem) -> str:
    """What, where, found, expected, and what to do."""
    promised = (
        f", but event {problem.promised_sequence} is promised durable"
        if problem.promised_sequence > problem.last_good_sequence
        else ""
    )
    return (
        f"The log {directory} has lost durable events: {problem.what} (segment "
        f"{problem.segment or 'none'}, byte {problem.offset_bytes}). Event {problem.last_good_sequence} "
        f"is the last good one{promised}. Nothing was changed: restore the files from a copy, or read what "
        "is left by allowing a lost log explicitly."
    )
