"""Facts about a run and the processes that work on it."""

from typing import Any

import msgspec

from .base import Event


class InputDigest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One input file as it was when the run read it: name, SHA-256 (hex), size in bytes, and its path."""

    name: str
    sha256: str
    size_bytes: int
    path: str


class RunStarted(Event, frozen=True, gc=False):
    """A run came into being, with its whole configuration (never a secret).

    `kind` is "batch" or "training"; `settings` is the resolved configuration; `toolsets` maps each toolset of
    the run to its tool definitions ``{"name", "description", "parameters"}``, because views show them.
    """

    kind: str
    run: str
    settings: dict[str, Any]
    toolsets: dict[str, list[dict[str, Any]]]
    versions: dict[str, str]
    inputs: list[InputDigest]


class SessionOpened(Event, frozen=True, gc=False):
    """A process began to write this log; `number` is the session's epoch in the segment headers."""

    number: int
    pid: int
    host: str
    version: str


class SessionClosed(Event, frozen=True, gc=False):
    """A session ended in order.

    `reason` is "finished", "paused", "interrupted" or "failed"; `active_ns` is measured by a monotonic clock.
    """

    number: int
    reason: str
    detail: str | None
    active_ns: int


class SettingsChanged(Event, frozen=True, gc=False):
    """A resume was given settings that differ from the record: ``{name: [before, now]}``.

    `toolsets`, where not null, replaces the tool definitions of `RunStarted`.
    """

    changes: dict[str, tuple[Any, Any]]
    toolsets: dict[str, list[dict[str, Any]]] | None


class RunFinished(Event, frozen=True, gc=False):
    """Nothing is left to do: final counts by outcome."""

    counts: dict[str, int]
