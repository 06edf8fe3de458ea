"""Who may reserve what: the one place that keeps settled + in doubt + reserved within the caps.

What is queued for the log but not durable yet counts as reserved. Money is free again only when what frees it
is durable, because only then it is folded.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio

from eventlog.events import BudgetExhausted, BudgetReserved, Recorded
from projections import WARNING_PERCENTS, BatchState, Ledger

from .bounds import Bound
from .caps import CAP_OPTIONS, MONEY, amount
from .rates import Price

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

    def __str__(self) -> str:
        option = CAP_OPTIONS[self.cap]
        if self.cap == "hours":
            return f"the time is used up ({option})"
        left = amount(self.cap, max(self.left, 0))
        return f"the next call may take {amount(self.cap, self.asked)}, and {left} are left ({option})"


class Budget:
    """The caps of a run against its ledger. Must be used on one running event loop.

    `active_ns` tells for how long the run has been worked on, in all sessions. `say` gets one sentence when
    50, 80 and 95 % of a cap are spent or in doubt, or of its time are gone.
    """

    def __init__(
        self, ledger: Ledger, batch: BatchState, active_ns: Callable[[], int], say: Callable[[str], None]
    ) -> None:
        self._ledger = ledger
        self._batch = batch
        self._active_ns = active_ns
        self._say = say
        self._queued: dict[str, BudgetReserved] = {}
        self._turn = anyio.Lock()
        self._changed = anyio.Event()
        self._warned = {cap: self._percent(cap) for cap in WARNED}

    @property
    def capped(self) -> bool:
        """Whether any cap is in force."""
        return bool(self._ledger.caps)

    def refusal(self, bound: Bound, price: Price | None) -> str | None:
        """Why a call without a bound may not be made under the caps in force; null if it may.

        A model without a price is another matter: whoever allowed that has its calls counted as unpriced.
        """
        caps = [
            cap for cap in MONEY if cap in self._ledger.caps and price is not None and bound.nano_usd is None
        ]
        if "tokens" in self._ledger.caps and (bound.media or bound.output_tokens is None):
            caps.append("tokens")
        if not caps:
            return None
        option = CAP_OPTIONS[caps[0]]
        return f"{option} is in force, and nobody can say what this request may take at most: {bound.how}"

    async def room(
        self, unit: str, bound: Bound, stopped: Callable[[], Awaitable[None]], stopping: Callable[[], bool]
    ) -> Shortage | None:
        """Wait until a call fits; return what is short if it never will, null if it fits or the run stops.

        Whoever gets null must queue the reservation, and tell `queue`, without any await in between. Calls
        wait in the order in which they came: else one with a large bound might wait for ever.
        """
        if not self.capped:
            return None
        async with self._turn:
            while not stopping():
                short = self._shortage(unit, bound)
                if short is None or not self._may_change(short):
                    return short
                await self._wait(stopped)
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
        if isinstance(record.event, BudgetReserved):
            self._queued.pop(record.event.call, None)
        if self.capped:
            self._wake()
            self._warn()

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

    def _may_change(self, short: Shortage) -> bool:
        """Others are reserved, and usually settle far below their bound. Not so a prompt's own, and time."""
        return short.cap in WATCHED and bool(self._ledger.reserved or self._queued)

    def _shortage(self, unit: str, bound: Bound) -> Shortage | None:
        """What is short. First what no waiting can change, so that nobody waits for it in vain."""
        tokens = bound.input_tokens + (bound.output_tokens or 0)
        asked = {"usd": bound.nano_usd or 0, "tokens": tokens, "calls": 1}
        limit = self._ledger.caps.get("prompt_usd")
        if limit is not None:
            left = limit - self._committed_by(unit)
            if asked["usd"] > left:
                return Shortage("prompt_usd", asked["usd"], left)
        limit = self._ledger.caps.get("hours")
        if limit is not None and self._active_ns() >= limit:
            return Shortage("hours", 0, limit - self._active_ns())
        for cap in WATCHED:
            left = self._left(cap)
            if left is not None and asked[cap] > left:
                return Shortage(cap, asked[cap], left)
        return None

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

    def _committed_by(self, unit: str) -> int:
        """What a prompt's calls cost or may cost, in all its attempts."""
        known = self._batch.units.get(unit)
        spent = 0 if known is None else known.all_nano_usd
        doubts = (call for call in self._ledger.in_doubt.values() if call.unit == unit)
        return spent + sum(call.bound_nano_usd or 0 for call in doubts)

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
                limit, how = amount(cap, int(self._ledger.caps[cap])), "spent or in doubt"
                self._say(
                    f"{passed[-1]} % of {limit} are {'gone' if cap == 'hours' else how} ({CAP_OPTIONS[cap]})"
                )
