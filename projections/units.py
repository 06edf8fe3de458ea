"""Units of work: their names, where each one stands, and the key that makes a repeat harmless."""

import hashlib
import re
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

_NAME: Final = re.compile(r"prompt:([0-9a-f]{32})#(0|[1-9][0-9]{0,19})\.(0|[1-9][0-9]{0,19})", re.ASCII)


class PlannedUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit's place: in the dataset, and in the plan.

    The row is the `position`-th (from 0) of the `PromptsPlanned` event with sequence `planned`. `index` is
    the row's place in the dataset; `batch` and `sample` count from 1.
    """

    index: int
    batch: int
    planned: int
    position: int
    sample: int


def unit_name(content: bytes, occurrence: int, sample: int) -> str:
    """The name of a unit: ``prompt:<content id in hex>#<occurrence>.<sample>``, numbers from 1."""
    return f"prompt:{content.hex()}#{occurrence}.{sample}"


def unit_key(name: str) -> tuple[bytes, int, int] | None:
    """What a unit's name says: content id, occurrence, sample; null for any other text."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    content, occurrence, sample = match.groups()
    return bytes.fromhex(content), int(occurrence), int(sample)


def idempotency_key(unit: str, attempt: int, request_digest: bytes) -> str:
    """The key that a request and all its repeats carry, so that a provider knows a repeat.

    Another attempt at the same unit wants another answer, so it has keys of its own.
    """
    digest = hashlib.sha256(b"%b\0%d\0%b" % (unit.encode(), attempt, request_digest)).hexdigest()
    return f"evrun-{digest[:32]}"
