"""How long to wait before trying again where nobody said how long: exponential, with jitter."""

from tenacity import RetryCallState, wait_exponential, wait_random_exponential

FIRST_S = 0.5
LONGEST_S = 30.0

# Half of each wait is certain and half is drawn, also at the longest: callers never fall into step.
_strategy = wait_exponential(multiplier=FIRST_S / 2, max=LONGEST_S / 2) + wait_random_exponential(
    multiplier=FIRST_S / 2, max=LONGEST_S / 2
)


def backoff_s(attempt: int) -> float:
    """Seconds to wait after the failed try number `attempt`, counted from 0.

    Between half and the whole of 0.5, 1, 2, 4 … seconds, never more than 30.
    """
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]  # waits only count
    state.attempt_number = max(attempt, 0) + 1
    return float(_strategy(state))
