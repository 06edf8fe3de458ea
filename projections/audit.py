"""The audit: where the money went, what is not known of it, and whether the account is right."""

from typing import Any

from .audit_caps import caps_history, caps_report, exhausted, warnings
from .audit_checks import checks
from .batch import BatchState
from .calls import Call, OverBound, Sums
from .money import usd
from .outcomes import by_prompt, calls_in_doubt, settled_by_outcome
from .spend import Correction, Ledger
from .times import rfc3339
from .training import TrainingState
from .training_report import by_step, money_by_outcome
from .units import idempotency_key


def audit_report(
    ledger: Ledger,
    batch: BatchState,
    training: TrainingState | None = None,
    *,
    run: str,
    live: bool,
    prompts: bool = False,
    top: int | None = None,
) -> dict[str, Any]:
    """What ``evrun audit --json`` prints. Amounts are exact decimal strings in USD.

    `live` says that a process holds the run. Where none does, a call that was reserved and not settled can
    no longer be settled by itself, so it counts as in doubt. `training` is given of a training run. With
    `prompts` there is ``by_prompt`` too, of a training run ``by_step``; `top` leaves only so many of its
    rows, the dearest, and of the calls in doubt those with the largest bounds.
    """
    total, left = ledger.total, ledger.left("usd")
    caps = caps_report(ledger, batch, training, live=live)
    outcomes = settled_by_outcome(batch) if training is None else money_by_outcome(training)
    doubts = calls_in_doubt(ledger, live=live)
    report = {
        "run": run,
        "sequence": batch.sequence,
        "time": rfc3339(batch.last_ns),
        "live": live,
        "settled_usd": usd(total.settled_nano_usd),
        "in_doubt_usd": total.in_doubt_usd(live=live),
        "reserved_usd": total.reserved_usd(live=live),
        "cap_usd": None if left is None else usd(ledger.caps["usd"]),
        "left_usd": None if left is None else usd(left),
        "tokens": _tokens(total, live=live),
        "calls": _calls(ledger, live=live),
        "by_outcome": {name: usd(nano) for name, nano in outcomes.items()},
        "by_session": [_by_session(n, sums, live=live) for n, sums in sorted(ledger.by_session.items())],
        "by_model": [_by_model(model, sums) for model, sums in sorted(ledger.by_model.items())],
        "by_role": [_by_role(role, sums) for role, sums in sorted(ledger.by_role.items())],
        "in_doubt": [_doubt(call) for call in _largest(doubts, top)],
        "over_bound": [_over_bound(over) for over in ledger.furthest_over[:top]],
        "corrected": [_corrected(correction) for correction in ledger.corrected.values()],
        "caps": caps,
        "budget_changes": caps_history(ledger),
        "exhausted": exhausted(batch),
        "warnings": warnings(ledger, caps, live=live),
        "checks": checks(ledger, batch, training),
    }
    if prompts and training is not None:
        reserved = list(ledger.reserved.values()) if live else []
        report["by_step"] = by_step(training, doubts, reserved, top=top)
    elif prompts:
        report["by_prompt"] = by_prompt(ledger, batch, live=live, top=top)
    return report


def _largest(calls: list[Call], top: int | None) -> list[Call]:
    """The calls as they are, or so many of them with the largest bounds; none known is larger than any."""
    if top is None:
        return calls
    return sorted(calls, key=lambda call: (call.bound_nano_usd is not None, -(call.bound_nano_usd or 0)))[
        :top
    ]


def _tokens(total: Sums, *, live: bool) -> dict[str, int | None]:
    usage = total.usage
    nothing = 0 if total.settled_calls == 0 else None
    return {
        "input": nothing if usage.input_tokens is None else usage.input_tokens,
        "cached_input": nothing if usage.cached_input_tokens is None else usage.cached_input_tokens,
        "output": nothing if usage.output_tokens is None else usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
        "in_doubt": total.in_doubt_tokens + (0 if live else total.reserved_tokens),
        "reserved": total.reserved_tokens if live else 0,
        "corrected": total.corrected_tokens,
    }


def _calls(ledger: Ledger, *, live: bool) -> dict[str, int]:
    reserved = len(ledger.reserved)
    return {
        "settled": ledger.total.settled_calls,
        "in_doubt": len(ledger.in_doubt) + (0 if live else reserved),
        "reserved": reserved if live else 0,
        "released": ledger.released_calls,
        "unpriced": ledger.total.unpriced,
        "over_bound": ledger.over_bound,
        "corrected": len(ledger.corrected),
    }


def _by_session(number: int, sums: Sums, *, live: bool) -> dict[str, Any]:
    return {
        "session": number,
        "settled_usd": usd(sums.settled_nano_usd),
        "in_doubt_usd": sums.in_doubt_usd(live=live),
        "reserved_usd": sums.reserved_usd(live=live),
        "calls": sums.calls,
    }


def _by_model(model: str, sums: Sums) -> dict[str, Any]:
    return {
        "model": model,
        "settled_usd": usd(sums.settled_nano_usd),
        "calls": sums.calls,
        "input_tokens": sums.usage.input_tokens,
        "output_tokens": sums.usage.output_tokens,
    }


def _by_role(role: str, sums: Sums) -> dict[str, Any]:
    return {"role": role, "settled_usd": usd(sums.settled_nano_usd), "calls": sums.calls}


def _doubt(call: Call) -> dict[str, Any]:
    return {
        "call": call.name,
        "unit": call.unit,
        "attempt": call.attempt,
        "session": call.session,
        "role": call.role,
        "model": call.model,
        "sent_at": rfc3339(call.reserved_ns),
        "bound_usd": None if call.bound_nano_usd is None else usd(call.bound_nano_usd),
        "bound_tokens": call.bound_tokens,
        "reason": call.doubt,
        "request_id": call.request_id,
        "idempotency_key": idempotency_key(call.unit, call.attempt, call.request),
    }


def _over_bound(over: OverBound) -> dict[str, Any]:
    call, cost, bound = over.call, over.cost_nano_usd, over.call.bound_nano_usd
    return {
        "call": call.name,
        "unit": call.unit,
        "role": call.role,
        "model": call.model,
        "sequence": over.sequence,
        "settled_usd": None if cost is None else usd(cost),
        "bound_usd": None if bound is None else usd(bound),
        "input_tokens": over.usage.input_tokens,
        "output_tokens": over.usage.output_tokens,
        "bound_tokens": call.bound_tokens,
    }


def _corrected(correction: Correction) -> dict[str, Any]:
    call = correction.call
    return {
        "call": call.name,
        "unit": call.unit,
        "settled_usd": usd(correction.settled_nano_usd),
        "bound_usd": None if call.bound_nano_usd is None else usd(call.bound_nano_usd),
        "at": rfc3339(correction.time_ns),
        "note": correction.note,
    }
