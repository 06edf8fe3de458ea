"""An attempt at a unit: what its events say, folded in the order in which they were recorded.

The calls of one attempt follow each other: a reservation opens a turn, an answer closes it. A call that
failed, or whose fate is unknown, leaves the turn to the call that repeats it.
"""

from typing import Self

import msgspec

from eventlog.events import (
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PromptStarted,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryJudged,
    Usage,
)

from .answer import Answer, ToolCall, read_answer
from .exchanges import Exchanges

NO_USAGE = Usage(None, None, None, None)


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a tool call gave back: `content` exactly as the model sees it, UTF-8 with `surrogatepass`."""

    content: bytes
    success: bool
    duration_ms: int


class Turn(msgspec.Struct, gc=False):
    """One place in the conversation for a model's answer and the results of its tool calls.

    `number` counts from 1, as `ToolStarted.turn` does; `request` is the SHA-256 of the request's body;
    `body` is the response as received, null while unanswered; `in_doubt` says that the money of `call` is
    in doubt; `results` and `started` are by the tool call's position in the answer; `request_id` is the
    provider's, if it gave one.
    """

    number: int
    call: str
    request: bytes
    body: bytes | None = None
    in_doubt: bool = False
    elapsed_ms: int = 0
    results: dict[int, ToolResult] = {}
    started: set[int] = set()
    parsed: Answer | None = None
    request_id: str | None = None


class Attempt(msgspec.Struct, gc=False):
    """One try at one unit: its conversation so far, and what it cost.

    `turns` are the answered ones and at most one open one, the last. `calls` counts the conversation's
    sends, `api_calls` those that were answered, `failures` those that gave no usable answer. Judge calls are
    not in the conversation and count in the money only: `judgings` holds them, as turns of their own. A null
    bound or cost is not in the sums; `unpriced` counts settled calls without a price, `priced` those with
    one. `score` and `feedback` are the judge's. `own` is what an own agent asked, which has no turns.
    """

    unit: str
    attempt: int
    started_ns: int
    session: int
    toolsets: list[str]
    settings: bytes
    turns: list[Turn] = []
    calls: int = 0
    api_calls: int = 0
    failures: int = 0
    settled_nano_usd: int = 0
    priced: int = 0
    unpriced: int = 0
    usage: Usage = NO_USAGE
    doubts: dict[str, int | None] = {}
    judgings: list[Turn] = []
    score: float | None = None
    feedback: str | None = None
    own: Exchanges | None = None

    @classmethod
    def start(cls, event: PromptStarted, time_ns: int, session: int) -> Self:
        """A new attempt; `time_ns` and `session` are those of the event's record."""
        return cls(event.unit, event.attempt, time_ns, session, list(event.toolsets), event.settings)

    @property
    def open_turn(self) -> Turn | None:
        """The turn that waits for an answer, null if there is none."""
        return _open(self.turns)

    @property
    def open_judging(self) -> Turn | None:
        """The judge's turn that waits for an answer, null if there is none."""
        return _open(self.judgings)

    @property
    def answered_turns(self) -> list[Turn]:
        """The turns that have their answer, in order."""
        turns = self.turns
        return turns[:-1] if turns and turns[-1].body is None else turns

    @property
    def in_doubt_nano_usd(self) -> int:
        """The most that the calls in doubt can have cost."""
        return sum(bound or 0 for bound in self.doubts.values())

    @property
    def open_calls(self) -> list[str]:
        """The calls that wait for an answer."""
        turns = (self.open_turn, self.open_judging)
        return [turn.call for turn in turns if turn is not None] + (
            [] if self.own is None else self.own.open_calls
        )

    def asked(self, event: ModelAsked) -> None:
        """An own agent asks."""
        self._of_own_agent().asked(event)

    def reserved(self, event: BudgetReserved) -> None:
        """A call is about to be sent: it opens a turn, or takes over the open one."""
        if self.own is not None and self.own.reserved(event):
            self.calls += 1
        elif event.role == "judge":
            _begin(self.judgings, event)
        elif event.role == "rollout":
            self.calls += 1
            _begin(self.turns, event)

    def answered(self, event: ModelAnswered) -> None:
        """The open turn's call was answered, or the judge's. An answer to another call changes nothing."""
        if _answer(self.open_turn, event) or (self.own is not None and self.own.answered(event)):
            self.api_calls += 1
        else:
            _answer(self.open_judging, event)

    def judged(self, event: TrajectoryJudged) -> None:
        """The judge gave its score."""
        self.score, self.feedback = event.score, event.feedback

    def call_failed(self, event: ModelCallFailed) -> None:
        """The open turn's call gave no usable answer; the turn stays open for its repeat."""
        turn = self.open_turn
        in_turn = turn is not None and turn.call == event.call
        self.failures += in_turn or (self.own is not None and self.own.failed(event))

    def spent(self, event: BudgetSpent) -> None:
        """A call was settled."""
        self.usage = add_usage(self.usage, event.usage)
        if event.cost_nano_usd is None:
            self.unpriced += 1
        else:
            self.priced += 1
            self.settled_nano_usd += event.cost_nano_usd

    def released(self, event: BudgetReleased) -> None:
        """A call certainly cost nothing: nothing to add."""

    def went_in_doubt(self, event: SpendInDoubt) -> None:
        """What a call cost cannot be known."""
        self.doubts[event.call] = event.bound_nano_usd
        if self.turns and self.turns[-1].call == event.call:
            self.turns[-1].in_doubt = True
        elif self.own is not None:
            self.own.went_in_doubt(event)

    def corrected(self, event: SpendCorrected, settled_nano_usd: int) -> None:
        """A person settled a call in doubt, or corrected that; `settled_nano_usd` is how much it adds."""
        self.settled_nano_usd += settled_nano_usd
        if event.call not in self.doubts:
            return
        del self.doubts[event.call]
        self.priced += 1
        for turn in self.turns:
            if turn.call == event.call:
                turn.in_doubt = False

    def tool_started(self, event: ToolStarted) -> None:
        """A tool call is about to run. One of a turn that is not there changes nothing."""
        if event.turn == 0:
            self._of_own_agent().tool_started(event)
        turn = self._turn(event.turn)
        if turn is not None:
            turn.started.add(event.position)

    def tool_finished(self, event: ToolFinished) -> None:
        """A tool call ended. One of a turn that is not there changes nothing."""
        if event.turn == 0:
            self._of_own_agent().tool_finished(event)
        turn = self._turn(event.turn)
        if turn is not None:
            turn.results[event.position] = ToolResult(event.content, event.success, event.duration_ms)

    def answers(self) -> list[Answer]:
        """The answers so far, each with tool call ids that are present and unique in the attempt.

        A missing or repeated id becomes ``call_<turn>_<n>``, turns from 1 and positions from 0. Each body is
        parsed once.
        """
        seen: set[str] = set()
        return [_parsed(turn, seen) for turn in self.answered_turns]

    def _of_own_agent(self) -> Exchanges:
        if self.own is None:
            self.own = Exchanges()
        return self.own

    def _turn(self, number: int) -> Turn | None:
        return self.turns[number - 1] if 1 <= number <= len(self.turns) else None


