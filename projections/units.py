"""Units of work: their names, where each one stands, and the key that makes a repeat harmless."""

import hashlib
import re
from functools import lru_cache
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

_BEGINNING: Final = "prompt:"
_NUMBERS_AT: Final = len(_BEGINNING) + 32
_NUMBERS: Final = re.compile(r"#(0|[1-9][0-9]{0,19})\.(0|[1-9][0-9]{0,19})", re.ASCII)


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
    numbers, digits = _numbers(name[_NUMBERS_AT:]), name[len(_BEGINNING) : _NUMBERS_AT]
    if numbers is None or not name.startswith(_BEGINNING):
        return None
    try:
        content = bytes.fromhex(digits)
    except ValueError:
        return None
    return (content, *numbers) if content.hex() == digits else None


@lru_cache(maxsize=1024)
def _numbers(text: str) -> tuple[int, int] | None:
    """Occurrence and sample: the end of a name; most names end alike."""
    match = _NUMBERS.fullmatch(text)
    return None if match is None else (int(match[1]), int(match[2]))


def idempotency_key(unit: str, attempt: int, request_digest: bytes) -> str:
    """The key that a request and all its repeats carry, so that a provider knows a repeat.

    Another attempt at the same unit wants another answer, so it has keys of its own.
    """
    digest = hashlib.sha256(b"%b\0%d\0%b" % (unit.encode(), attempt, request_digest)).hexdigest()
    return f"evrun-{digest[:32]}"
