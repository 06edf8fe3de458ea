"""A state as plain values, so that two of them can be compared to the last detail."""

from typing import Any

import msgspec

from projections import Call, UnitTable


def plain(value: Any) -> Any:
    """Everything that a state holds. What a call's sums are is compared by which ones they are."""
    if isinstance(value, Call):
        return [(name, plain(getattr(value, name))) for name in value.__struct_fields__ if name != "groups"]
    if isinstance(value, msgspec.Struct):
        fields = [name for name in value.__struct_fields__ if name != "parsed"]
        return type(value).__name__, [(name, plain(getattr(value, name))) for name in fields]
    if isinstance(value, UnitTable):
        return value.parts()
    if isinstance(value, dict):
        return [(plain(key), plain(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, str | bytes | bytearray | int | float | None):
        return value
    if hasattr(value, "__slots__"):
        return type(value).__name__, [(name, plain(getattr(value, name))) for name in value.__slots__]
    return type(value).__name__, plain(vars(value))


def own_sums(state: Any) -> bool:
    """Whether every call counts in the sums that the ledger shows."""
    ledger = state.ledger
    calls = [*ledger.reserved.values(), *ledger.in_doubt.values()]
    calls += [one.call for one in (*ledger.corrected.values(), *ledger.furthest_over)]
    shown = [
        (
            ledger.total,
            ledger.by_session[call.session],
            ledger.by_model[call.model],
            ledger.by_role[call.role],
        )
        for call in calls
    ]
    pairs = [zip(call.groups, sums, strict=True) for call, sums in zip(calls, shown, strict=True)]
    return all(one is other for pair in pairs for one, other in pair)
