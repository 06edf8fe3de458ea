"""Whether caps will suffice for the work that is left, as far as its bounds can say. Pure."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from projections import BatchState, Ledger

from ..caps import amount
from ..estimate import Estimate

Verdict = Literal["yes", "perhaps", "no", "unknown"]


class CapOutlook(NamedTuple):
    """A cap, what is left of it, the bounds of what is to come, and whether it suffices.

    Null bounds are not known. For the cap of a prompt all numbers are those of the prompt that fits worst.
    """

    cap: str
    limit: int
    left: int | None
    lower: int | None
    upper: int | None
    suffices: Verdict
    why: str


class _Need(NamedTuple):
    """What may be asked of a cap: at least, at most, and at once by the largest of the next calls."""

    lower: int | None
    upper: int | None
    first: int | None


class CapWatch:
    """Looks at each unit's bounds, and judges the caps when all were seen."""

    def __init__(self, caps: Mapping[str, int], ledger: Ledger, batch: BatchState) -> None:
        self._caps = caps
        self._ledger = ledger
        self._batch = batch
        self._doubts: dict[str, int] = {}
        for call in (*ledger.in_doubt.values(), *ledger.reserved.values()):
            self._doubts[call.unit] = self._doubts.get(call.unit, 0) + (call.bound_nano_usd or 0)
        self._worst: CapOutlook | None = None

    def see(self, unit: str, bounds: Estimate) -> None:
        """Look at one unit, for the cap of a prompt."""
        limit = self._caps.get("prompt_usd")
        if limit is None:
            return
        known = self._batch.units.get(unit)
        spent = 0 if known is None else known.all_nano_usd
        left = limit - spent - self._doubts.get(unit, 0)
        need = _Need(bounds.nano_lower, bounds.nano_upper, bounds.first_nano)
        found = _judged("prompt_usd", limit, left, need)
        found = found._replace(why=f"{unit}: {found.why}")
        if self._worst is None or _badness(found) > _badness(self._worst):
            self._worst = found

    def verdicts(self, bounds: Estimate) -> list[CapOutlook]:
        """Each cap in force, against the bounds of all the work that is left."""
        needs = {
            "usd": _Need(bounds.nano_lower, bounds.nano_upper, bounds.first_nano),
            "tokens": _Need(bounds.tokens_lower, bounds.tokens_upper, bounds.first_tokens),
            "calls": _Need(bounds.calls_lower, bounds.calls_upper, min(bounds.calls_upper, 1)),
        }
        found = [
            _judged(cap, self._caps[cap], self._caps[cap] - self._ledger.committed(cap), need)
            for cap, need in needs.items()
            if cap in self._caps
        ]
        if "hours" in self._caps:
            why = "how long the endpoint takes is not known beforehand"
            found.append(CapOutlook("hours", self._caps["hours"], None, None, None, "unknown", why))
        return found + ([self._worst] if self._worst is not None else [])


def _judged(cap: str, limit: int, left: int, need: _Need) -> CapOutlook:
    verdict, why = _verdict(cap, left, need)
    return CapOutlook(cap, limit, left, need.lower, need.upper, verdict, why)


def _verdict(cap: str, left: int, need: _Need) -> tuple[Verdict, str]:
    rest = f"{amount(cap, max(left, 0))} left"
    if need.lower is None:
        return "unknown", "the price is not known, and its calls are not counted under this cap"
    if need.lower > left:
        return "no", f"at least {amount(cap, need.lower)} are needed, {rest}"
    if need.first is not None and need.first > left:
        return "no", f"one call alone may take {amount(cap, need.first)}, {rest}"
    if need.upper is None:
        return "perhaps", f"nobody can say what is needed at most, {rest}"
    if need.upper > left:
        return "perhaps", f"at most {amount(cap, need.upper)} may be needed, {rest}"
    return "yes", f"at most {amount(cap, need.upper)} are needed, {rest}"


def _badness(found: CapOutlook) -> tuple[int, int]:
    order = ("yes", "unknown", "perhaps", "no")
    return order.index(found.suffices), (found.upper or found.lower or 0) - (found.left or 0)
