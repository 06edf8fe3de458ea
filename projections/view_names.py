"""The names of the view files, and which of them a unit's row is in."""

import re
from typing import Final

from .unit_rows import Unit
from .units import DISCARDED, FAILED, KEPT

CHECKPOINT: Final = "checkpoint.json"
STATISTICS: Final = "statistics.json"
TRAJECTORIES: Final = "trajectories.jsonl"
DISCARDED_ROWS: Final = "discarded.jsonl"
FAILED_ROWS: Final = "failed.jsonl"
OPENAI_OUTPUT: Final = "openai_output.jsonl"
OPENAI_ERRORS: Final = "openai_errors.jsonl"

_BATCH = re.compile(r"batch_([1-9][0-9]*)\.jsonl")


def batch_name(batch: int) -> str:
    """The file of a batch's kept rows."""
    return f"batch_{batch}.jsonl"


def batch_number(name: str) -> int | None:
    """The batch whose file this is; null for any other name."""
    match = _BATCH.fullmatch(name)
    return None if match is None else int(match[1])


def is_view(name: str) -> bool:
    """Whether this is the name of a view file."""
    return name in _NAMES or batch_number(name) is not None


OTHER_ROWS: Final = frozenset({DISCARDED_ROWS, FAILED_ROWS, OPENAI_OUTPUT, OPENAI_ERRORS})
_NAMES: Final = frozenset({CHECKPOINT, STATISTICS, TRAJECTORIES, *OTHER_ROWS})


def row_file(unit: Unit) -> str | None:
    """The file that holds the unit's row; null while it has not ended."""
    if unit.outcome == KEPT:
        return batch_name(unit.batch)
    return {DISCARDED: DISCARDED_ROWS, FAILED: FAILED_ROWS}.get(unit.outcome)


def openai_file(unit: Unit) -> str | None:
    """The file that holds the answer to a unit's batch line, or its error; null while it has not ended.

    An answer is one whatever the quality rules make of it.
    """
    if unit.outcome in {KEPT, DISCARDED}:
        return OPENAI_OUTPUT
    return OPENAI_ERRORS if unit.outcome == FAILED else None


def row_file_order(name: str) -> tuple[int, str]:
    """A sort key: batch files in numeric order, then the others."""
    number = batch_number(name)
    return (1 << 62, name) if number is None else (number, "")
