"""Events that tests write, and logs that hold them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Self

import msgspec

from eventlog.events import (
    BudgetReserved,
    BudgetSpent,
    Counts,
    Event,
    ModelAnswered,
    ModelCallFailed,
    PlannedRow,
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    Recorded,
    RunStarted,
    SessionOpened,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryRestored,
    Usage,
    encode_event,
)
from eventlog.storage import LogReader, LogWriter
from projections import unit_name

if TYPE_CHECKING:
    from pathlib import Path

START_NS = 1_790_000_000_000_000_000
TOOLS = [{"name": "look", "description": "Look at a place.", "parameters": {"type": "object"}}]


def started(run: str = "r", **settings) -> RunStarted:
    """A run's first event."""
    known = {"model": "m", "batch_size": 2, "distribution": "default", "system_prompt": None}
    return RunStarted("batch", run, known | settings, {"eyes": TOOLS}, {"evrun": "0"}, [])


def row_of(index: int) -> dict:
    """A dataset row."""
    return {"prompt": f"question {index} \u2028 ä", "id": index}


def planned(count: int, batch_size: int = 2, first: int = 0, samples: int = 1) -> PromptsPlanned:
    """A plan of rows `first` to `first + count - 1`."""
    rows = [
        PlannedRow(
            content=hashlib.sha256(b"%d" % index).digest()[:16],
            occurrence=1,
            index=index,
            batch=1 + index // batch_size,
            row=json.dumps(row_of(index)).encode(),
            samples=samples,
        )
        for index in range(first, first + count)
    ]
    return PromptsPlanned(rows, complete=True)


def name_of(index: int, sample: int = 1) -> str:
    """The name of a planned row's unit."""
    return unit_name(hashlib.sha256(b"%d" % index).digest()[:16], 1, sample)


def reserve(
    call: str,
    unit: str,
    attempt: int = 1,
    bound: int | None = 100,
    *,
    role: str = "rollout",
    model: str = "m",
) -> BudgetReserved:
    """A reservation of `bound` nano-USD."""
    digest = hashlib.sha256(call.encode()).digest()
    return BudgetReserved(call, unit, attempt, role, model, "host", digest, bound, 10, 20, "a test")


def spent(call: str, cost: int | None = 60, reasoning: int | None = None) -> BudgetSpent:
    """A settlement."""
    return BudgetSpent(call, Usage(7, None, 3, reasoning), cost, None if cost is None else "a test")


def answered(call: str, text: str = "four", reasoning: str | None = None, tools: int = 0) -> ModelAnswered:
    """An answer."""
    message: dict = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if tools:
        message["tool_calls"] = [
            {
                "id": f"{call}-{n}",
                "type": "function",
                "function": {"name": "look", "arguments": f'{{"at": {n}}}'},
            }
            for n in range(tools)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}
    return ModelAnswered(call, json.dumps({"choices": [choice]}).encode(), 12, None)


def counts(tools: int = 0, with_reasoning: int = 1, reasoning_tokens: int | None = None) -> Counts:
    """What a trajectory counts."""
    stats = {"look": (tools, tools, 0)} if tools else {}
    return Counts(1, with_reasoning, 0, reasoning_tokens, stats)


def kept(unit: str, attempt: int = 1, **counted) -> TrajectoryCompleted:
    """The unit is kept."""
    return TrajectoryCompleted(
        unit, attempt, completed=True, partial=False, finish_reason="stop", counts=counts(**counted)
    )


def discarded(unit: str, attempt: int = 1, reason: str = "no_reasoning", **counted) -> TrajectoryDiscarded:
    """The unit is set aside."""
    ended = kept(unit, attempt, **counted)
    return TrajectoryDiscarded(**msgspec.structs.asdict(ended), reason=reason)


def restored(unit: str, reason: str | None = None, **counted) -> TrajectoryRestored:
    """The unit is kept after all, or set aside for a reason."""
    return TrajectoryRestored(unit, reason is None, reason, counts(**counted))


def failed(unit: str, attempt: int = 1, error_class: str = "timeout") -> PromptFailed:
    """The unit failed."""
    return PromptFailed(unit, attempt, error_class, "it took too long", None, retryable=True)


def call_failed(call: str) -> ModelCallFailed:
    """A call without a usable answer."""
    return ModelCallFailed(call, "server", "no", 500, retryable=True, wait_ms=None, request_id="req-1")


def begun(unit: str, attempt: int = 1) -> PromptStarted:
    """An attempt began."""
    return PromptStarted(unit, attempt, ["eyes"], b"settings")


def records(commits: list[list[Event]]) -> list[Recorded]:
    """The events as the log gives them back, a millisecond between two commits."""
    found, session, sequence = [], 1, 0
    for number, commit in enumerate(commits):
        for event in commit:
            if isinstance(event, SessionOpened):
                session = event.number
            sequence += 1
            found.append(Recorded(sequence, START_NS + number * 1_000_000, session, event))
    return found


class Clock:
    """A clock that goes a millisecond further at each look."""

    def __init__(self) -> None:
        self.now = START_NS

    def __call__(self) -> int:
        """The time."""
        self.now += 1_000_000
        return self.now


class LogMaker:
    """Writes commits into a real log; a `SessionOpened` is written by a writer of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sessions = 0
        self._clock = Clock()
        self._writer: LogWriter | None = None

    def write(self, commits: list[list[Event]]) -> None:
        """Append commits."""
        for commit in commits:
            if self._writer is None or isinstance(commit[0], SessionOpened):
                self._open()
            self._writer.append([encode_event(event) for event in commit])

    def reader(self) -> LogReader:
        """A reader of what is durable now."""
        return self._writer.reader()

    def close(self) -> None:
        """End the session."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open(self) -> None:
        self.close()
        self.sessions += 1
        self._writer = LogWriter.open(
            self.directory, clock_ns=self._clock, random_bytes=lambda length: b"r" * length
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()
