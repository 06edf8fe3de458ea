"""The ledger as bytes, and back. A call is written with what it says of itself, and finds its sums again."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from eventlog.events import Usage

from .calls import Call, OverBound, Sums
from .spend import CapChange, Correction, Ledger

_LEDGER = "ledger"


class _Call(msgspec.Struct, array_like=True):
    name: str
    unit: str
    attempt: int
    role: str
    model: str
    session: int
    reserved_ns: int
    request: bytes
    bound_nano_usd: int | None
    bound_tokens: int
    bound_output_tokens: int | None
    doubt: str | None
    request_id: str | None


class _Ledger(msgspec.Struct, array_like=True):
    reserved: list[_Call]
    in_doubt: list[_Call]
    corrected: list[tuple[_Call, int, str, int]]
    total: Sums
    by_session: dict[int, Sums]
    by_model: dict[str, Sums]
    by_role: dict[str, Sums]
    caps: dict[str, Any]
    cap_changes: list[tuple[int, int, dict[str, Any], dict[str, Any]]]
    released_calls: int
    unreserved: int
    over_bound: int
    furthest_over: list[tuple[_Call, int, Usage, int | None]]
    granted: int
    past_cap: int
    past_cap_example: str | None


_AS_THEY_ARE = (
    "total", "by_session", "by_model", "by_role", "caps", "released_calls", "unreserved", "over_bound",
    "granted", "past_cap", "past_cap_example",
)  # fmt: skip


def ledger_parts(ledger: Ledger) -> dict[str, bytes]:
    """The ledger as named pieces of bytes."""
    held = _Ledger(
        reserved=_written(ledger.reserved.values()),
        in_doubt=_written(ledger.in_doubt.values()),
        corrected=[(_write(one.call), *one[1:]) for one in ledger.corrected.values()],
        cap_changes=[(one.sequence, one.time_ns, one.before, one.now) for one in ledger.cap_changes],
        furthest_over=[(_write(one.call), *one[1:]) for one in ledger.furthest_over],
        **{name: getattr(ledger, name) for name in _AS_THEY_ARE},
    )
    return {_LEDGER: msgspec.msgpack.encode(held)}


def ledger_of_parts(parts: Mapping[str, bytes | memoryview]) -> Ledger:
    """The ledger that `ledger_parts` made the pieces of."""
    held = msgspec.msgpack.decode(parts[_LEDGER], type=_Ledger)
    ledger = Ledger()
    for name in _AS_THEY_ARE:
        setattr(ledger, name, getattr(held, name))
    ledger.reserved = {one.name: _call(one, ledger) for one in held.reserved}
    ledger.in_doubt = {one.name: _call(one, ledger) for one in held.in_doubt}
    ledger.corrected = {one[0].name: Correction(_call(one[0], ledger), *one[1:]) for one in held.corrected}
    ledger.cap_changes = [CapChange(*change) for change in held.cap_changes]
    ledger.furthest_over = [OverBound(_call(one[0], ledger), *one[1:]) for one in held.furthest_over]
    return ledger


def _written(calls: Iterable[Call]) -> list[_Call]:
    return [_write(call) for call in calls]


def _write(call: Call) -> _Call:
    return _Call(*[getattr(call, name) for name in _Call.__struct_fields__])


def _call(one: _Call, ledger: Ledger) -> Call:
    fields = {name: getattr(one, name) for name in _Call.__struct_fields__}
    return Call(**fields, groups=ledger.groups(one.session, one.model, one.role))
