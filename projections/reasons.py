"""The quality rules by name: what was found, and the option that keeps such trajectories after all."""

from collections.abc import Mapping
from typing import NamedTuple


class Remedy(NamedTuple):
    """What is the matter with such trajectories, and the option of a resume that takes them in again."""

    found: str
    option: str


REMEDIES: Mapping[str, Remedy] = {
    "no_reasoning": Remedy("their answers show no reasoning", "--resume --keep-all"),
    "unknown_tool": Remedy(
        "they called tools that were not offered", "--resume --keep-all, or --resume --unknown-tools keep"
    ),
    "low_score": Remedy("the judge scored them below --min-score", "--resume with a lower --min-score"),
}


def remedy(reason: str) -> str | None:
    """How to keep what was set aside for this reason, as the end of a sentence; null where nobody knows."""
    known = REMEDIES.get(reason)
    return None if known is None else f"{known.option} takes them in again without a call"
