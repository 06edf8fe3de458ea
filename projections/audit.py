"""The audit: where the money went, what is not known of it, and whether the account is right."""

from collections.abc import Iterable, Mapping
from typing import Any

from .batch import BatchState
from .calls import Call, Sums
from .money import usd
from .spend import CAPS, Ledger
from .times import rfc3339
from .units import DISCARDED, FAILED, KEPT, OPEN, PENDING, WITHDRAWN, idempotency_key


def audit_report(ledger: Ledger, batch: BatchState, *, run: str, live: bool) -> dict[str, Any]:
    """What ``evrun audit --json`` prints. Amounts are exact decimal strings in USD.

    `live` says that a process holds the run. Where none does, a call that was reserved and not settled can
    no longer be settled by itself, so it counts as in doubt.
    """
    total = ledger.total
    left = ledger.left("usd")
    return {
        "run": run,
        "sequence": batch.sequence,
        "settled_usd": usd(total.settled_nano_usd),
        "in_doubt_usd": total.in_doubt_usd(live=live),
        "reserved_usd": total.reserved_usd(live=live),
        "cap_usd": None if left is None else usd(ledger.caps["usd"]),
        "left_usd": None if left is None else usd(left),
        "tokens": _tokens(total, live=live),
        "calls": _calls(ledger, live=live),
        "by_outcome": {name: usd(nano) for name, nano in settled_by_outcome(batch).items()},
        "by_session": [_by_session(n, sums, live=live) for n, sums in sorted(ledger.by_session.items())],
        "by_model": [_by_model(model, sums) for model, sums in sorted(ledger.by_model.items())],
        "by_role": [_by_role(role, sums) for role, sums in sorted(ledger.by_role.items())],
        "in_doubt": [_doubt(call) for call in calls_in_doubt(ledger, live=live)],
        "checks": checks(ledger, batch),
    }


def settled_by_outcome(batch: BatchState) -> dict[str, int]:
    """Settled nano-USD by what became of the work; the parts add up to the whole.

    ``superseded`` is what attempts cost that no longer stand for their unit; ``other`` what calls cost that
    belong to no unit.
    """
    sums = dict.fromkeys((KEPT, DISCARDED, FAILED, "superseded", OPEN, "other"), 0)
    sums["superseded"] = batch.superseded_nano_usd
    sums["other"] = batch.other_nano_usd
    for unit in batch.units.values():
        outcome = "superseded" if unit.outcome in {PENDING, WITHDRAWN} else unit.outcome
        sums[outcome] += unit.settled_nano_usd
    return sums


def settled_by_unit(batch: BatchState, top: int | None = None) -> list[dict[str, Any]]:
    """Units by what their newest attempt cost, the dearest first; the first `top` of them."""
    units = [(name, unit) for name, unit in batch.units.items() if unit.attempt]
    units.sort(key=lambda item: (-item[1].settled_nano_usd, item[1].index, item[1].sample))
    return [
        {"unit": name, "outcome": unit.outcome, "settled_usd": usd(unit.settled_nano_usd)}
        for name, unit in units[:top]
    ]


def calls_in_doubt(ledger: Ledger, *, live: bool) -> list[Call]:
    """The calls of which nobody knows what they cost, in the order in which they were reserved."""
    calls: Iterable[Call] = ledger.in_doubt.values()
    if not live:
        calls = [*calls, *ledger.reserved.values()]
    return sorted(calls, key=lambda call: (call.reserved_ns, call.session, call.name))


def checks(ledger: Ledger, batch: BatchState) -> list[dict[str, Any]]:
    """What must be true of the account, each looked at for itself, as ``{"name", "ok", "detail"}``."""
    differences = _differences(ledger, batch)
    total = ledger.total
    whole = f"{usd(total.settled_nano_usd)} settled in {total.settled_calls} calls"
    return [
        _check("parts add up", not differences, "; ".join(differences) or whole),
        _check(
            "no settled call without reservation",
            ledger.unreserved == 0,
            f"{ledger.unreserved} events about calls that were not reserved, or had ended",
        ),
        _check("no reservation was granted past the cap", ledger.past_cap == 0, _past_cap(ledger)),
        _check(
            "every event has its place",
            batch.unexplained == 0,
            f"{batch.unexplained} events do not fit what was recorded before them",
        ),
    ]


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:  # noqa: FBT001 (it is the verdict)
    return {"name": name, "ok": ok, "detail": detail}


def _past_cap(ledger: Ledger) -> str:
    if ledger.past_cap_example is not None:
        return f"{ledger.past_cap} of {ledger.granted} reservations; the first: {ledger.past_cap_example}"
    watched = [cap for cap in CAPS if cap in ledger.caps]
    return f"{ledger.granted} reservations; caps now: {', '.join(watched) or 'none'}"


def _differences(ledger: Ledger, batch: BatchState) -> list[str]:
    total, found = ledger.total, []
    amounts = "settled_nano_usd", "in_doubt_nano_usd", "reserved_nano_usd", "calls"
    groups: dict[str, Mapping[Any, Sums]] = {
        "session": ledger.by_session,
        "model": ledger.by_model,
        "role": ledger.by_role,
    }
    for name, parts in groups.items():
        for amount in amounts:
            part, whole = sum(getattr(sums, amount) for sums in parts.values()), getattr(total, amount)
            if part != whole:
                found.append(f"{amount} by {name}: {part}, in all: {whole}")
    for name, part, whole in (
        ("settled by outcome", sum(settled_by_outcome(batch).values()), total.settled_nano_usd),
        ("calls in doubt", _bound_of(ledger.in_doubt.values()), total.in_doubt_nano_usd),
        ("calls reserved", _bound_of(ledger.reserved.values()), total.reserved_nano_usd),
        ("calls by state", _by_state(ledger), total.calls),
    ):
        if part != whole:
            found.append(f"{name}: {part}, in all: {whole}")
    return found


def _bound_of(calls: Iterable[Call]) -> int:
    return sum(call.bound_nano_usd or 0 for call in calls)


def _by_state(ledger: Ledger) -> int:
    return ledger.total.settled_calls + len(ledger.in_doubt) + len(ledger.reserved)


def _tokens(total: Sums, *, live: bool) -> dict[str, int | None]:
    usage = total.usage
    nothing = 0 if total.settled_calls == 0 else None
    return {
        "input": nothing if usage.input_tokens is None else usage.input_tokens,
        "cached_input": nothing if usage.cached_input_tokens is None else usage.cached_input_tokens,
        "output": nothing if usage.output_tokens is None else usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
        "in_doubt": total.in_doubt_tokens + (0 if live else total.reserved_tokens),
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
