"""What must be true of a log that was damaged or changed: properties 4, 6, 19, 20, and robustness."""

import contextlib
import json
import os
from pathlib import Path
from random import Random

from msgspec import msgpack
from xxhash import xxh3_64_intdigest

from eventlog.errors import LogRefused, LogUnsupported, UnknownEvent
from eventlog.events import decode_event
from eventlog.storage import LogReader, Position, compact, verify
from eventlog.storage.format import (
    HEAD_NAME,
    SECTOR_BYTES,
    SEGMENT_CHECKSUM_OFFSET,
    SEGMENT_HEADER_BYTES,
    U64,
)
from eventlog.storage.framing import Place, build_commit
from eventlog.storage.header import parse_segment_header
from eventlog.testing import LOG, Episode, ForgetfulFileSystem, events_in, examine_damaged, new_disk, open_log
from eventlog.testing.damage import DropFile, all_damages, file_sizes

from ..golden_events import EXAMPLES
from ..lives import RANDOM
from .crashes import bytes_of

GOLDEN = Path(__file__).parents[2] / "golden/events/events.jsonl"
SEGMENT = ".evl"
FIRST = "00000000000000000001-00000001.evl"


def a_log(*, compressed=False):
    """A durable log of two sessions and four segments; returns its disk and its events."""
    episode = Episode(new_disk())
    for seed, commits in enumerate((([20], [0, 300, 5], [700]), ([30], [2500, 10], [1500], [3000], [40]))):
        with open_log(episode.disk, seed=seed) as writer:
            for sizes in commits:
                episode.append(writer, *sizes)
    if compressed:
        compact(LOG, random_bytes=RANDOM, filesystem=episode.disk)
    episode.disk.settle()
    return episode.disk, episode.at(episode.disk.now()).events


def put(disk, name, offset, data):
    """Write into a file of the log."""
    fd = disk.open(f"{LOG}/{name}", os.O_RDWR)
    disk.pwrite(fd, data, offset)
    disk.close(fd)


def segments_in(disk):
    """The names of the segments, oldest first."""
    return [name for name in disk.names(str(LOG)) if name.endswith((".evl", ".evz"))]


def last_frame(disk):
    """The newest segment, and where its last frame begins: the one thing that only HEAD vouches for."""
    name = segments_in(disk)[-1]
    data = bytes_of(disk, f"{LOG}/{name}")
    at = data.rindex(b"\xe5EVF")
    while at % SECTOR_BYTES:
        at = data.rindex(b"\xe5EVF", 0, at)
    return name, at


def check_no_silent_loss(one_in):
    """4. Every damaged image gives all that was acknowledged or an error: bits, sectors, cuts, files.

    With HEAD, and without it; then damage to the newest commit, and what only HEAD could tell, is left out.
    """
    for compressed in (False, True):
        disk, events = a_log(compressed=compressed)
        for damage in all_damages(disk, Random(one_in), one_in=one_in):
            image = disk.after_process_crash()
            damage.apply(image)
            examine_damaged(image, events)
    check_no_silent_loss_without_head()


