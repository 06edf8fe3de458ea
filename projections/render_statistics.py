"""statistics.json: the whole run in numbers, however many sessions it took."""

from typing import Any

import msgspec

from .batch import BatchState
from .health import advice
from .jsontext import json_bytes
from .mean import mean
from .money import usd
from .outcomes import settled_by_outcome
from .spend import Ledger
from .state import RunState
from .tally import Tally
from .times import in_seconds, rfc3339_or_null
from .units import DISCARDED, KEPT


def render_statistics(state: RunState) -> bytes:
    """The file: indented JSON, ending in a newline."""
    return msgspec.json.format(json_bytes(statistics(state)), indent=2) + b"\n"


def statistics(state: RunState) -> dict[str, Any]:
    """The numbers, JSON-ready.

    Averages, tools and reasoning describe the kept trajectories; usage and cost describe all that was paid.
    `filter_rate` is a ratio; a tool's rates are percentages of its calls that succeeded or failed, as in
    Hermes. Every sample counts as a prompt of its own.
    """
    batch, kept = state.batch, state.batch.kept
    counts, settings = batch.counts, batch.settings
    numbers: dict[str, Any] = {
        "run_name": batch.run,
        "model": settings.get("model"),
        "distribution": settings.get("distribution"),
        "batch_size": settings.get("batch_size"),
        "total_prompts": counts["total"],
        "total_batches": batch.batches,
        "kept": counts["kept"],
        "prompts_filtered": counts["discarded"],
        "filter_rate": ratio(counts["discarded"], counts["discarded"] + counts["kept"]),
        "filtered_by_reason": _present(batch.filtered_by_reason),
        "failed": counts["failed"],
        "failed_by_class": _present(batch.failed_by_class),
        "open": counts["open"],
        "pending": counts["pending"],
        "withdrawn": counts["withdrawn"],
        "rows_skipped": batch.rows_skipped,
        "superseded_attempts": batch.superseded_attempts,
        "average_tool_calls": ratio(kept.tool_calls, kept.trajectories),
        "total_reasoning_tokens": kept.reasoning_tokens if kept.reports else None,
        "average_reasoning_tokens": ratio(kept.reasoning_tokens, kept.reports) if kept.reports else None,
        "tool_statistics": _tools(kept),
        "reasoning_statistics": _reasoning(kept),
        "scores": _scores(batch),
        "usage": msgspec.structs.asdict(state.ledger.total.usage),
        "cost": _cost(state.ledger, state),
        "sessions": len(batch.sessions),
        "started_at": rfc3339_or_null(batch.started_ns),
        "completed_at": rfc3339_or_null(batch.finished_ns),
        "active_seconds": in_seconds(sum(session.worked_ns for session in batch.sessions)),
        "sequence": batch.sequence,
    }
    numbers["health"] = advice(numbers, has_tools=any(batch.toolsets.values()))
    return numbers


def ratio(part: int, whole: int) -> float:
    """A quotient to six places; 0 of nothing."""
    return round(part / whole, 6) if whole else 0.0


def _present(counter: dict[str, int]) -> dict[str, int]:
    return {name: counter[name] for name in sorted(counter) if counter[name]}


def _tools(kept: Tally) -> dict[str, Any]:
    return {name: _tool(*kept.tools[name]) for name in sorted(kept.tools) if kept.tools[name][0]}


def _tool(count: int, success: int, failure: int) -> dict[str, Any]:
    judged = success + failure
    return {
        "count": count,
        "success": success,
        "failure": failure,
        "success_rate": round(100 * success / judged, 2) if judged else 0.0,
        "failure_rate": round(100 * failure / judged, 2) if judged else 0.0,
    }


def _reasoning(kept: Tally) -> dict[str, int]:
    return {
        "total_assistant_turns": kept.turns_with_reasoning + kept.turns_without_reasoning,
        "turns_with_reasoning": kept.turns_with_reasoning,
        "turns_without_reasoning": kept.turns_without_reasoning,
    }


def _scores(batch: BatchState) -> dict[str, Any]:
    """What the judge gave to trajectories, kept or set aside; null where it gave nothing."""
    scores = batch.units.scores(KEPT, DISCARDED)
    middle = mean(scores)
    return {
        "judged": len(scores),
        "mean": None if middle is None else round(middle, 6),
        "min": min(scores, default=None),
        "max": max(scores, default=None),
    }


def _cost(ledger: Ledger, state: RunState) -> dict[str, Any]:
    total = ledger.total
    return {
        "settled_usd": usd(total.settled_nano_usd),
        "in_doubt_usd": total.in_doubt_usd(live=True),
        "reserved_usd": total.reserved_usd(live=True),
        "calls": total.calls,
        "unpriced_calls": total.unpriced,
        "by_outcome": {name: usd(nano) for name, nano in settled_by_outcome(state.batch).items()},
    }
