"""What must be true of the account, each looked at for itself."""

from collections.abc import Iterable, Mapping
from typing import Any

from .batch import BatchState
from .calls import Call, Sums
from .money import usd
from .outcomes import settled_by_outcome
from .spend import CAPS, Ledger
from .training import TrainingState
from .training_report import money_by_outcome


def checks(ledger: Ledger, batch: BatchState, training: TrainingState | None = None) -> list[dict[str, Any]]:
    """The checks of an account, as ``{"name", "ok", "detail"}``; `training` is given of a training run."""
    differences = _differences(ledger, batch, training)
    unexplained = batch.unexplained if training is None else training.unexplained
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
            unexplained == 0,
            f"{unexplained} events do not fit what was recorded before them",
        ),
    ]


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:  # noqa: FBT001 (it is the verdict)
    return {"name": name, "ok": ok, "detail": detail}


def _past_cap(ledger: Ledger) -> str:
    if ledger.past_cap_example is not None:
        return f"{ledger.past_cap} of {ledger.granted} reservations; the first: {ledger.past_cap_example}"
    watched = [cap for cap in CAPS if cap in ledger.caps]
    return f"{ledger.granted} reservations; caps now: {', '.join(watched) or 'none'}"


def _differences(ledger: Ledger, batch: BatchState, training: TrainingState | None) -> list[str]:
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
    settled = total.settled_nano_usd
    if training is None:
        of_work = [
            ("settled by outcome", sum(settled_by_outcome(batch).values()), settled),
            ("settled by prompt", _by_prompt(batch), settled),
        ]
    else:
        of_steps = sum(money.settled_nano_usd for money in training.money.values())
        of_work = [
            ("settled by outcome", sum(money_by_outcome(training).values()), settled),
            ("settled by step", of_steps, settled),
        ]
    for name, part, whole in (
        *of_work,
        ("calls in doubt", _bound_of(ledger.in_doubt.values()), total.in_doubt_nano_usd),
        ("calls reserved", _bound_of(ledger.reserved.values()), total.reserved_nano_usd),
        ("calls by state", _by_state(ledger), total.calls),
    ):
        if part != whole:
            found.append(f"{name}: {part}, in all: {whole}")
    return found


def _bound_of(calls: Iterable[Call]) -> int:
    return sum(call.bound_nano_usd or 0 for call in calls)


def _by_prompt(batch: BatchState) -> int:
    return batch.units.all_nano_usd() + batch.other_nano_usd


def _by_state(ledger: Ledger) -> int:
    return ledger.total.settled_calls + len(ledger.in_doubt) + len(ledger.reserved)
