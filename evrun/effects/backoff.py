"""How long to wait before trying again where nobody said how long: exponential, with jitter."""

from collections.abc import Callable
from functools import cache
from typing import Any

FIRST_S = 0.5
LONGEST_S = 30.0


def backoff_s(attempt: int) -> float:
    """Seconds to wait after the failed try number `attempt`, counted from 0.

    Between half and the whole of 0.5, 1, 2, 4 … seconds, never more than 30.
    """
    from tenacity import RetryCallState  # noqa: PLC0415  (only where a try has failed)

    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]  # waits only count
    state.attempt_number = max(attempt, 0) + 1
    return float(_strategy()(state))


@cache
def _strategy() -> Callable[[Any], float]:
    """Half of each wait is certain and half is drawn, also at the longest: callers never fall into step."""
    from tenacity import wait_exponential, wait_random_exponential  # noqa: PLC0415  (as above)

    half = {"multiplier": FIRST_S / 2, "max": LONGEST_S / 2}
    return wait_exponential(**half) + wait_random_exponential(**half)
