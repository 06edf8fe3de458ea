"""Snapshots that are whole in themselves and say something else than they ought to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projections.materialize import snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def forge(path: Path, parts: Mapping[str, bytes] | None = None, **fields: Any) -> None:
    """Write a snapshot again with other `fields` in its head, and other `parts`; its digest fits."""
    data, head, end = _opened(path)
    held = {name: bytes(part) for name, part in snapshots._cut(head.parts, memoryview(data)[end:])}
    held |= parts or {}
    head.parts = [(name, len(part)) for name, part in held.items()]
    path.write_bytes(b"".join(snapshots._chunks(msgspec.structs.replace(head, **fields), held)))


def word(path: Path, field: str) -> Any:
    """What the head of a snapshot says."""
    return getattr(_opened(path)[1], field)


def _opened(path: Path) -> tuple[bytes, Any, int]:
    data = path.read_bytes()
    at = snapshots._HEAD_AT
    end = at + int.from_bytes(data[at - 4 : at], "little")
    return data, msgspec.msgpack.decode(data[at:end], type=snapshots._Head), end
