"""The units, attempts and facts of a run of prompts as bytes, and back."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from eventlog.events import BudgetExhausted, InputDigest

from .batch import BatchState
from .conversation import Attempt, Turn
from .open_attempts import OpenAttempts
from .own_fields import OwnFields
from .sessions import Session
from .tally import Tally
from .unit_table import UnitTable

_FACTS, _OPEN, _UNITS = "batch", "open", "units."


class _Facts(msgspec.Struct, array_like=True):
    """All of a `BatchState` but its units and open attempts, by the names that it has there."""

    kind: str
    run: str
    settings: dict[str, Any]
    toolsets: dict[str, list[dict[str, Any]]]
    tools: set[str]
    versions: dict[str, str]
    inputs: list[InputDigest]
    sessions: list[Session]
    started_ns: int | None
    finished_ns: int | None
    exhausted: BudgetExhausted | None
    last_ns: int
    sequence: int
    plan_complete: bool
    batches: int
    complete_batches: int
    rows_skipped: int
    counts: dict[str, int]
    own_fields: Any
    kept: Tally
    filtered_by_reason: dict[str, int]
    failed_by_class: dict[str, int]
    settled: dict[str, int]
    superseded_attempts: int
    superseded_nano_usd: int
    other_nano_usd: int
    unexplained: int


class _Open(msgspec.Struct, array_like=True):
    attempts: list[Attempt]
    calls: dict[str, str]


_encode = msgspec.msgpack.Encoder().encode


def batch_parts(batch: BatchState) -> dict[str, bytes]:
    """The state as named pieces of bytes."""
    fields = {name: getattr(batch, name) for name in _Facts.__struct_fields__ if name != "own_fields"}
    facts = _Facts(**fields, own_fields=batch.own_fields.record())
    return {
        _FACTS: _encode(facts),
        _OPEN: _encode(_Open([_bare(one) for one in batch.open.values()], batch.open.calls)),
    } | {_UNITS + name: part for name, part in batch.units.parts().items()}


def batch_of_parts(parts: Mapping[str, bytes | memoryview]) -> BatchState:
    """The state that `batch_parts` made the pieces of."""
    batch = BatchState()
    facts = msgspec.msgpack.decode(parts[_FACTS], type=_Facts)
    for name in _Facts.__struct_fields__:
        setattr(batch, name, getattr(facts, name))
    batch.own_fields = OwnFields.of_record(facts.own_fields)
    batch.filtered_by_reason = Counter(facts.filtered_by_reason)
    batch.failed_by_class = Counter(facts.failed_by_class)
    held = msgspec.msgpack.decode(parts[_OPEN], type=_Open)
    batch.open = OpenAttempts.of(held.attempts, held.calls)
    batch.units = UnitTable.of_parts(
        {name.removeprefix(_UNITS): part for name, part in parts.items() if name.startswith(_UNITS)}
    )
    return batch


def _bare(attempt: Attempt) -> Attempt:
    """The attempt without what is read from its answers again when it is needed."""
    if all(turn.parsed is None for turn in (*attempt.turns, *attempt.judgings)):
        return attempt
    return msgspec.structs.replace(
        attempt,
        turns=[_bare_turn(turn) for turn in attempt.turns],
        judgings=[_bare_turn(turn) for turn in attempt.judgings],
    )


def _bare_turn(turn: Turn) -> Turn:
    return msgspec.structs.replace(turn, parsed=None)
