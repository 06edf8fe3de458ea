"""Events as the spans of a trace, by OpenTelemetry's conventions for generative AI. Pure.

One trace for each attempt at a prompt: the attempt is its root, model calls and tool calls are below it.
Traces and spans are named after the log's own names, so the same log gives the same spans, however often
they are sent.
"""

import hashlib
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from eventlog.events import (
    TRAINING_EVENTS,
    AttemptSuperseded,
    BudgetChanged,
    BudgetExhausted,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    PromptsWithdrawn,
    Recorded,
    RowsSkipped,
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
    TrajectoryImported,
    TrajectoryJudged,
    TrajectoryRestored,
    Usage,
)

from .answer import read_answer
from .exhaustive import require_answers
from .money import usd

_Boundary = TrajectoryCompleted | TrajectoryDiscarded | PromptFailed | AttemptSuperseded


class Span(msgspec.Struct, frozen=True):
    """Something that has ended; times in nanoseconds since 1970 (UTC), as the log has them.

    `error` is what went wrong, null where nothing did. `sequence` is the event by which it ended.
    """

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    kind: Literal["client", "internal"]
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    error: str | None
    sequence: int


class _Open(msgspec.Struct):
    reserved: BudgetReserved
    start_ns: int
    session: int
    usage: Usage | None = None
    cost_nano_usd: int | None = None
    in_doubt: bool = False


class _Part(NamedTuple):
    """What a span is: a part of an attempt (an empty name: all of it)."""

    of: tuple[str, int]
    name: str
    title: str
    start_ns: int
    kind: Literal["client", "internal"] = "internal"


