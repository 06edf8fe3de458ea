"""Caps in an audit: what is used and left of each, how they came to be, and what deserves a warning."""

from collections.abc import Mapping
from typing import Any

from .batch import BatchState
from .calls import Sums
from .money import cap_amount, is_money, usd
from .outcomes import committed_by_prompt
from .spend import Ledger
from .times import in_seconds, rfc3339
from .training import TrainingState
from .training_units import group_of, judged_unit

_OF_PARTS = frozenset({"step_usd", "finalize_reserve_usd"})
UNITS = {
    "usd": "USD", "tokens": "tokens", "calls": "calls", "hours": "seconds", "prompt_usd": "USD",
    "step_usd": "USD", "finalize_reserve_usd": "USD",
}  # fmt: skip
"""Caps in the order in which they are shown, with the unit of their numbers; those on roles come after."""
ROLE = "role_usd."
WARNING_PERCENTS = (50, 80, 95)
"""How much of a cap is used when a person is told so."""


def caps_report(
    ledger: Ledger, batch: BatchState, training: TrainingState | None = None, *, live: bool
) -> list[dict[str, Any]]:
    """Every cap in force: its limit, what is used (settled and in doubt), what is reserved, and what is left.

    `left` is below 0 where a cap was passed; `percent` is how much of it is used. That of a prompt shows the
    prompt that has used most of it, as `prompt`, and counts what that one has reserved as used; that of a
    step likewise.
    """
    roles = sorted(cap for cap in ledger.caps if cap.startswith(ROLE))
    shown = [cap for cap in (*UNITS, *roles) if cap in ledger.caps]
    found = []
    for cap in shown:
        if training is not None and (cap in _OF_PARTS or cap.startswith(ROLE)):
            used = _used_of_part(cap, ledger, training, live=live)
        else:
            used = _used(cap, ledger, batch, live=live)
        found.append(_cap(cap, int(ledger.caps[cap]), *used))
    return found


def _cap(cap: str, limit: int, used: int, reserved: int, prompt: str | None) -> dict[str, Any]:
    committed = used + reserved
    return {
        "cap": cap,
        "unit": _unit(cap),
        "limit": _number(cap, limit),
        "used": _number(cap, used),
        "reserved": _number(cap, reserved),
        "left": _number(cap, limit - committed),
        "percent": 100 * used // limit if limit else None,
        "prompt": prompt,
        "says": _words(cap, limit, committed, prompt),
    }


def _used(cap: str, ledger: Ledger, batch: BatchState, *, live: bool) -> tuple[int, int, str | None]:
    """Used, reserved, and whose that is."""
    if cap == "hours":
        return sum(session.worked_ns for session in batch.sessions), 0, None
    if cap == "prompt_usd":
        unit, committed = committed_by_prompt(ledger, batch) or (None, 0)
        return committed, 0, unit
    reserved = int(ledger.caps[cap]) - (ledger.left(cap) or 0) - ledger.used(cap)
    return (ledger.used(cap), reserved, None) if live else (ledger.used(cap) + reserved, 0, None)


def _used_of_part(
    cap: str, ledger: Ledger, training: TrainingState, *, live: bool
) -> tuple[int, int, str | None]:
    """As `_used`, of a cap on a part of a training run."""
    if cap.startswith(ROLE):
        sums = ledger.by_role.get(cap.removeprefix(ROLE), Sums())
        used, reserved = sums.settled_nano_usd + sums.in_doubt_nano_usd, sums.reserved_nano_usd
        return (used, reserved, None) if live else (used + reserved, 0, None)
    committed = {name: money.settled_nano_usd for name, money in training.money.items()}
    for call in (*ledger.in_doubt.values(), *ledger.reserved.values()):
        name = group_of(judged_unit(call.unit))
        committed[name] = committed.get(name, 0) + (call.bound_nano_usd or 0)
    if cap == "finalize_reserve_usd":
        return committed.get("finalize", 0), 0, None
    steps = {name: nano for name, nano in committed.items() if name.startswith("step:")}
    dearest = max(steps, key=lambda name: steps[name], default=None)
    return 0 if dearest is None else steps[dearest], 0, dearest


