"""Caps on parts of a training run: each step, each role, and what is kept back for the end."""

from collections.abc import Callable, Iterable

from eventlog.events import BudgetReserved
from projections import Ledger, RunState, group_of, judged_unit

from ..budget import Part, Parts

FINALIZE = "finalize"


def training_parts(state: RunState) -> Parts:
    """The caps on parts of a run that a call is under."""
    ledger = state.ledger

    def of_group(group: str) -> int:
        money = state.training.money.get(group)
        settled = 0 if money is None else money.settled_nano_usd
        pending = (*ledger.in_doubt.values(), *ledger.reserved.values())
        return settled + sum(
            call.bound_nano_usd or 0 for call in pending if group_of(judged_unit(call.unit)) == group
        )

    def parts(unit: str, role: str) -> Iterable[Part]:
        caps, group = ledger.caps, group_of(judged_unit(unit))
        if "step_usd" in caps and group.startswith("step:"):
            yield Part("step_usd", int(caps["step_usd"]) - of_group(group), _in_group(group))
        if (limit := caps.get(f"role_usd.{role}")) is not None:
            yield Part(f"role_usd.{role}", int(limit) - _committed(ledger, role), _of_role(role))
        left = ledger.left("usd")
        if left is not None and group != FINALIZE and "finalize_reserve_usd" in caps:
            yield Part("usd", left - int(caps["finalize_reserve_usd"]), _any)

    return parts


def _committed(ledger: Ledger, role: str) -> int:
    sums = ledger.by_role.get(role)
    if sums is None:
        return 0
    return sums.settled_nano_usd + sums.in_doubt_nano_usd + sums.reserved_nano_usd


def _in_group(group: str) -> Callable[[BudgetReserved], bool]:
    return lambda reserved: group_of(judged_unit(reserved.unit)) == group


def _of_role(role: str) -> Callable[[BudgetReserved], bool]:
    return lambda reserved: reserved.role == role


def _any(_: BudgetReserved) -> bool:
    return True
