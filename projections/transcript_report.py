"""`evrun show`: one attempt at one prompt, as JSON-ready values: what was asked, said, called, given back."""

from typing import Any

from eventlog.events import (
    Recorded,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryImported,
    decode_event,
)

from .agent_messages import agent_messages
from .answer import Answer, read_answer
from .asking import row_messages
from .calls import Call
from .conversation import Attempt, Turn
from .jsontext import clean_text, decode_text, loads_lenient
from .load import Log
from .messages import Message
from .money import usd
from .rows_source import InPlan, RowSource
from .times import rfc3339, rfc3339_or_null
from .transcript import Telling, Try, failure, finish_reason

_SECOND = 1_000_000_000
_GONE = "the process that sent it is gone"
_ROLES = {"system": "system", "human": "user", "gpt": "assistant", "tool": "tool"}
_ASKED = frozenset({"prompt", "messages", "conversations"})


def transcript(
    log: Log, name: str, unit: InPlan, attempt: int | None = None, *, live: bool
) -> dict[str, Any]:
    """What ``evrun show --json`` prints of a unit that `find_units` gave; null for `attempt`: the newest.

    `live`: a process holds the run; a reserved call is in doubt where none does, as in the audit. Reads the
    log once, decodes little but what concerns the unit, and keeps that. An attempt that is not there has
    nothing in it; the unit's attempts are all in ``attempts``. Errors as `recorded`.
    """
    telling = Telling(name, attempt)
    for record in log.search(telling.may_concern):
        if telling.concerns(record.payload):
            event = decode_event(record.payload)
            telling.apply(Recorded(record.sequence, record.time_ns, record.epoch, event))
    return report(telling, RowSource(log).row_of(unit), live=live)


def report(telling: Telling, row: dict[str, Any], *, live: bool) -> dict[str, Any]:
    """As `transcript`, of what was folded; `row` is the unit's."""
    unit, told = telling.unit, telling.told
    assert unit is not None  # whoever asks has found it in the plan
    settings = telling.batch.settings if told is None else told.settings
    return {
        "run": telling.batch.run,
        "unit": telling.name,
        "prompt_index": unit.index,
        "batch": unit.batch,
        "sample": unit.sample,
        "outcome": unit.outcome,
        "attempts": [_summary(one) for one in telling.tries.values()],
        "attempt": None if told is None else _attempt(telling, told, live=live),
        "metadata": {field: value for field, value in row.items() if field not in _ASKED},
        "messages": _messages(row, settings, told),
        "judgings": _judgings(None if told is None else told.conversation),
    }


def _summary(one: Try) -> dict[str, Any]:
    return {
        "attempt": one.attempt,
        "outcome": one.outcome,
        "reason": one.reason,
        "settled_usd": usd(one.settled_nano_usd),
    }


def _attempt(telling: Telling, one: Try, *, live: bool) -> dict[str, Any]:
    ending = one.ending
    flags = ending if isinstance(ending, TrajectoryCompleted | TrajectoryDiscarded) else None
    doubt, reserved = telling.open_calls(one.attempt)
    if not live:
        doubt, reserved = doubt + reserved, []
    conversation = one.conversation
    return {
        **_summary(one),
        "started_at": rfc3339_or_null(one.started_ns),
        "ended_at": rfc3339_or_null(one.ended_ns),
        "duration_s": _duration(one),
        "session": one.session,
        "model": one.settings.get("model"),
        "toolsets": [] if conversation is None else conversation.toolsets,
        "completed": None if flags is None else flags.completed,
        "partial": None if flags is None else flags.partial,
        "finish_reason": finish_reason(ending),
        "error": _error(one),
        "score": None if conversation is None else conversation.score,
        "feedback": None if conversation is None else conversation.feedback,
        "imported_from": _source(ending),
        "answers": 0 if conversation is None else conversation.api_calls,
        "failed_calls": [_failed_call(event) for event in one.failed_calls],
        "usage": {name: getattr(one.usage, name) for name in one.usage.__struct_fields__},
        "settled_calls": one.settled_calls,
        "unpriced_calls": one.unpriced,
        "in_doubt": [_open_call(call) for call in doubt],
        "reserved": [_open_call(call) | {"why": None} for call in reserved],
    }


def _duration(one: Try) -> float | None:
    if one.started_ns is None or one.ended_ns is None:
        return None
    return round((one.ended_ns - one.started_ns) / _SECOND, 6)