def _words(cap: str, limit: int, committed: int, prompt: str | None) -> str:
    """One line for people."""
    left = limit - committed
    rest = f"{cap_amount(cap, left)} left" if left >= 0 else f"passed by {cap_amount(cap, -left)}"
    if cap == "prompt_usd":
        most = "none has begun" if prompt is None else f"the dearest, {prompt}, has {rest}"
        return f"{cap_amount(cap, limit)} for each prompt; {most}"
    if cap == "step_usd":
        most = "none has begun" if prompt is None else f"the dearest, {prompt}, has {rest}"
        return f"{cap_amount(cap, limit)} for each step; {most}"
    if cap == "finalize_reserve_usd":
        return f"{cap_amount(cap, limit)} kept back for the end; {rest}"
    return f"{cap_amount(cap, limit)}, {rest}"


def caps_history(ledger: Ledger) -> list[dict[str, Any]]:
    """Each time that caps were set, raised, lowered or lifted, by the event of which sequence."""
    return [
        {
            "sequence": change.sequence,
            "time": rfc3339(change.time_ns),
            "before": _limits(change.before),
            "now": _limits(change.now),
        }
        for change in ledger.cap_changes
    ]


def exhausted(batch: BatchState) -> dict[str, Any] | None:
    """The cap that the newest session met, what was asked, and what was left; null where it met none."""
    event = batch.exhausted
    if event is None:
        return None
    return {
        "cap": event.cap,
        "unit": _unit(event.cap),
        "asked": _number(event.cap, event.asked),
        "left": _number(event.cap, event.left),
    }


def warnings(ledger: Ledger, caps: list[dict[str, Any]], *, live: bool) -> list[dict[str, Any]]:
    """What a person should know before trusting the sums, as ``{"code", "message"}``."""
    found = [_filling(cap) for cap in caps]
    total = ledger.total
    if ledger.over_bound:
        message = (
            f"{ledger.over_bound} calls took more than was set aside for them; they are booked as reported"
        )
        found.append(("over_bound", message))
    if total.unpriced:
        found.append(("unpriced", f"{total.unpriced} calls have no known price or bound, and are in no sum"))
    if total.in_doubt_usd(live=live) is None:
        found.append(("unbounded", "calls in doubt without a bound: nobody can say what they cost at most"))
    return [{"code": item[0], "message": item[1]} for item in found if item is not None]


def _filling(cap: dict[str, Any]) -> tuple[str, str] | None:
    percent = cap["percent"]
    if cap["cap"] == "finalize_reserve_usd":
        return None
    passed = [level for level in WARNING_PERCENTS if percent is not None and percent >= level]
    if not passed:
        return None
    return (
        f"{cap['cap']}_{passed[-1]}",
        f"{percent} % of the cap on {_name(cap['cap'])} are used: {cap['says']}",
    )


_NAMES = {
    "usd": "money",
    "tokens": "tokens",
    "calls": "calls",
    "hours": "hours",
    "prompt_usd": "money for one prompt",
    "step_usd": "money for one step",
}


def _name(cap: str) -> str:
    return f"money for the role {cap.removeprefix(ROLE)}" if cap.startswith(ROLE) else _NAMES[cap]


def _unit(cap: str) -> str | None:
    return "USD" if is_money(cap) else UNITS.get(cap)


def _limits(caps: Mapping[str, Any]) -> dict[str, Any]:
    return {cap: _number(cap, int(limit)) for cap, limit in caps.items()}


def _number(cap: str, value: int) -> str | int | float:
    """Money as an exact decimal string in USD, hours in seconds, all else as it is counted."""
    if is_money(cap):
        return usd(value)
    return in_seconds(value) if cap == "hours" else value
