"""Who may reserve what: the one place that keeps settled + in doubt + reserved within the caps.

What is queued for the log but not durable yet counts as reserved. Money is free again only when what frees it
is durable, because only then it is folded.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

import anyio

from eventlog.events import BudgetExhausted, BudgetReserved, Recorded
from projections import WARNING_PERCENTS, BatchState, Ledger

from .bounds import Bound
from .caps import CAP_OPTIONS, MONEY, amount
from .rates import Price

OWN = "own"
"""The model that is named where an agent or a learner pays by itself, outside evrun."""
WATCHED = ("usd", "tokens", "calls")
WARNED = (*WATCHED, "hours")


class Shortage(NamedTuple):
    """The next call does not fit under `cap`: what it may take, and what is left."""

    cap: str
    asked: int
    left: int

    @property
    def event(self) -> BudgetExhausted:
        """The fact to record."""
        return BudgetExhausted(self.cap, self.asked, self.left)


class Part(NamedTuple):
    """A cap on a part of the run: what is `left` of it, but for what is queued for `includes` its calls.

    With `lasting` no waiting can change that it is short.
    """

    cap: str
    left: int
    includes: Callable[[BudgetReserved], bool]
    lasting: bool = False


Parts = Callable[[str, str], Iterable[Part]]
"""The caps on money, beside those of the whole run, that a call of a unit and role is under."""


def no_parts(_unit: str, _role: str) -> Iterable[Part]:
    """Nothing but the caps of the whole run."""
    return ()


class Budget:
    """The caps of a run against its ledger. Must be used on one running event loop.

    `active_ns` tells for how long the run has been worked on, in all sessions. `say` gets one sentence when
    50, 80 and 95 % of a cap are spent or in doubt, or of its time are gone. `parts` are caps on parts of the
    run; `options` is what a person sets each cap by.
    """

    def __init__(
        self,
        ledger: Ledger,
        active_ns: Callable[[], int],
        say: Callable[[str], None],
        *,
        parts: Parts = no_parts,
        options: Mapping[str, str] = CAP_OPTIONS,
    ) -> None:
        self._ledger = ledger
        self._active_ns = active_ns
        self._say = say
        self._parts = parts
        self._options = options
        self._queued: dict[str, BudgetReserved] = {}
        self._turn = anyio.Lock()
        self._waiting: Counter[str] = Counter()
        self._changed = anyio.Event()
        self._warned = {cap: self._percent(cap) for cap in WARNED}

    @property
    def capped(self) -> bool:
        """Whether any cap is in force."""
        return bool(self._ledger.caps)

    def refusal(
        self, bound: Bound, price: Price | None, *, role: str = "rollout", unpriced: bool = True
    ) -> str | None:
        """Why a call without a bound may not be made under the caps in force; null if it may.

        `unpriced`: models without a price may be asked, and their calls are counted as such.
        """
        if not self._ledger.caps:
            return None
        may = price is None and unpriced
        names = (*MONEY, "step_usd", f"role_usd.{role}")
        caps = [cap for cap in names if cap in self._ledger.caps and bound.nano_usd is None and not may]
        if "tokens" in self._ledger.caps and (bound.media or bound.output_tokens is None):
            caps.append("tokens")
        if not caps:
            return None
        option = self._options[caps[0]]
        return f"{option} is in force, and nobody can say what this request may take at most: {bound.how}"

    def words(self, short: Shortage) -> str:
        """What is short, for people, with the option that would change it."""
        option = self._options[short.cap]
        if short.cap == "hours":
            return f"the time is used up ({option})"
        left = amount(short.cap, max(short.left, 0))
        return f"the next call may take {amount(short.cap, short.asked)}, and {left} are left ({option})"

    async def room(
        self,
        unit: str,
        bound: Bound,
        stopped: Callable[[], Awaitable[None]],
        stopping: Callable[[], bool],
        *,
        role: str = "rollout",
    ) -> Shortage | None:
        """Wait until a call fits; return what is short if it never will, null if it fits or the run stops.

        Whoever gets null must queue the reservation, and tell `queue`, without any await in between. Calls
        wait in the order in which they came: else one with a large bound might wait for ever.
        """
        if not self.capped:
            return None
        self._waiting[unit] += 1
        self._wake()  # what this unit holds itself, if anything, will not become free before it is served
        try:
            async with self._turn:
                while not stopping():
                    short, lasting = self._shortage(unit, role, bound)
                    if short is None or lasting or not self._may_become_free():
                        return short
                    await self._wait(stopped)
        finally:
            self._waiting[unit] -= 1
            if not self._waiting[unit]:
                del self._waiting[unit]
        return None

    def queue(self, reserved: BudgetReserved) -> None:
        """A reservation is on its way into the log."""
        if self.capped:
            self._queued[reserved.call] = reserved

    def withdraw(self, call: str) -> None:
        """A reservation is certainly not in the log."""
        if self._queued.pop(call, None) is not None:
            self._wake()

    def see(self, record: Recorded) -> None:
        """An event is durable and folded."""
        if self._queued and isinstance(record.event, BudgetReserved):
            self._queued.pop(record.event.call, None)
        if self._ledger.caps:
            self._wake()
            self._warn()

    def _may_become_free(self) -> bool:
        """Whether something is reserved that is settled without anybody here being served first.

        What an agent has set aside for what it pays by itself is settled when it ends: not before a call of
        it, or of what works for it, that waits here.
        """
        held = [(one.model, one.unit) for one in self._ledger.reserved.values()]
        held += [(one.model, one.unit) for one in self._queued.values()]
        return any(model != OWN or not self._waits(unit) for model, unit in held)

    def _waits(self, unit: str) -> bool:
        return any(one == unit or one.startswith(f"{unit}/") for one in self._waiting)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _wait(self, stopped: Callable[[], Awaitable[None]]) -> None:
        """Until something may have become free, or the run stops."""
        changed = self._changed
        async with anyio.create_task_group() as group:

            async def or_stopped() -> None:
                await stopped()
                group.cancel_scope.cancel()

            group.start_soon(or_stopped)
            await changed.wait()
            group.cancel_scope.cancel()

    def _shortage(self, unit: str, role: str, bound: Bound) -> tuple[Shortage | None, bool]:
        """What is short, and whether that lasts: others are reserved, and usually settle below their bound.

        First what no waiting can change, so that nobody waits for it in vain.
        """
        tokens = bound.input_tokens + (bound.output_tokens or 0)
        asked = {"usd": bound.nano_usd or 0, "tokens": tokens, "calls": 1}
        parts = sorted(self._parts(unit, role), key=lambda part: not part.lasting)
        for part in parts:
            if part.lasting and asked["usd"] > part.left:
                return Shortage(part.cap, asked["usd"], part.left), True
        limit = self._ledger.caps.get("hours")
        if limit is not None and self._active_ns() >= limit:
            return Shortage("hours", 0, limit - self._active_ns()), True
        for cap in WATCHED:
            left = self._left(cap)
            if left is not None and asked[cap] > left:
                return Shortage(cap, asked[cap], left), False
        for part in parts:
            queued = sum(one.bound_nano_usd or 0 for one in self._queued.values() if part.includes(one))
            if asked["usd"] > part.left - queued:
                return Shortage(part.cap, asked["usd"], part.left - queued), False
        return None, False

    def _left(self, cap: str) -> int | None:
        left = self._ledger.left(cap)
        if left is None or not self._queued:
            return left
        queued = self._queued.values()
        match cap:
            case "usd":
                return left - sum(one.bound_nano_usd or 0 for one in queued)
            case "tokens":
                return left - sum(one.bound_input_tokens + (one.bound_output_tokens or 0) for one in queued)
            case _:
                return left - len(queued)

    def _percent(self, cap: str) -> int:
        limit = self._ledger.caps.get(cap)
        if not limit:
            return 0
        used = self._active_ns() if cap == "hours" else self._ledger.used(cap)
        return 100 * used // int(limit)

    def _warn(self) -> None:
        for cap in WARNED:
            percent, before = self._percent(cap), self._warned[cap]
            passed = [level for level in WARNING_PERCENTS if before < level <= percent]
            if passed:
                self._warned[cap] = percent
                limit = amount(cap, int(self._ledger.caps[cap]))
                how = "gone" if cap == "hours" else "spent or in doubt"
                self._say(f"{passed[-1]} % of {limit} are {how} ({self._options[cap]})")


def prompt_parts(ledger: Ledger, batch: BatchState) -> Parts:
    """A batch run's cap on each prompt: what its calls cost or may cost, in all its attempts.

    What a prompt has reserved itself is settled before it asks again.
    """
    doubts = _Doubts(ledger)

    def parts(unit: str, _role: str) -> Iterable[Part]:
        limit = ledger.caps.get("prompt_usd")
        if limit is None:
            return
        known = batch.units.get(unit)
        spent = 0 if known is None else known.all_nano_usd
        yield Part("prompt_usd", limit - spent - doubts.of(unit), lambda _: False, lasting=True)

    return parts


class _Doubts:
    """What is in doubt of each unit, without a look at all doubts for each call."""

    def __init__(self, ledger: Ledger) -> None:
        self._calls = ledger.in_doubt
        self._by_unit: dict[str, set[str]] = {}
        self._newest: str | None = None

    def of(self, unit: str) -> int:
        """The bounds of a unit's calls in doubt, together."""
        self._look_at_new_ones()
        calls = (self._calls.get(name) for name in self._by_unit.get(unit, ()))
        return sum(call.bound_nano_usd or 0 for call in calls if call is not None)

    def _look_at_new_ones(self) -> None:
        """The newest stand last; where the one that was newest is gone, all are looked at again."""
        newest = next(reversed(self._calls), None)
        if newest == self._newest:
            return
        for name in reversed(self._calls):
            if name == self._newest:
                break
            self._by_unit.setdefault(self._calls[name].unit, set()).add(name)
        self._newest = newest
