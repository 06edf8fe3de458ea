"""Which batch's rows are where in trajectories.jsonl, by what its rows say themselves."""

from pathlib import Path
from typing import NamedTuple

import msgspec


class Region(NamedTuple):
    """Where a batch's rows are: byte offsets, the end not included."""

    start: int
    end: int


class _Metadata(msgspec.Struct):
    batch_num: int


class _Row(msgspec.Struct):
    metadata: _Metadata


def batch_regions(path: Path) -> dict[int, Region] | None:
    """The regions of the batches, in order; empty where there is no file.

    Null where the file is not rows of batches in numeric order, so that it cannot be right.
    """
    regions: dict[int, Region] = {}
    newest, start, place = 0, 0, 0
    decoder = msgspec.json.Decoder(_Row)
    try:
        with path.open("rb") as file:
            for line in file:
                batch = decoder.decode(line).metadata.batch_num
                if batch < newest:
                    return None
                if batch > newest:
                    newest, start = batch, place
                place += len(line)
                regions[newest] = Region(start, place)
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return regions