def add_usage(one: Usage, other: Usage) -> Usage:
    """The sum, null where neither says."""
    if one is NO_USAGE:
        return other
    return Usage(
        _add(one.input_tokens, other.input_tokens),
        _add(one.cached_input_tokens, other.cached_input_tokens),
        _add(one.output_tokens, other.output_tokens),
        _add(one.reasoning_tokens, other.reasoning_tokens),
    )


def _open(turns: list[Turn]) -> Turn | None:
    return turns[-1] if turns and turns[-1].body is None else None


def _begin(turns: list[Turn], event: BudgetReserved) -> None:
    if _open(turns) is not None:
        turns.pop()
    turns.append(Turn(len(turns) + 1, event.call, event.request))


def _answer(turn: Turn | None, event: ModelAnswered) -> bool:
    if turn is None or turn.call != event.call:
        return False
    turn.body = event.body
    turn.elapsed_ms = event.elapsed_ms
    turn.request_id = event.request_id
    return True


def _add(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one if other is None else one + other


def _parsed(turn: Turn, seen: set[str]) -> Answer:
    if turn.parsed is None:
        turn.parsed = _with_ids(read_answer(turn.body or b""), turn.number, seen)
    if turn.parsed.tool_calls:
        seen.update(call.id for call in turn.parsed.tool_calls)
    return turn.parsed


def _with_ids(answer: Answer, number: int, seen: set[str]) -> Answer:
    """The answer with an id of its own for each tool call; the same object where there is no call."""
    if not answer.tool_calls:
        return answer
    taken = set(seen)
    calls: list[ToolCall] = []
    for position, call in enumerate(answer.tool_calls):
        own = call.id
        if not own or own in taken:
            own = _free_id(f"call_{number}_{position}", taken)
        taken.add(own)
        calls.append(ToolCall(own, call.name, call.arguments))
    return msgspec.structs.replace(answer, tool_calls=calls)


def _free_id(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted
