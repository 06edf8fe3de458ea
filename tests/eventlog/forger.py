"""A forger: writes a log anew with another history, every checksum and chain value right, HEAD too.

Only a digest that was kept elsewhere can tell its work from the real thing.
"""

from typing import NamedTuple

from eventlog.storage import Position
from eventlog.storage.framing import Place, build_commit, build_seal
from eventlog.storage.head import Head, pack_slot, parse_head
from eventlog.storage.header import pack_segment_header, parse_segment_header
from eventlog.storage.scan import walk
from eventlog.storage.source import open_source
from eventlog.storage.survey import START

from .logs import Unsynced, segments_of


class Commit(NamedTuple):
    """A commit as the forger sees it."""

    payloads: tuple[bytes, ...]
    time_ns: int


def commits_of(log):
    """The commits of each segment, in order."""
    from eventlog.storage.framing import split_body

    found, place = [], START
    for path in segments_of(log):
        here = []
        with open_source(Unsynced(), str(log), path.name) as source:
            header = parse_segment_header(source.read(0, 4096))
            place = place._replace(offset_bytes=4096)
            for frame, body, after in walk(source, header.stamp, place, header.allocated_bytes):
                place = after
                if frame.events:
                    here.append(Commit(tuple(split_body(body, frame.events)), frame.time_ns))
        found.append(here)
    return found


def positions_of(log):
    """Every place in a log where an anchor can be taken, oldest first."""
    found = []
    place = START
    for path in segments_of(log):
        with open_source(Unsynced(), str(log), path.name) as source:
            header = parse_segment_header(source.read(0, 4096))
            place = place._replace(offset_bytes=4096)
            for frame, _, after in walk(source, header.stamp, place, header.allocated_bytes):
                place = after
                if frame.events:
                    found.append(Position(place.sequence, place.chain))
    return found


def forge(log, segments):
    """Write these commits over the segments of a log, as if nothing else had ever been in them."""
    place, number = START, 0
    previous = Place(0, bytes(32), 0, 0)
    times = 0
    for number, (path, commits) in enumerate(zip(segments_of(log), segments, strict=True), 1):
        header = parse_segment_header(path.read_bytes()[:4096])
        data = bytearray(path.stat().st_size)
        header = _after(header, previous)
        data[:4096] = pack_segment_header(header)
        place = previous._replace(offset_bytes=4096)
        for commit in commits:
            times = max(times, commit.time_ns)
            frame, after = build_commit(header.stamp, place, times, commit.payloads)
            data[place.offset_bytes : after.offset_bytes] = frame
            place = after
        if number < len(segments):
            seal, after = build_seal(header.stamp, place)
            data[place.offset_bytes : after.offset_bytes] = seal
            place = after
        assert len(data) == path.stat().st_size, "the forged commits do not fit"
        path.unlink()
        path.with_name(f"{header.base_sequence:020}-{number:08}.evl").write_bytes(data)
        previous = place
    _forge_head(log, header, number, place)


def _after(header, previous):
    from dataclasses import replace

    return replace(
        header,
        base_sequence=previous.sequence + 1,
        previous_sequence=previous.sequence,
        previous_chain=previous.chain,
        previous_offset_bytes=previous.offset_bytes,
    )


def _forge_head(log, header, number, place):
    (_, old), *_ = parse_head((log / "HEAD").read_bytes())
    head = Head(old.log_id, header.epoch, number, place.offset_bytes, place.sequence, place.chain)
    (log / "HEAD").write_bytes((pack_slot(head).ljust(4096, b"\0") * 2).ljust(8192, b"\0"))
