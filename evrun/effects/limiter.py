"""One gate for the whole run: while a provider asks to wait, nobody sends; and so many a minute, no more."""

from collections.abc import Awaitable, Callable, Sized

import anyio

from .clock import monotonic, random_bytes
from .limiter_rates import Permit, Rates

FREE = Permit(0.0, 0)
"""The permit of a run without rates: nothing is counted."""
LOOK_S = 0.5
"""Whoever waits for a rate looks so often whether answers took less than was thought."""
BYTES_PER_TOKEN = 3
SPREAD_SHARE = 0.25
LONGEST_SPREAD_S = 5.0


class Limiter:
    """Shared by all workers of a run, whatever they send for. Must be used on one running event loop.

    `rpm` and `tpm` are the most requests and tokens within any minute (null: any number). After a wait the
    workers go on one by one, spread over a quarter of the wait (at most 5 s), so that they do not all knock
    at the same moment. Never earlier than was asked for.
    """

    def __init__(self, rpm: int | None = None, tpm: int | None = None) -> None:
        self._until = 0.0
        self._spread_s = 0.0
        limited = rpm is not None or tpm is not None
        self._rates = Rates(rpm, tpm, monotonic) if limited else None
        self._counts_tokens = tpm is not None
        self._turn = anyio.Lock()
        self._largest_output = 0

    def pause_until(self, wait_s: float) -> None:
        """Let nobody pass for `wait_s` seconds from now. A longer wait that runs already stays."""
        until = monotonic() + max(wait_s, 0.0)
        if until > self._until:
            self._until = until
            self._spread_s = min(wait_s * SPREAD_SHARE, LONGEST_SPREAD_S)

    @property
    def left_s(self) -> float:
        """Seconds for which nobody will send yet; 0 when the gate is open."""
        return max(self._until - monotonic(), 0.0) if self._until else 0.0

    @property
    def open(self) -> bool:
        """Whether nobody has to wait, for whatever is sent."""
        return self._rates is None and not self.left_s

    async def pass_gate(
        self,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        stopping: Callable[[], bool] = lambda: False,
        tokens: int = 0,
    ) -> None:
        """Return when a request of so many tokens may be sent, or when `stopping` says so.

        `sleep` may return early; a wait that grew in the meantime is waited for too.
        """
        await self._pause_over(sleep, stopping)
        if self._rates is None:
            return
        # In the order in which they came: else a large request might wait for ever behind small ones.
        async with self._turn:
            while not stopping() and (left := self._rates.wait_s(tokens)) > 0:
                await sleep(min(left, LOOK_S))
                await self._pause_over(sleep, stopping)

    def take(self, tokens: int = 0) -> Permit | None:
        """Send at this very moment; null where the gate has shut since it was passed, for another try."""
        if self.left_s:
            return None
        if self._rates is None:
            return FREE
        return self._rates.take(tokens) if self._rates.wait_s(tokens) <= 0 else None

    def asked(self, body: Sized, output_tokens: int | None) -> int:
        """The tokens that a request counts as until it is known what it took.

        Of its text a third of the bytes, which most texts do not reach: a bound would let one go at a time.
        Of its output the cap; where there is none, as much as the largest answer so far.
        """
        if not self._counts_tokens:
            return 0
        output = self._largest_output if output_tokens is None else output_tokens
        return len(body) // BYTES_PER_TOKEN + output

    def settle(self, permit: Permit, input_tokens: int | None, output_tokens: int | None) -> None:
        """What a request took. Where an endpoint does not say, it stays at what was thought."""
        if self._rates is None or not self._counts_tokens or input_tokens is None or output_tokens is None:
            return
        self._largest_output = max(self._largest_output, output_tokens)
        self._rates.correct(permit, input_tokens + output_tokens)

    async def _pause_over(
        self, sleep: Callable[[float], Awaitable[object]], stopping: Callable[[], bool]
    ) -> None:
        place = None
        while (left := self.left_s) > 0 and not stopping():
            place = _fraction() if place is None else place
            await sleep(left + place * self._spread_s)


def _fraction() -> float:
    """A random number from 0 to below 1."""
    return int.from_bytes(random_bytes(4), "big") / 2**32