class SpanFold:
    """Gives the spans that each event ends. Memory holds what is open."""

    def __init__(self, log_id: bytes) -> None:
        self._log_id = log_id
        self._run = ""
        self._agent = ""
        self._calls: dict[str, _Open] = {}
        self._attempts: dict[tuple[str, int], int] = {}
        self._tools: dict[tuple[str, int, int, int], tuple[int, str]] = {}

    def apply(self, record: Recorded) -> list[Span]:
        """Fold one record; the spans that have ended with it."""
        handler = self._HANDLERS.get(type(record.event))
        return [] if handler is None else handler(self, record, record.event)

    def _run_started(self, _: Recorded, event: RunStarted) -> list[Span]:
        self._run, self._agent = event.run, str(event.settings.get("agent") or "")
        return []

    def _attempt_started(self, record: Recorded, event: PromptStarted) -> list[Span]:
        self._attempts[event.unit, event.attempt] = record.time_ns
        return []

    def _reserved(self, record: Recorded, event: BudgetReserved) -> list[Span]:
        self._calls[event.call] = _Open(event, record.time_ns, record.session)
        return []

    def _tool_started(self, record: Recorded, event: ToolStarted) -> list[Span]:
        key = (event.unit, event.attempt, event.turn, event.position)
        self._tools[key] = (record.time_ns, event.tool)
        return []

    def _settled(self, _: Recorded, event: BudgetSpent) -> list[Span]:
        call = self._calls.get(event.call)
        if call is not None:
            call.usage, call.cost_nano_usd = event.usage, event.cost_nano_usd
        return []

    def _doubted(self, record: Recorded, event: SpendInDoubt) -> list[Span]:
        call = self._calls.get(event.call)
        if call is None:
            return []
        call.in_doubt = True
        if call.session == record.session:
            return []  # what came of it is told beside this
        return self._call(record, event.call, {}, event.reason)

    def _answered(self, record: Recorded, event: ModelAnswered) -> list[Span]:
        answer = read_answer(event.body)
        found = {
            "gen_ai.response.id": event.request_id,
            "gen_ai.response.finish_reasons": [answer.finish_reason] if answer.finish_reason else None,
        }
        return self._call(record, event.call, found, answer.problem)

    def _failed(self, record: Recorded, event: ModelCallFailed) -> list[Span]:
        found = {"error.type": event.error_class, "http.response.status_code": event.status}
        return self._call(record, event.call, found, event.message)

    def _call(self, record: Recorded, name: str, found: dict[str, Any], error: str | None) -> list[Span]:
        call = self._calls.pop(name, None)
        if call is None:
            return []
        reserved, usage = call.reserved, call.usage
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": reserved.model,
            "server.address": reserved.endpoint,
            "gen_ai.usage.input_tokens": None if usage is None else usage.input_tokens,
            "gen_ai.usage.output_tokens": None if usage is None else usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": None if usage is None else usage.cached_input_tokens,
            **found,
            "evrun.call": name,
            "evrun.role": reserved.role,
            "evrun.cost_usd": None if call.cost_nano_usd is None else usd(call.cost_nano_usd),
            "evrun.in_doubt": call.in_doubt or None,
        }
        part = _Part(
            (reserved.unit, reserved.attempt), name, f"chat {reserved.model}", call.start_ns, "client"
        )
        return [self._span(record, part, attributes, error)]

    def _tool(self, record: Recorded, event: ToolFinished) -> list[Span]:
        key = (event.unit, event.attempt, event.turn, event.position)
        started = self._tools.pop(key, None)
        if started is None:
            return []
        start_ns, tool = started
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        error = None if event.success else "the tool reported an error"
        name = f"{event.turn}.{event.position}"
        part = _Part((event.unit, event.attempt), name, f"execute_tool {tool}", start_ns)
        return [self._span(record, part, attributes, error)]

    def _ended(self, record: Recorded, event: _Boundary) -> list[Span]:
        unit = (event.unit, event.attempt)
        self._tools = {key: value for key, value in self._tools.items() if key[:2] != unit}
        outcome, error = _outcome(event)
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self._agent,
            "evrun.outcome": outcome,
            "error.type": event.error_class if isinstance(event, PromptFailed) else None,
        }
        start_ns = self._attempts.pop(unit, record.time_ns)
        part = _Part(unit, "", f"invoke_agent {self._agent}", start_ns)
        return [self._span(record, part, attributes, error)]

    def _span(self, record: Recorded, part: _Part, attributes: dict[str, Any], error: str | None) -> Span:
        unit, attempt = part.of
        root = f"{unit} {attempt}"
        own = {"evrun.run": self._run, "evrun.unit": unit, "evrun.attempt": attempt}
        return Span(
            self._id(root, 16),
            self._id(f"{root} {part.name}", 8),
            self._id(f"{root} ", 8) if part.name else None,
            part.title,
            part.kind,
            part.start_ns,
            max(record.time_ns, part.start_ns),
            {key: value for key, value in (own | attributes).items() if value is not None},
            error,
            record.sequence,
        )

    def _id(self, name: str, size: int) -> int:
        digest = hashlib.sha256(self._log_id + name.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:size], "big") or 1

    _HANDLERS: ClassVar[dict[type[Event], Callable[[Any, Recorded, Any], list[Span]]]] = {
        RunStarted: _run_started,
        PromptStarted: _attempt_started,
        BudgetReserved: _reserved,
        BudgetSpent: _settled,
        SpendInDoubt: _doubted,
        ModelAnswered: _answered,
        ModelCallFailed: _failed,
        ToolStarted: _tool_started,
        ToolFinished: _tool,
        TrajectoryCompleted: _ended,
        TrajectoryDiscarded: _ended,
        PromptFailed: _ended,
        AttemptSuperseded: _ended,
    }
    # An imported trajectory was somebody else's work, and when it was done is not known.
    _IGNORED: ClassVar = require_answers(
        "SpanFold",
        _HANDLERS,
        [
            BudgetChanged, BudgetExhausted, BudgetReleased, ModelAsked, PromptsPlanned, PromptsWithdrawn,
            RowsSkipped, RunFinished, SessionClosed, SessionOpened, SettingsChanged, SpendCorrected,
            TrajectoryImported, TrajectoryJudged, TrajectoryRestored, *TRAINING_EVENTS,
        ],
    )  # fmt: skip


def _outcome(event: _Boundary) -> tuple[str, str | None]:
    match event:
        case TrajectoryCompleted():
            return "kept", None
        case TrajectoryDiscarded():
            return f"discarded: {event.reason}", None
        case AttemptSuperseded():
            return "superseded", event.reason
        case PromptFailed():
            return "failed", event.message
