"""Which of two files to believe where a plain segment and its compressed twin are both there.

That is so between the rename of the twin and the unlinking of the plain segment, and after a crash there. The
twin wins if it is whole, for the plain one may be about to go. A twin that was damaged since is of no use.
"""

from .filesystem import FileSystem
from .header import NotAHeader
from .segment_file import open_segment
from .segments import SegmentName, plain_name, twin_name
from .twin_reader import CompressedSegment, Damaged


def without_pairs(filesystem: FileSystem, directory: str, names: list[SegmentName]) -> list[SegmentName]:
    """The segments, each once: of a pair, the twin if it is whole, else the plain one.

    Raises:
        FileNotFoundError: a name has gone since.
        LogUnreadable, LogUnsupported: see there.
    """
    here = {name.name for name in names}
    chosen = []
    for name in names:
        paired = {plain_name(name.name), twin_name(name.name)} <= here
        if not paired or name.compressed is twin_is_whole(filesystem, directory, twin_name(name.name)):
            chosen.append(name)
    return chosen


def twin_is_whole(filesystem: FileSystem, directory: str, name: str) -> bool:
    """Whether a compressed segment decodes to its end, along its own chain.

    Raises:
        FileNotFoundError: the name has gone.
        LogUnreadable, LogUnsupported: see there.
    """
    with open_segment(filesystem, directory, name) as segment:
        assert isinstance(segment, CompressedSegment)
        try:
            header = segment.header()
            if segment.cut(header) is not None:
                return False
            blocks = segment.blocks()
            start = blocks.entries[0].start if blocks.entries else blocks.end_of_commits
            for _ in blocks.frames(header.stamp, start):
                continue
        except (NotAHeader, Damaged):
            return False
        return True
