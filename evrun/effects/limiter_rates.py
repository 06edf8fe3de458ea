"""How much may be asked for in a minute: what was sent in the last sixty seconds, counted exactly."""

from collections import deque
from collections.abc import Callable

MINUTE_S = 60.0


class Permit:
    """One request that was let through: when, and the tokens that it may take or is known to have taken."""

    __slots__ = ("at", "tokens")

    def __init__(self, at: float, tokens: int) -> None:
        self.at = at
        self.tokens = tokens


class Rates:
    """At most `rpm` requests and `tpm` tokens within any sixty seconds; null: as many as you like.

    A request that alone takes more than `tpm` passes when nothing else was sent within the minute before.
    """

    def __init__(self, rpm: int | None, tpm: int | None, clock: Callable[[], float]) -> None:
        self._rpm = rpm
        self._tpm = tpm
        self._clock = clock
        self._sent: deque[Permit] = deque()
        self._tokens = 0

    def wait_s(self, tokens: int) -> float:
        """Seconds until a request of so many tokens may be sent, if nobody else sends; 0: now."""
        now = self._clock()
        self._forget(now)
        return max(self._requests_free_at(now), self._tokens_free_at(tokens, now)) - now

    def take(self, tokens: int) -> Permit:
        """Count a request as sent now. Whoever asks has just been told that it need not wait."""
        permit = Permit(self._clock(), tokens)
        self._sent.append(permit)
        self._tokens += tokens
        return permit

    def correct(self, permit: Permit, tokens: int) -> None:
        """What a request really took, or may still have taken."""
        if self._sent and permit.at >= self._sent[0].at:
            self._tokens += tokens - permit.tokens
        permit.tokens = tokens

    def _forget(self, now: float) -> None:
        while self._sent and self._sent[0].at + MINUTE_S <= now:
            self._tokens -= self._sent.popleft().tokens

    def _requests_free_at(self, now: float) -> float:
        if self._rpm is None or len(self._sent) < self._rpm:
            return now
        return self._sent[len(self._sent) - self._rpm].at + MINUTE_S

    def _tokens_free_at(self, tokens: int, now: float) -> float:
        if self._tpm is None:
            return now
        left = self._tokens
        room = self._tpm - min(tokens, self._tpm)
        for permit in self._sent:
            if left <= room:
                return now
            left -= permit.tokens
            now = max(now, permit.at + MINUTE_S)
        return now