def _error(one: Try) -> dict[str, Any] | None:
    failed = failure(one.ending)
    if failed is None:
        return None
    return {
        "class": failed.error_class,
        "message": failed.message,
        "status": failed.status,
        "retryable": failed.retryable,
    }


def _failed_call(event: Any) -> dict[str, Any]:
    return {
        "call": event.call,
        "class": event.error_class,
        "message": event.message,
        "status": event.status,
        "retryable": event.retryable,
    }


def _open_call(call: Call) -> dict[str, Any]:
    return {
        "call": call.name,
        "role": call.role,
        "sent_at": rfc3339(call.reserved_ns),
        "bound_usd": None if call.bound_nano_usd is None else usd(call.bound_nano_usd),
        "why": call.doubt or _GONE,
    }


def _source(ending: Any) -> str | None:
    """Where an imported trajectory stood; null for any other."""
    if not isinstance(ending, TrajectoryImported):
        return None
    return ending.source if ending.line is None else f"{ending.source}, line {ending.line}"


def _messages(row: dict[str, Any], settings: dict[str, Any], one: Try | None) -> list[dict[str, Any]]:
    """All that was asked and said: of an own agent what it sent, of an imported row what stands in it."""
    if one is None:
        return _asked(row, settings)
    if isinstance(one.ending, TrajectoryImported):
        return _imported(one.ending.row) or _asked(row, settings)
    if one.conversation is not None and one.conversation.own is not None:
        return list(map(_shown, agent_messages(one.conversation))) or _asked(row, settings)
    return [*_asked(row, settings), *_said(one.conversation)]


def _imported(row: bytes) -> list[dict[str, Any]]:
    try:
        value = loads_lenient(row) if row else None
    except ValueError:
        value = None
    turns = value.get("conversations") if isinstance(value, dict) else None
    return [
        {"role": _ROLES.get(str(turn.get("from")), "user"), "content": str(turn.get("value") or "")}
        for turn in (turns if isinstance(turns, list) else ())
        if isinstance(turn, dict)
    ]


def _asked(row: dict[str, Any], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The row's messages; of a row that cannot be asked, its prompt as far as there is one."""
    try:
        messages = row_messages(row, settings)
    except ValueError:
        prompt = row.get("prompt")
        return [{"role": "user", "content": clean_text(prompt)}] if isinstance(prompt, str) else []
    return list(map(_shown, messages))


def _shown(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        shown["reasoning"] = message.reasoning
    if message.tool_calls:
        shown["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.role == "tool":
        shown |= {"tool_call_id": message.tool_call_id, "name": message.name}
    return shown


def _said(attempt: Attempt | None) -> list[dict[str, Any]]:
    """What the model said, and what each of its tool calls gave back, or how far it is."""
    if attempt is None:
        return []
    found: list[dict[str, Any]] = []
    for turn, answer in zip(attempt.answered_turns, attempt.answers(), strict=True):
        found.append(_answer(turn, answer))
        found += [_tool(turn, position, answer) for position in range(len(answer.tool_calls))]
    return found


def _judgings(attempt: Attempt | None) -> list[dict[str, Any]]:
    """What the judge answered, one answer a try."""
    turns = [] if attempt is None else [turn for turn in attempt.judgings if turn.body is not None]
    return [_answer(turn, read_answer(turn.body or b"")) | {"role": "judge"} for turn in turns]


def _answer(turn: Turn, answer: Answer) -> dict[str, Any]:
    return {
        "role": "assistant",
        "turn": turn.number,
        "call": turn.call,
        "reasoning": answer.reasoning,
        "content": answer.text,
        "tool_calls": [_call(call) for call in answer.tool_calls],
        "finish_reason": answer.finish_reason,
        "problem": answer.problem,
        "elapsed_ms": turn.elapsed_ms,
    }


def _call(call: Any) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _tool(turn: Turn, position: int, answer: Answer) -> dict[str, Any]:
    call, result = answer.tool_calls[position], turn.results.get(position)
    shown: dict[str, Any] = {"role": "tool", "tool_call_id": call.id, "name": call.name}
    if result is None:
        began = "running" if position in turn.started else "not begun"
        return shown | {"state": began, "content": None, "success": None, "duration_ms": None}
    text = decode_text(result.content)
    return shown | {
        "state": "ended",
        "content": text,
        "success": result.success,
        "duration_ms": result.duration_ms,
    }
