"""Distributions: which toolsets an attempt gets, drawn once and the same for ever. Pure.

Names and percents are those of the Hermes batch runner. Each toolset is drawn on its own, so several can be
on at once and the percents need not add up to anything.
"""

import hashlib
from collections.abc import Sequence

from ..errors import UsageFault

DISTRIBUTIONS: dict[str, dict[str, int]] = {
    "default": dict.fromkeys(("web", "vision", "image_gen", "terminal", "file", "moa", "browser"), 100),
    "image_gen": {"image_gen": 90, "vision": 90, "web": 55, "terminal": 45, "moa": 10},
    "research": {"web": 90, "browser": 70, "vision": 50, "moa": 40, "terminal": 10},
    "science": {
        "web": 94, "terminal": 94, "file": 94, "vision": 65, "browser": 50, "image_gen": 15, "moa": 10,
    },
    "development": {"terminal": 80, "file": 80, "moa": 60, "web": 30, "vision": 10},
    "safe": {"web": 80, "browser": 70, "vision": 60, "image_gen": 60, "moa": 50},
    "balanced": dict.fromkeys(("web", "vision", "image_gen", "terminal", "file", "moa", "browser"), 50),
    "minimal": {"web": 100},
    "terminal_only": {"terminal": 100, "file": 100},
    "terminal_web": {"terminal": 100, "file": 100, "web": 100},
    "creative": {"image_gen": 90, "vision": 90, "web": 30},
    "reasoning": {"moa": 90, "web": 30, "terminal": 20},
    "browser_use": {"browser": 100, "web": 80, "vision": 70},
    "browser_only": {"browser": 100},
    "browser_tasks": {"browser": 97, "vision": 12, "terminal": 15},
    "terminal_tasks": {"terminal": 97, "file": 97, "web": 97, "browser": 75, "vision": 50, "image_gen": 10},
    "mixed_tasks": {"browser": 92, "terminal": 92, "file": 92, "web": 35, "vision": 15, "image_gen": 15},
}  # fmt: skip
"""Name -> toolset -> percent, in the order in which toolsets are offered."""


def percents(distribution: str) -> dict[str, int]:
    """Toolset -> percent of a distribution.

    Raises:
        UsageFault: there is none of that name; the known ones are listed.
    """
    found = DISTRIBUTIONS.get(distribution)
    if found is None:
        raise UsageFault(
            f"--distribution {distribution}: expected one of {', '.join(DISTRIBUTIONS)}",
            hint="evrun run --list-distributions shows what is in each",
        )
    return found


def distribution_table() -> dict[str, dict[str, int]]:
    """Distribution -> toolset -> percent."""
    return DISTRIBUTIONS


def split_by_availability(distribution: str, available: Sequence[str]) -> tuple[list[str], list[str]]:
    """The toolsets of a distribution that are there, and those that are left out of the draw."""
    table = percents(distribution)
    there = [name for name in table if name in available]
    return there, [name for name in table if name not in available]


def draw(
    distribution: str, seed: int, prompt_content: bytes, sample: int, available: Sequence[str]
) -> list[str]:
    """The toolsets of one unit, in the order of the table; only `available` ones can be drawn.

    The same inputs give the same toolsets in any session, on any machine. Where nothing is drawn the most
    likely toolset that is available is taken (the first of several); none are where none is available.
    """
    there, _ = split_by_availability(distribution, available)
    table = percents(distribution)
    drawn = [name for name in there if _chance(seed, prompt_content, sample, name) < table[name]]
    return drawn or sorted(there, key=lambda name: -table[name])[:1]


def _chance(seed: int, prompt_content: bytes, sample: int, toolset: str) -> float:
    """A number from 0 to below 100, evenly spread over prompts, and independent for each toolset."""
    content = hashlib.sha256(prompt_content).hexdigest()
    digest = hashlib.sha256(f"toolset {seed} {content} {sample} {toolset}".encode()).digest()
    # 53 bits are what a float holds exactly, so the result can never be rounded up to 100.
    return (int.from_bytes(digest[:8], "big") >> 11) * 100 / (1 << 53)
