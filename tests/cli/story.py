"""A small run, told event by event and written by the real writer: one that crashed, one that ended."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

from eventlog.events import (
    BudgetChanged,
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
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    SpendInDoubt,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    Usage,
    encode_event,
)
from eventlog.storage import LogWriter
from evrun.batch.settings import Settings, settings_digest, settings_record
from projections import unit_name

NOON_NS = 1_795_953_600_000_000_000
"""2026-11-29T12:00:00Z: when the story begins."""

SETTINGS = Settings(
    dataset="prompts.jsonl", model="some/model", base_url="http://127.0.0.1:8000/v1", toolsets=[]
)
PROMPTS = ("What is 1 + 1?", "What is 1 + 2?", "What is 1 + 3?")
CONTENTS = [sha256(prompt.encode()).digest()[:16] for prompt in PROMPTS]
UNITS = [unit_name(content, 1, 1) for content in CONTENTS]
COUNTS = Counts(1, 1, 0, 5, {})


def opening() -> list[list[Event]]:
    """A run begins, with a cap of one dollar and three prompts."""
    rows = [
        PlannedRow(content, 1, index, 1 + index // 2, json.dumps({"prompt": prompt}).encode())
        for index, (content, prompt) in enumerate(zip(CONTENTS, PROMPTS, strict=True))
    ]
    started = RunStarted("batch", "told", settings_record(SETTINGS), {}, {"evrun": "0.1.0"}, [])
    return [
        [started, SessionOpened(1, 4242, "here", "0.1.0")],
        [BudgetChanged({}, {"usd": 1_000_000_000})],
        [PromptsPlanned(rows, complete=True)],
    ]


def asked(unit: int, call: str) -> list[Event]:
    """A prompt is started and its first call is reserved, in one commit."""
    reserved = BudgetReserved(
        call,
        UNITS[unit],
        1,
        "rollout",
        "some/model",
        "127.0.0.1:8000",
        bytes(32),
        2_000_000,
        40,
        100,
        "bytes",
    )
    return [PromptStarted(UNITS[unit], 1, [], settings_digest(SETTINGS)), reserved]


def answered(call: str, text: str) -> list[Event]:
    """The call is settled, and its answer recorded, in one commit."""
    message = {"role": "assistant", "content": text, "reasoning": "Let me add."}
    body = {"choices": [{"finish_reason": "stop", "message": message}], "usage": {"prompt_tokens": 20}}
    spent = BudgetSpent(call, Usage(20, None, 30, 5), 1_850_000, "a price list")
    return [spent, ModelAnswered(call, json.dumps(body).encode(), 250, "req-1")]


def crashed() -> list[list[Event]]:
    """One prompt is kept; the process dies while the second one's call is out."""
    kept = TrajectoryCompleted(UNITS[0], 1, True, False, "stop", COUNTS)  # noqa: FBT003
    return [*opening(), asked(0, "s1.c1"), answered("s1.c1", "2"), [kept], asked(1, "s1.c2")]


def finished() -> list[list[Event]]:
    """One prompt is kept, one set aside, one failed, and the session ends in order."""
    failed = ModelCallFailed("s1.c3", "timeout", "no answer in 120 s", None, True, None, None)  # noqa: FBT003
    return [
        *crashed(),
        answered("s1.c2", "3"),
        [TrajectoryDiscarded(UNITS[1], 1, True, False, "stop", COUNTS, "no_reasoning")],  # noqa: FBT003
        asked(2, "s1.c3"),
        [SpendInDoubt("s1.c3", "timeout", 2_000_000, 140), failed],
        [PromptFailed(UNITS[2], 1, "timeout", "no answer in 120 s", None, True)],  # noqa: FBT003
        [RunFinished({"total": 3, "kept": 1, "discarded": 1, "failed": 1})],
        [SessionClosed(1, "finished", None, 5_000_000_000)],
    ]


@contextmanager
def writer(run: Path) -> Iterator[LogWriter]:
    """The log, open for writing, with a clock that goes on a second at each look and no chance in it."""
    seconds = count()
    log = LogWriter.open(
        run / "log",
        clock_ns=lambda: NOON_NS + next(seconds) * 1_000_000_000,
        random_bytes=lambda n: bytes(range(n)),
        holder={"pid": "4242", "host": "here", "started_at": "2026-11-29T12:00:00Z"},
    )
    try:
        yield log
    finally:
        log.close()


def tell(run: Path, commits: list[list[Event]]) -> Path:
    """Write a story into a run directory; the lock is free afterwards."""
    with writer(run) as log:
        for events in commits:
            log.append([encode_event(event) for event in events])
    return run
