"""Runs that never were: legal histories of events, drawn at random."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from eventlog.events import (
    AttemptSuperseded,
    BudgetChanged,
    BudgetReleased,
    Counts,
    Event,
    PromptsPlanned,
    PromptsWithdrawn,
    RunFinished,
    SessionClosed,
    SessionOpened,
    SettingsChanged,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryJudged,
    TrajectoryRestored,
)

from .histories import (
    TOOLS,
    answered,
    begun,
    call_failed,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    reserve,
    spent,
    started,
)

if TYPE_CHECKING:
    from random import Random


MORE = [{"name": "listen", "description": "Listen.", "parameters": {"type": "object"}}]


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
            + [self._ask_judge, self._ask_judge, self._grow]
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
        if end is not failed and self.random.random() < 0.5:
            score = self.random.choice([0.0, 0.25, -1.5])
            self._commit(TrajectoryJudged(unit, attempt, score, "so \u2028 so", b"judge", None), event)
        else:
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

    def _ask_judge(self) -> None:
        """The judge of an open attempt is asked, and answers, or is cut off."""
        unit = self._pick("open")
        if unit is not None and unit not in self.waiting:
            call = self._call()
            self._commit(reserve(call, unit, self.attempts[unit], role="judge"))
            if self.random.random() < 0.7:
                self._commit(spent(call, 9), answered(call, "no score"))
            else:
                self._commit(BudgetReleased(call, "refused"), call_failed(call))

    def _grow(self) -> None:
        """A row comes in later, perhaps with a field of its own that no row had, or of another kind."""
        index = len(self.outcome)
        own = self.random.choice([{}, {"id": index}, {"id": "text"}, {f"f{index % 3}": [index]}])
        event = planned(1, first=index)
        row = json.dumps({"prompt": f"question {index}"} | own).encode()
        rows = [msgspec.structs.replace(event.rows[0], row=row)]
        self.attempts[name_of(index)] = 0
        self.outcome[name_of(index)] = "pending"
        self._commit(PromptsPlanned(rows, complete=True))

    def _budget(self) -> None:
        now = self.random.choice([{}, {"usd": 10**12}, {"usd": 10**12, "calls": 10**6}])
        self._commit(BudgetChanged({}, now))

    def _settings(self) -> None:
        tools = self.random.choice([None, None, {"eyes": TOOLS}, {"eyes": TOOLS, "more": MORE}])
        self._commit(SettingsChanged({"model": ("m", self.random.choice(["m", "n"]))}, tools))

    def _finish(self) -> None:
        if not self._pick("open", "pending"):
            self._commit(RunFinished({}))
