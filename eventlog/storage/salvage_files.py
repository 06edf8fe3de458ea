"""What is left of a damaged log's files: which segment each one is, and what is known of its frames."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import LogUnreadable, LogUnsupported
from .filesystem import FileSystem
from .format import (
    CODEC_ZSTD,
    HEAD_BYTES,
    HEAD_NAME,
    SEGMENT_FIELDS,
    SEGMENT_HEADER_BYTES,
)
from .framing import Stamp
from .head import Head, parse_head
from .header import NotAHeader, SegmentHeader, block_is_whole, parse_segment_header
from .salvage_frames import Identity
from .salvage_source import open_tolerant
from .segments import SegmentName, segment_names


class SegmentFile(NamedTuple):
    """A file that is named like a segment.

    `header` is None when it is not whole; then `stamp` is what stands in its place, and `why` says what is
    wrong. Without a stamp the file could not be read at all.
    """

    name: SegmentName
    header: SegmentHeader | None
    stamp: Stamp | None
    size_bytes: int
    why: str | None

    @property
    def number(self) -> int:
        """The segment's number, by its header if that is whole; files get renamed."""
        return self.name.number if self.header is None else self.header.number

    @property
    def compressed(self) -> bool:
        """Whether it is a compressed segment, by its header if that is whole."""
        return self.name.compressed if self.header is None else self.header.codec == CODEC_ZSTD

    @property
    def cut(self) -> str | None:
        """Why a plain file is known to have been longer once."""
        header = self.header
        if header is None or not header.preallocated or self.size_bytes >= header.allocated_bytes:
            return None
        return f"{self.name.name} was cut to {self.size_bytes} bytes"


@dataclass(slots=True)
class Group:
    """The files that hold the same segment, and why some that should be read cannot be."""

    number: int
    files: list[SegmentFile] = field(default_factory=list)
    whys: list[str] = field(default_factory=list)

    @property
    def header(self) -> SegmentHeader | None:
        """The segment's header, if one of the files has it whole."""
        return next((file.header for file in self.files if file.header is not None), None)

    @property
    def name(self) -> str:
        """A file name to speak of the segment by."""
        return self.files[0].name.name if self.files else ""


def look_at_files(filesystem: FileSystem, directory: str) -> tuple[list[SegmentFile], list[Head]]:
    """Every segment file with what its header says, and what HEAD says.

    Raises:
        LogUnreadable: not even the names can be had.
        LogUnsupported: a header or HEAD is whole, and of a version this program does not know.
    """
    try:
        names = segment_names(filesystem.names(directory))
    except OSError as error:
        what = f"The directory {directory} cannot be listed: {error.strerror or error}"
        raise LogUnreadable(f"{what}. Nothing was changed; check the disk and the permissions.") from error
    try:
        with open_tolerant(filesystem, directory, HEAD_NAME) as source:
            heads = [head for _, head in parse_head(source.read(0, HEAD_BYTES))]
    except (OSError, LogUnreadable):
        heads = []
    return [_look_at(filesystem, directory, name) for name in names], heads


def _look_at(filesystem: FileSystem, directory: str, name: SegmentName) -> SegmentFile:
    try:
        with open_tolerant(filesystem, directory, name.name) as source:
            block = source.read(0, SEGMENT_HEADER_BYTES)
            size = source.size_bytes
    except (OSError, LogUnreadable) as error:
        why = getattr(error, "strerror", None) or error
        return SegmentFile(name, None, None, 0, f"{name.name} cannot be opened: {why}")
    try:
        header = parse_segment_header(block)
    except NotAHeader as error:
        return SegmentFile(name, None, _remains(block), size, f"{name.name}: {error}")
    except LogUnsupported as error:
        if block_is_whole(block):
            raise LogUnsupported(f"{name.name}: {error}", error.problem) from error
        return SegmentFile(name, None, _remains(block), size, f"{name.name}: its header is damaged")
    return SegmentFile(name, header, header.stamp, size, None)


def _remains(block: bytes) -> Stamp:
    """What stands where a header has the log's id, the session and the salt; whether it is right shows."""
    fields = SEGMENT_FIELDS.unpack_from(block.ljust(SEGMENT_HEADER_BYTES, b"\0"))
    log_id, epoch, salt = fields[4], fields[7], fields[12]
    return Stamp(log_id, epoch, salt)


def whose_log(files: Sequence[SegmentFile], heads: Sequence[Head]) -> Identity:
    """The log's id: what most whole headers say; else what is left of a damaged one."""
    votes = Counter(file.header.log_id for file in files if file.header is not None)
    votes.update(head.log_id for head in heads)
    if votes:
        return Identity(votes.most_common(1)[0][0], sure=True)
    remains = [file.stamp.log_id for file in files if file.stamp is not None]
    return Identity(remains[0] if remains else None, sure=False)


def by_number(files: Sequence[SegmentFile], log_id: bytes | None) -> list[Group]:
    """The segments in order; those that another log or the disk has spoiled say so in `whys`."""
    groups: dict[int, Group] = {}
    for file in files:
        foreign = file.header is not None and file.header.log_id != log_id
        group = groups.setdefault(file.name.number if foreign else file.number, Group(0))
        if foreign:
            group.whys.append(f"{file.name.name} belongs to another log")
        elif file.stamp is None:
            group.whys.append(file.why or "")
        else:
            group.files.append(file)
    for number, group in list(groups.items()):
        _note_copies(groups, number, group)
    for number, group in groups.items():
        group.number = number
        # A file with a whole header first: where both can give a frame, it does.
        group.files.sort(key=lambda file: file.header is None)
    return [groups[number] for number in sorted(groups)]


def _note_copies(groups: dict[int, Group], number: int, group: Group) -> None:
    """A copy of another segment took the place of the one whose name it has: that one is gone.

    A file that was only renamed is no copy: the segment that it holds is nowhere else. A copy whose name
    tells of no other events took nobody's place.
    """
    if all(file.name.number != number for file in group.files):
        return
    for file in group.files:
        other = file.header is not None and file.name.first_sequence != file.header.base_sequence
        if file.name.number != number and other:
            why = f"{file.name.name} holds segment {number}, unlike its name"
            groups.setdefault(file.name.number, Group(0)).whys.append(why)
