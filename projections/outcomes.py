"""What became of the money: by the outcome of the work, and by prompt."""

import heapq
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from .batch import BatchState
from .calls import Call
from .money import usd
from .spend import Ledger
from .unit_rows import Unit
from .units import DISCARDED, FAILED, KEPT, OPEN


def settled_by_outcome(batch: BatchState) -> dict[str, int]:
    """Settled nano-USD by what became of the work; the parts add up to the whole.

    ``superseded`` is what attempts cost that no longer stand for their unit; ``other`` what calls cost that
    belong to no unit.
    """
    sums = dict.fromkeys((KEPT, DISCARDED, FAILED, "superseded", OPEN, "other"), 0)
    sums["superseded"] = batch.superseded_nano_usd
    sums["other"] = batch.other_nano_usd
    return sums | batch.settled


def by_prompt(
    ledger: Ledger, batch: BatchState, *, live: bool, top: int | None = None
) -> list[dict[str, Any]]:
    """Units by what all their attempts cost, the dearest first; the first `top` of them.

    With what calls cost that belong to no unit, they add up to the whole.
    """
    doubts = _by_unit(calls_in_doubt(ledger, live=live))
    reserved = _by_unit(ledger.reserved.values() if live else ())
    units = (unit for unit in batch.units.values() if unit.attempt or unit.all_nano_usd)
    dearest = sorted(units, key=_dearness) if top is None else heapq.nsmallest(max(top, 0), units, _dearness)
    return [
        {
            "unit": (name := unit.name),
            "prompt_index": unit.index,
            "outcome": unit.outcome,
            "attempts": unit.attempt,
            "settled_usd": usd(unit.all_nano_usd),
            "superseded_usd": usd(unit.earlier_nano_usd),
            "in_doubt_usd": _bounds(doubts.get(name, ())),
            "reserved_usd": _bounds(reserved.get(name, ())),
        }
        for unit in dearest
    ]


def _dearness(unit: Unit) -> tuple[int, int, int]:
    return -unit.all_nano_usd, unit.index, unit.sample


def calls_in_doubt(ledger: Ledger, *, live: bool) -> list[Call]:
    """The calls of which nobody knows what they cost, in the order in which they were reserved."""
    calls: Iterable[Call] = ledger.in_doubt.values()
    if not live:
        calls = [*calls, *ledger.reserved.values()]
    return sorted(calls, key=lambda call: (call.reserved_ns, call.session, call.name))


def committed_by_prompt(ledger: Ledger, batch: BatchState) -> tuple[str, int] | None:
    """The unit whose calls cost most or may have, and how much in nano-USD; null where none was begun."""
    bounds: Counter[str] = Counter()
    for call in (*ledger.in_doubt.values(), *ledger.reserved.values()):
        bounds[call.unit] += call.bound_nano_usd or 0
    sums = ((name, unit.all_nano_usd + bounds[name]) for name, unit in batch.units.items() if unit.attempt)
    return max(sums, key=itemgetter(1), default=None)


def _by_unit(calls: Iterable[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.unit, []).append(call)
    return found


def _bounds(calls: Iterable[Call]) -> str | None:
    """The sum of the calls' bounds; null where one has none."""
    bounds = [call.bound_nano_usd for call in calls]
    return None if None in bounds else usd(sum(bound or 0 for bound in bounds))
