"""What an attempt works from."""

from typing import Any

import msgspec

from .settings import Settings


class Brief(msgspec.Struct, frozen=True, gc=False):
    """What an attempt works from: its row, its tools' definitions, its seed, and the settings in force.

    `record` is the settings as the log records them, which is how the projections read them.
    """

    row: dict[str, Any]
    settings: Settings
    record: dict[str, Any]
    tools: list[dict[str, Any]]
    seed: int | None
