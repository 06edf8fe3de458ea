"""One byte for each unit: how it stands, and what is true of it."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from .units import DISCARDED, FAILED, KEPT, OPEN, PENDING, WITHDRAWN

# A new unit is pending and nothing else is true of it: its byte is 0. The numbers are in snapshots.
_BY_CODE: Final = (PENDING, OPEN, KEPT, DISCARDED, FAILED, WITHDRAWN)
CODES: Final = {outcome: code for code, outcome in enumerate(_BY_CODE)}
OUTCOME_BITS: Final = 0b111
GONE: Final = 0b1000
UNKNOWN_TOOLS: Final = 0b10000
SCORED: Final = 0b100000
_ALL: Final = 1 << 6

OUTCOME_OF: Final = tuple(_BY_CODE[mark % 8] if mark % 8 < len(_BY_CODE) else "" for mark in range(_ALL))
"""The outcome by the whole byte."""


def marked(
    marks: bytearray | bytes, outcomes: Collection[str], also: int = 0, without: int = 0
) -> Iterator[int]:
    """The ordinals of the units with one of these outcomes, and with all marks `also`, none of `without`.

    Each is looked at when its turn comes, so `marks` may change and grow meanwhile.
    """
    wanted = bytes(
        mark
        for mark in range(_ALL)
        if OUTCOME_OF[mark] in outcomes and mark & also == also and not mark & without
    )
    if not wanted:
        return
    find = re.compile(b"[" + re.escape(wanted) + b"]").search
    ordinal = -1
    while found := find(marks, ordinal + 1):
        ordinal = found.start()
        yield ordinal
