"""Which batch's rows are where in trajectories.jsonl, by what its rows say themselves."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..view_names import batch_name
from .packed import Packed


class Region(NamedTuple):
    """Where a batch's rows are: byte offsets, the end not included."""

    start: int
    end: int


class Regions:
    """The regions of the batches, by the names of their files, in order."""

    def __init__(self) -> None:
        self._packed = Packed("QQ")

    def put(self, batch: int, start: int, end: int) -> None:
        """A batch's rows are there."""
        self._packed.put(batch_name(batch), start, end)

    def get(self, name: str) -> Region:
        """Where the rows of a batch file are; nowhere, if there are none."""
        return Region(*(self._packed.get(name) or (0, 0)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)


class _Metadata(msgspec.Struct):
    batch_num: int


class _Row(msgspec.Struct):
    metadata: _Metadata


def batch_regions(path: Path) -> Regions | None:
    """The regions of the batches, in order; none where there is no file.

    Null where the file is not rows of batches in numeric order, so that it cannot be right.
    """
    regions = Regions()
    newest, start, place = 0, 0, 0
    decoder = msgspec.json.Decoder(_Row)
    try:
        with path.open("rb") as file:
            for line in file:
                batch = decoder.decode(line).metadata.batch_num
                if batch < max(newest, 1):
                    return None
                if batch > newest:
                    if place:
                        regions.put(newest, start, place)
                    newest, start = batch, place
                place += len(line)
    except FileNotFoundError:
        return Regions()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if place:
        regions.put(newest, start, place)
    return regions
