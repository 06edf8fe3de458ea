"""Runs that never were: legal histories of events, drawn at random, and logs that hold them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Self

import msgspec

from eventlog.events import (
    AttemptSuperseded,
    BudgetChanged,
    BudgetReleased,
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
    PromptsWithdrawn,
    Recorded,
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
    TrajectoryRestored,
    Usage,
    encode_event,
)
from eventlog.storage import LogReader, LogWriter
from projections import unit_name

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

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


class History:
    """A run that goes on at random: each step appends one legal commit to `commits`."""

    def __init__(self, random: Random, prompts: int = 6) -> None:
        self.random = random
        self.commits: list[list[Event]] = []
        self.session = 0
        self.calls = 0
        self.attempts = dict.fromkeys(map(name_of, range(prompts)), 0)
        self.outcome = dict.fromkeys(self.attempts, "pending")
        self.turns: dict[str, int] = {}
        self.waiting: dict[str, str] = {}  # unit -> call
        self.tools: dict[str, list[int]] = {}
        self.doubts: list[str] = []
        self.counted: dict[str, Counts] = {}
        self._open_session(started(), BudgetChanged({}, {"usd": 10**12}), planned(prompts))

    def run(self, steps: int) -> list[list[Event]]:
        """So many steps; all commits so far."""
        for _ in range(steps):
            self.step()
        return self.commits

    def step(self) -> None:
        """One legal commit more, or none."""
        ways = (
            [self._start] * 4
            + [self._send] * 5
            + [self._outcome] * 6
            + [self._tool] * 4
            + [self._end] * 4
            + [self._supersede, self._restore, self._restore, self._crash, self._resume, self._correct]
            + [self._withdraw, self._judge, self._budget, self._settings, self._finish]
        )
        self.random.choice(ways)()

    def _commit(self, *events: Event) -> None:
        self.commits.append(list(events))

    def _pick(self, *outcomes: str) -> str | None:
        units = [unit for unit, outcome in self.outcome.items() if outcome in outcomes]
        return self.random.choice(units) if units else None

    def _open_session(self, *then: Event) -> None:
        self.session += 1
        self._commit(SessionOpened(self.session, 1, "host", "0"), *then)

    def _start(self) -> None:
        unit = self._pick("pending", "pending", "failed", "discarded")
        if unit is not None:
            self.attempts[unit] += 1
            self.outcome[unit] = "open"
            self.turns[unit] = 0
            self.tools[unit] = []
            self._commit(begun(unit, self.attempts[unit]))

    def _send(self) -> None:
        unit = self._pick("open")
        if unit is not None and unit not in self.waiting and not self.tools[unit]:
            call = self._call()
            self.waiting[unit] = call
            bound = self.random.choice([100, 1000, None])
            model = self.random.choice(["m", "n"])
            self._commit(reserve(call, unit, self.attempts[unit], bound, model=model))

    def _call(self) -> str:
        self.calls += 1
        return f"call-{self.calls}"

    def _outcome(self) -> None:
        if not self.waiting:
            return
        unit = self.random.choice(list(self.waiting))
        call = self.waiting.pop(unit)
        money = self.random.choice([
            spent(call, self.random.choice([0, 60, 5000])), spent(call, None), spent(call, 7, 11),
            BudgetReleased(call, "refused"), SpendInDoubt(call, "lost", 100, 30),
            SpendInDoubt(call, "?", None, None),
        ])  # fmt: skip
        if isinstance(money, SpendInDoubt):
            self.doubts.append(call)
        if isinstance(money, BudgetReleased) or self.random.random() < 0.2:
            said = call_failed(call)
        else:
            tools = self.random.choice([0, 0, 1, 2])
            said = answered(call, "text <tool_call>", self.random.choice([None, "because"]), tools)
            self.turns[unit] += 1
            self.tools[unit] = list(range(tools))
        self._commit(*self.random.sample([money, said], 2))

    def _tool(self) -> None:
        unit = self._pick("open")
        if unit is not None and self.tools[unit]:
            position = self.tools[unit].pop()
            where = (unit, self.attempts[unit], self.turns[unit], position)
            self._commit(ToolStarted(*where, "look", b"digest"))
            self._commit(ToolFinished(*where, b'{"seen": true}', success=True, duration_ms=3))

    def _end(self) -> None:
        unit = self._pick("open")
        if unit is None or unit in self.waiting:
            return
        attempt, tools = self.attempts[unit], self.random.randrange(3)
        tokens = self.random.choice([None, 5])
        end = self.random.choice([kept, kept, discarded, failed])
        if end is failed:
            event = failed(unit, attempt, self.random.choice(["timeout", "refused"]))
        else:
            event = end(unit, attempt, tools=tools, reasoning_tokens=tokens)
            self.counted[unit] = event.counts
        self.outcome[unit] = end.__name__
        self._commit(event)

    def _supersede(self) -> None:
        unit = self._pick("open")
        if unit is not None:
            self.outcome[unit] = "pending"
            self.waiting.pop(unit, None)
            self._commit(AttemptSuperseded(unit, self.attempts[unit], "settings changed"))

    def _restore(self) -> None:
        unit = self._pick("kept", "discarded")
        if unit is not None:
            keep = self.outcome[unit] == "discarded"
            self.outcome[unit] = "kept" if keep else "discarded"
            reason = None if keep else "no_reasoning"
            self._commit(TrajectoryRestored(unit, keep, reason, self.counted[unit]))

    def _crash(self) -> None:
        """All calls in flight are lost; the next session finds them."""
        lost = list(self.waiting.values())
        self.waiting.clear()
        self.doubts += lost
        self._open_session()
        if lost:
            self._commit(*[SpendInDoubt(call, "the process died", 100, 30) for call in lost])

    def _resume(self) -> None:
        if not self.waiting:
            self._commit(SessionClosed(self.session, "interrupted", None, 5_000_000))
            self._open_session()

    def _correct(self) -> None:
        if self.doubts:
            call = self.random.choice(self.doubts)
            self._commit(SpendCorrected(call, self.random.choice([0, 42, 900]), "the invoice says so"))

    def _withdraw(self) -> None:
        unit = self._pick("pending", "withdrawn")
        if unit is None:
            return
        if self.outcome[unit] == "pending":
            self.outcome[unit] = "withdrawn"
            self._commit(PromptsWithdrawn([unit]))
        else:
            self.outcome[unit] = "pending"
            index = list(self.outcome).index(unit)
            self._commit(planned(1, first=index))

    def _judge(self) -> None:
        unit = self._pick("kept", "discarded")
        if unit is not None:
            call = self._call()
            self._commit(reserve(call, unit, self.attempts[unit], role="judge"))
            self._commit(spent(call, 9), answered(call, "8 of 10"))

    def _budget(self) -> None:
        now = self.random.choice([{}, {"usd": 10**12}, {"usd": 10**12, "calls": 10**6}])
        self._commit(BudgetChanged({}, now))

    def _settings(self) -> None:
        self._commit(SettingsChanged({"model": ("m", self.random.choice(["m", "n"]))}, None))

    def _finish(self) -> None:
        if not self._pick("open", "pending"):
            self._commit(RunFinished({}))
