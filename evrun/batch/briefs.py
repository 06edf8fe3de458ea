"""What each attempt works from: its row, its seed, and the toolsets that were drawn for it. Pure."""

from collections.abc import Mapping
from typing import Any

from projections import batch_request

from ..tools import always_given, draw
from .brief import Brief
from .request import unit_seed
from .settings import Settings, settings_digest, settings_record

Toolsets = Mapping[str, list[dict[str, Any]]]
"""The tool definitions of a run, by toolset."""


class Briefs:
    """Makes the briefs of a run under one set of settings; `digest` stands for those."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._record = settings_record(settings)
        self.digest = settings_digest(settings)

    def brief(self, unit: str, row: dict[str, Any], names: list[str], toolsets: Toolsets) -> Brief:
        """The brief of an attempt at a unit that was given the toolsets of these names."""
        _, occurrence, sample = split_unit(unit)
        tools = [tool for name in names for tool in toolsets.get(name, [])]
        seed = unit_seed(self._settings, occurrence, sample)
        return Brief(row, self._settings, self._record, tools, seed)

    def drawn(self, unit: str, row: dict[str, Any], toolsets: Toolsets) -> list[str]:
        """The toolsets of a new attempt: those asked for, or a draw that is the same in every session.

        What no distribution speaks of, because it is the user's own, comes with every draw. A batch line
        offers the tools of its body, and nothing is drawn for it.
        """
        if batch_request(row) is not None:
            return []
        if self._settings.toolsets is not None:
            return self._settings.toolsets
        content, occurrence, sample = split_unit(unit)
        identity = f"{content}#{occurrence}".encode()
        distribution, available = self._settings.distribution, list(toolsets)
        drawn = draw(distribution, self._settings.seed or 0, identity, sample, available)
        return [*drawn, *always_given(distribution, available)]


def image_of(row: dict[str, Any]) -> object:
    """The container image that a row asks for; null where it asks for none."""
    return row.get("image") or row.get("docker_image")


def split_unit(unit: str) -> tuple[str, int, int]:
    """The parts of a unit's name: content id in hex, occurrence, sample."""
    content, _, rest = unit.removeprefix("prompt:").partition("#")
    occurrence, _, sample = rest.partition(".")
    return content, int(occurrence), int(sample)
