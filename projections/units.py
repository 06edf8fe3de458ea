"""Units of work: their names, where each one stands, and the key that makes a repeat harmless."""

import hashlib
from typing import Final

import msgspec

PENDING: Final = "pending"
OPEN: Final = "open"
KEPT: Final = "kept"
DISCARDED: Final = "discarded"
FAILED: Final = "failed"
WITHDRAWN: Final = "withdrawn"

# The order in which counts are shown.
OUTCOMES: Final = (KEPT, DISCARDED, FAILED, OPEN, PENDING, WITHDRAWN)
ENDED: Final = frozenset({KEPT, DISCARDED, FAILED})


class Unit(msgspec.Struct, gc=False):
    """One prompt's one sample, in as few bytes as can be: a run may have very many.

    The row itself is not here: it is the `position`-th (from 0) of the `PromptsPlanned` event with sequence
    `planned`. `index` is the row's place in the dataset, `batch` counts from 1, `sample` from 1. `attempt`
    is the newest one (0: none yet), `boundary` the sequence of the event that ended it (0: none did).
    `settled_nano_usd` is what the newest attempt cost so far, `earlier_nano_usd` what superseded ones did.
    `reason` is why it was discarded, or the class of its failure, else null. `gone`: its row was withdrawn.
    """

    index: int
    batch: int
    planned: int
    position: int
    sample: int
    outcome: str = PENDING
    attempt: int = 0
    boundary: int = 0
    settled_nano_usd: int = 0
    earlier_nano_usd: int = 0
    reason: str | None = None
    gone: bool = False

    @property
    def all_nano_usd(self) -> int:
        """What all its attempts cost so far."""
        return self.settled_nano_usd + self.earlier_nano_usd

    def may_end(self, attempt: int) -> bool:
        """Whether an end of this attempt fits: it is the open one, or it ends without having begun.

        The latter is a row that cannot even be tried.
        """
        if self.outcome == OPEN:
            return attempt == self.attempt
        return self.outcome == PENDING and attempt > self.attempt


def unit_name(content: bytes, occurrence: int, sample: int) -> str:
    """The name of a unit: ``prompt:<content id in hex>#<occurrence>.<sample>``, numbers from 1."""
    return f"prompt:{content.hex()}#{occurrence}.{sample}"


def idempotency_key(unit: str, attempt: int, request_digest: bytes) -> str:
    """The key that a request and all its repeats carry, so that a provider knows a repeat.

    Another attempt at the same unit wants another answer, so it has keys of its own.
    """
    digest = hashlib.sha256(b"%b\0%d\0%b" % (unit.encode(), attempt, request_digest)).hexdigest()
    return f"evrun-{digest[:32]}"
