"""Time, randomness and ids: their only home on the acting side."""

import os
import time

now_ns = time.time_ns
"""The wall clock: nanoseconds since the epoch, UTC."""

monotonic = time.monotonic
"""Seconds from an arbitrary start; never goes back."""

random_bytes = os.urandom
"""Bytes that nobody can guess."""


class CallIds:
    """Ids of model calls: ``s<session>.c<number>``, unique in a run because session numbers are.

    Those that a worker of a cluster makes have its number too: ``s<session>n<worker>.c<number>``.
    """

    def __init__(self, session: int, worker: int | None = None) -> None:
        place = "" if worker is None else f"n{worker}"
        self.prefix = f"s{session}{place}.c"
        self._number = 0

    def next(self) -> str:
        """The next id."""
        self._number += 1
        return f"{self.prefix}{self._number}"
