"""What a worker is told when it opens, and what kinds of work there are."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from ..batch.settings import Settings, settings_from_record
from ..prices import Price
from .link import Link

PROMPTS = "prompts"
ROLLOUTS = "rollouts"
_HOMES = {PROMPTS: "prompts_host", ROLLOUTS: "rollouts_host"}


class Opening(msgspec.Struct, frozen=True):
    """What all sessions of a worker have in common.

    `kind` is one of this module's. `marker` names the run, `epoch` its session, `worker` this worker.
    `settings` are as the log records them. `secrets` are variables of the driver's environment that the
    endpoint needs. `versions` are the driver's. `extra` is the kind's own.
    """

    kind: str
    marker: str
    epoch: int
    worker: int
    settings: dict[str, Any]
    secrets: dict[str, str]
    price: Price | None
    versions: dict[str, str]
    extra: bytes = b""


class Bench(NamedTuple):
    """What a host works with: the worker's own environment with the driver's secrets, a private directory."""

    opening: Opening
    settings: Settings
    environment: Mapping[str, str]
    directory: Path
    note: Callable[[str], None]

    @property
    def marker(self) -> str:
        """The marker of all that this worker starts."""
        return marker_of(self.opening)


class Host(Protocol):
    """Works on sessions of one kind."""

    async def run(self, link: Link, unit: str, work: bytes) -> bytes:
        """Work on a session until its boundary, or until the run ends; what its driver is given back."""


def open_host(bench: Bench) -> AbstractAsyncContextManager[Host]:
    """The host of a worker's kind, open as long as the context."""
    home = import_module(f".{_HOMES[bench.opening.kind]}", __package__)
    opened: AbstractAsyncContextManager[Host] = home.open_host(bench)
    return opened


def marker_of(opening: Opening) -> str:
    """The marker of a worker: no other one ever has it."""
    return f"{opening.marker}/s{opening.epoch}n{opening.worker}"


def settings_of(opening: Opening) -> Settings:
    """The settings in force."""
    return settings_from_record(opening.settings)
