"""The files of a log: names and listing."""

import re
from typing import NamedTuple

from .format import COMPRESSED_SUFFIX, SEGMENT_SUFFIX, TEMPORARY_SUFFIX

_NAME = re.compile(r"(\d{20})-(\d{8,})(\.evl|\.evz)")
_TEMPORARY = re.compile(r"\d{20}-\d{8,}(\.evl|(\.evz\.[0-9a-f]{8}))\.new")


class SegmentName(NamedTuple):
    """What a segment's file name says."""

    number: int
    first_sequence: int
    name: str

    @property
    def compressed(self) -> bool:
        """Whether this is the compressed twin."""
        return self.name.endswith(COMPRESSED_SUFFIX)


def segment_name(first_sequence: int, number: int) -> str:
    """The file name of a segment: it sorts by sequence, and numbers are dense."""
    return f"{first_sequence:020d}-{number:08d}{SEGMENT_SUFFIX}"


def segment_names(names: list[str]) -> list[SegmentName]:
    """The segments among a directory's names, by number; everything else is none of the log's business."""
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match:
            found.append(SegmentName(int(match[2]), int(match[1]), name))
    return sorted(found)


def temporary_names(names: list[str], *, twins: bool) -> list[str]:
    """Segments that a crash kept from getting their names; compressed ones only with `twins`.

    Plain ones never held an event that was acknowledged; what a compressed one holds, the plain one does too.
    """
    return [name for name in names if (match := _TEMPORARY.fullmatch(name)) and (twins or not match[2])]


def temporary_twin(name: str, scratch: str) -> str:
    """The name of a compressed segment while it is made; `scratch` are eight hexadecimal digits.

    They are there so that a writer that was fenced, and goes on compressing, never touches another's file.
    """
    return f"{twin_name(name)}.{scratch}{TEMPORARY_SUFFIX}"


def plain_name(name: str) -> str:
    """The plain file that belongs to a segment's file name."""
    return name.removesuffix(COMPRESSED_SUFFIX).removesuffix(SEGMENT_SUFFIX) + SEGMENT_SUFFIX


def twin_name(name: str) -> str:
    """The compressed file that belongs to a segment's file name."""
    return plain_name(name).removesuffix(SEGMENT_SUFFIX) + COMPRESSED_SUFFIX