def check_no_silent_loss_without_head():
    """4. What frames and headers promise is enough for all but the newest commit, wherever the hole is."""
    disk, events = a_log()
    name, last = last_frame(disk)
    for segment, size in file_sizes(disk).items():
        if not segment.endswith(SEGMENT):
            continue
        for sector in range(size // SECTOR_BYTES):
            if segment == name and sector * SECTOR_BYTES >= last:
                continue
            for length, filler in ((1, b"\0"), (4, b"\0"), (12, b"\0"), (1, b"?")):
                end = last if segment == name else size
                stop = min((sector + length) * SECTOR_BYTES, end)
                image = disk.after_process_crash()
                DropFile(HEAD_NAME).apply(image)
                put(image, segment, sector * SECTOR_BYTES, filler * (stop - sector * SECTOR_BYTES))
                examine_damaged(image, events)
    for segment, size in file_sizes(disk).items():
        for cut in range(SEGMENT_HEADER_BYTES, size, 700) if segment.endswith(SEGMENT) else ():
            image = disk.after_process_crash()
            DropFile(HEAD_NAME).apply(image)
            fd = image.open(f"{LOG}/{segment}", os.O_RDWR)
            image.truncate(fd, cut)
            image.close(fd)
            assert not verify(LOG, filesystem=image).opens, f"{segment} cut at {cut} of {size} opens"


def check_opening_finds_damage(one_in):
    """4. A compressed log that opens for writing reads to its end: no damage is left for a reader to find.

    Nothing is unpacked to open it, but for the last segment: the checksums over its bytes have to be enough.
    """
    disk, events = a_log(compressed=True)
    assert len([name for name in segments_in(disk) if name.endswith(".evz")]) > 2
    opened = 0
    for damage in all_damages(disk, Random(one_in), one_in=one_in):
        image = disk.after_process_crash()
        damage.apply(image)
        with contextlib.suppress(LogRefused):
            open_log(image, seed=9).close()
            opened += 1
            try:
                found = events_in(image)
            except LogRefused as error:
                raise AssertionError(f"{damage} was found by a reader only: {error}") from error
            assert found == events, damage
    assert opened  # damage to LOCK, or to one slot of HEAD


def check_no_resurrection(_):
    """6. What was dropped never returns, even if a stale whole frame stands where the next is expected.

    And nobody ever writes into the segment of an earlier session: dropped bytes stay as they were.
    """
    disk = new_disk()
    with open_log(disk) as writer:
        for payload in (b"one", b"two"):
            writer.append([payload])
        durable = writer.durable
    end = SEGMENT_HEADER_BYTES + 2 * SECTOR_BYTES
    header = parse_segment_header(bytes_of(disk, f"{LOG}/{FIRST}")[:SEGMENT_HEADER_BYTES])
    stale, _ = build_commit(header.stamp, Place(*durable, 2**61, end), 2**61, [b"stale", b"x" * 600])
    # A crash tore the frame: its first sector is garbage, the others are there, and are dropped.
    put(disk, FIRST, end, b"?" * SECTOR_BYTES + stale[SECTOR_BYTES:])
    before = bytes_of(disk, f"{LOG}/{FIRST}")
    for seed, payload in enumerate((b"three", b"four"), 2):
        with open_log(disk, seed=seed) as writer:
            assert writer.found.kind == ("torn" if seed == 2 else "clean")
            writer.append([payload])
        assert bytes_of(disk, f"{LOG}/{FIRST}") == before, "written into the segment of an earlier session"
    put(disk, FIRST, end, stale)  # the whole frame, exactly at the place expected next
    expected = [b"one", b"two", b"three", b"four"]
    assert events_in(disk) == expected
    with open_log(disk, seed=4) as writer:
        writer.append([b"five"])
    assert events_in(disk) == [*expected, b"five"]
    compact(LOG, random_bytes=RANDOM, filesystem=disk)
    assert events_in(disk) == [*expected, b"five"]


def with_checksum(block):
    """A header block whose checksum is right for what it says now."""
    fields = block[:SEGMENT_CHECKSUM_OFFSET]
    return fields + U64.pack(xxh3_64_intdigest(fields))


def check_versions(_):
    """19. Every golden (type, version) decodes, newer ones are refused; an unknown format is unsupported."""
    for line in map(json.loads, GOLDEN.read_text("utf-8").splitlines()):
        payload = bytes.fromhex(line["hex"])
        assert decode_event(payload) == EXAMPLES[line["event"]]
        name, newest, data = msgpack.decode(payload)
        for other in ((name, newest + 1, [*data, "more"]), ("Unheard", newest, data)):
            refused(UnknownEvent, lambda other=other: decode_event(msgpack.encode(other)))
    disk, _ = a_log()
    header = bytes_of(disk, f"{LOG}/{FIRST}")[:SEGMENT_HEADER_BYTES]
    for at, value in ((8, 2), (12, 1), (52, 9), (53, 9), (54, 9)):
        newer = bytearray(header)
        newer[at] = value
        image = disk.after_process_crash()
        put(image, FIRST, 0, with_checksum(bytes(newer)))
        assert verify(LOG, filesystem=image).kind == "unsupported", f"byte {at} of the header is {value}"
        for opening in (open_log, events_in):
            refused(LogUnsupported, lambda opening=opening, image=image: opening(image))


def refused(error, call):
    """Make the call, which has to raise this error."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def check_anchors(_):
    """20. With an anchor at k any change at or before k is reported, however well it is forged."""
    histories = {
        "edited": [b"ONE", b"two", b"three"],
        "dropped": [b"one", b"three"],
        "inserted": [b"one", b"and", b"two", b"three"],
        "reordered": [b"two", b"one", b"three"],
        "cut": [b"one"],
        "duplicated tail": [b"one", b"two", b"three", b"three"],
    }
    genuine = history([b"one", b"two", b"three"])
    with LogReader.open(LOG, filesystem=genuine) as reader:
        anchors = [Position(sequence, reader.chain_at(sequence)) for sequence in (2, 3)]
    for anchor in anchors:
        assert verify(LOG, anchor=anchor, filesystem=genuine).opens
        for name, commits in histories.items():
            if name == "duplicated tail":
                assert verify(LOG, anchor=anchor, filesystem=history(commits)).opens
                continue
            kind = verify(LOG, anchor=anchor, filesystem=history(commits)).kind
            assert kind == "tampered", f"{name}: {kind}"


def history(commits):
    """A whole log with these commits: same id, times and salts as any other, as a forger would make it."""
    disk = new_disk()
    with open_log(disk) as writer:
        for payload in commits:
            writer.append([payload])
    return disk


class Counting(ForgetfulFileSystem):
    """A disk that counts the bytes read, and the most in one call."""

    read = 0
    largest = 0

    def pread(self, fd, length, offset):
        """Read, and count."""
        data = super().pread(fd, length, offset)
        self.read += len(data)
        self.largest = max(self.largest, length)
        return data


def check_robustness(rounds):
    """The parser ends on any bytes in O(n), and never takes more than a bounded piece at once."""
    for seed in range(rounds):
        rng = Random(seed)
        disk, _ = a_log(compressed=rng.random() < 0.3)
        counting = Counting(disk.now().disk)
        total = 0
        for name, size in file_sizes(counting).items():
            total += size
            start = rng.choice((0, SEGMENT_HEADER_BYTES, 4608, size))
            put(counting, name, start, junk(rng, max(0, size - start)))
        verify(LOG, filesystem=counting)
        with contextlib.suppress(LogRefused):
            events_in(counting)
        assert counting.read <= 12 * (total + SECTOR_BYTES), f"{counting.read} bytes read of {total}"
        assert counting.largest <= max(1 << 20, 2 * total), f"{counting.largest} bytes in one read"


def junk(rng, length):
    """Bytes that try: noise, zeros, and sectors that begin like frames."""
    kinds = (b"\xe5EVF\1\1\0\0" + b"\xff" * 504, b"\xe5EVF" + bytes(508), bytes(512), rng.randbytes(512))
    return b"".join(rng.choice(kinds) for _ in range(length // 512 + 1))[:length]
