"""What an attempt works from."""

from typing import Any

import msgspec

from .settings import Settings


class Over(msgspec.Struct, frozen=True, gc=False):
    """How an own agent's conversation has ended: evrun does not lead it, and is told."""

    finish_reason: str
    completed: bool


class Brief(msgspec.Struct, frozen=True, gc=False):
    """What an attempt works from: its row, its tools' definitions, its seed, and the settings in force.

    `record` is the settings as the log records them, which is how the projections read them.
    `over` is null for the built-in agent, and for an own one that has not ended.
    """

    row: dict[str, Any]
    settings: Settings
    record: dict[str, Any]
    tools: list[dict[str, Any]]
    seed: int | None
    over: Over | None = None
