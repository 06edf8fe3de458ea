"""What must hold of every salvage, whatever became of the log."""

import errno
import os
from collections import Counter

from eventlog.storage import Gap, salvage, verify

from .logs import Unsynced, write_log

COMMITS = ([b"first"], [b"second", b"", b"third" * 9], [b"fourth" * 400], [b"fifth"], [b"sixth", b"seventh"])
EVENTS = [event for commit in COMMITS for event in commit]
SECTOR = 512


def two_sessions(directory):
    """A log of two sessions, hence two segments: events 1 to 4, and 5 to 8."""
    write_log(directory, *COMMITS[:2])
    write_log(directory, *COMMITS[2:])
    return directory


def salvaged(directory, **options):
    """All that is found in a log: the commits, and the gaps, each a list."""
    options.setdefault("filesystem", Unsynced())
    items = list(salvage(directory, **options))
    return [item for item in items if not isinstance(item, Gap)], [i for i in items if isinstance(i, Gap)]


def check(directory, events, **options):
    """Look at a damaged log that held `events`; give the gaps, and the proofs with how many have each.

    Nothing is found that was not written, in another order, or twice. What is not found lies in a gap. What
    is proven is the beginning. A log that opens is whole, and a salvage without a gap has all that was there.
    """
    options.setdefault("filesystem", Unsynced())
    following, proven, proofs, gaps = 1, True, Counter(), []
    for item in salvage(directory, **options):
        assert not gaps or gaps[-1].to_sequence is not None, "nothing comes after an end that nobody knows"
        if isinstance(item, Gap):
            assert item.from_sequence == following
            assert item.missing is None or item.missing >= 0
            assert item.why
            following = following if item.to_sequence is None else item.to_sequence + 1
            proven = proven and item.missing == 0
            gaps.append(item)
            continue
        for record in item.records:
            assert (record.sequence, record.payload) == (following, events[following - 1])
            following += 1
        proofs[item.proof] += len(item.records)
        assert item.proven <= proven
        proven = item.proven
    open_end = bool(gaps) and gaps[-1].to_sequence is None
    assert following == len(events) + 1 or open_end
    if verify(directory, filesystem=options["filesystem"]).opens:
        assert gaps == []
    if not gaps:
        assert proofs == {"chain": len(events)}
    return gaps, proofs


def change(path, at, new):
    """Write `new` over what stands at a place of a file."""
    data = bytearray(path.read_bytes())
    data[at : at + len(new)] = new
    path.write_bytes(data)


def flip(path, at):
    """Flip a bit of the byte at a place."""
    change(path, at, bytes([path.read_bytes()[at] ^ 4]))


def ranges(gaps):
    """The events that each gap took."""
    return [(gap.from_sequence, gap.to_sequence) for gap in gaps]


class BadSectors(Unsynced):
    """A disk that gives EIO for some bytes of files whose names have `part` in them."""

    def __init__(self, part, first, last):
        self.bad = {}
        self.part, self.first, self.last = part, first, last
        self.read_bytes = 0

    def open(self, path, flags, mode=0o600):
        """Remember which files are bad."""
        fd = super().open(path, flags, mode)
        self.bad[fd] = self.part in path
        return fd

    def pread(self, fd, length, offset):
        """Fail if a bad byte is among those wanted."""
        if self.bad[fd] and offset <= self.last and offset + length > self.first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = super().pread(fd, length, offset)
        self.read_bytes += len(data)
        return data
