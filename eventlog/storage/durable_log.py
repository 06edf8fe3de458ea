"""What is durable of a log, as files: for whoever keeps a copy of it elsewhere."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import EventLogError, LogUnreadable
from .filesystem import FileSystem, RealFileSystem
from .format import COMPRESSED_SUFFIX, HEAD_BYTES, HEAD_SLOTS
from .head import Head, pack_slot
from .index import SegmentMap
from .reader import Follower, LogReader
from .source import open_source
from .survey import Survey

_LISTINGS = 8  # how often a segment may be compressed between being listed and being measured


class DurableFile(NamedTuple):
    """One segment's file. A copy holds its first `used_bytes`, and zeros from there to `file_bytes`."""

    name: str
    used_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class DurableLog:
    """A log up to `end`: the files of its segments in their order, and a HEAD that promises just that.

    Bytes that a crash left behind the end are not in it.
    """

    log_id: bytes
    files: tuple[DurableFile, ...]
    head: bytes
    reader: LogReader

    @classmethod
    def look(cls, directory: Path, *, filesystem: FileSystem | None = None) -> "DurableLog":
        """Read the whole log in `directory`, also while another process writes it; nothing is changed.

        Raises:
            EventLogError: there is no log, or no event is durable in it yet.
            LogLost, LogUnreadable, LogUnsupported: see there.
        """
        disk = filesystem or RealFileSystem()
        path = os.path.abspath(directory)  # noqa: PTH100 - a str at the seam, without resolving links
        follower = Follower(disk, path, allow_lost=False)
        for _ in range(_LISTINGS):
            reader = LogReader(disk, path, follower.survey.catalog, follower.look)
            if not reader.end.sequence:
                raise EventLogError(f"The log {path} is empty: no event is durable in it yet.")
            try:
                files = tuple(_files(follower.survey))
            except FileNotFoundError:
                continue  # compressed meanwhile; the next look finds the twin
            return cls(reader.log_id, files, _head(follower.survey), reader)
        raise LogUnreadable(f"The files of the log {path} are replaced again and again; try again.")


def _files(survey: Survey) -> list[DurableFile]:
    last = len(survey.catalog.segments) - 1
    ends = [
        survey.durable.offset_bytes if at == last else segment.stop_bytes
        for at, segment in enumerate(survey.catalog.segments)
    ]
    return [_file(survey, *pair) for pair in zip(survey.catalog.segments, ends, strict=True)]


def _file(survey: Survey, segment: SegmentMap, end_bytes: int) -> DurableFile:
    with open_source(survey.filesystem, survey.directory, segment.name) as source:
        if segment.name.endswith(COMPRESSED_SUFFIX):
            return DurableFile(segment.name, source.size_bytes, source.size_bytes)
    header = segment.header
    return DurableFile(segment.name, end_bytes, header.allocated_bytes if header.preallocated else end_bytes)


def _head(survey: Survey) -> bytes:
    header, durable = survey.catalog.segments[-1].header, survey.durable
    head = Head(
        survey.log_id, header.epoch, header.number, durable.offset_bytes, durable.sequence, durable.chain
    )
    data = bytearray(HEAD_BYTES)
    for offset in HEAD_SLOTS:
        slot = pack_slot(head)
        data[offset : offset + len(slot)] = slot
    return bytes(data)
