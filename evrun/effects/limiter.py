"""One gate for the whole run: while a provider asks to wait, nobody sends."""

from collections.abc import Awaitable, Callable

import anyio

from .clock import monotonic, random_bytes

SPREAD_SHARE = 0.25
LONGEST_SPREAD_S = 5.0


class Limiter:
    """Shared by all workers of a run.

    After a wait the workers go on one by one, spread over a quarter of the wait (at most 5 s), so that they
    do not all knock at the same moment. Never earlier than was asked for.
    """

    def __init__(self) -> None:
        self._until = 0.0
        self._spread_s = 0.0

    def pause_until(self, wait_s: float) -> None:
        """Let nobody pass for `wait_s` seconds from now. A longer wait that runs already stays."""
        until = monotonic() + max(wait_s, 0.0)
        if until > self._until:
            self._until = until
            self._spread_s = min(wait_s * SPREAD_SHARE, LONGEST_SPREAD_S)

    @property
    def left_s(self) -> float:
        """Seconds for which nobody will send yet; 0 when the gate is open."""
        return max(self._until - monotonic(), 0.0)

    async def pass_gate(
        self,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Return when sending is allowed; at once when no wait runs, or when `stopping` says so.

        `sleep` may return early; a wait that grew in the meantime is waited for too.
        """
        place = None
        while (left := self.left_s) > 0 and not stopping():
            place = _fraction() if place is None else place
            await sleep(left + place * self._spread_s)


def _fraction() -> float:
    """A random number from 0 to below 1."""
    return int.from_bytes(random_bytes(4), "big") / 2**32
