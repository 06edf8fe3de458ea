"""Follow the SHA-256 chain of an event log, with the standard library alone: a reader written from FORMAT.md.

    python verify_log.py LOG_DIRECTORY [SEQUENCE:CHAIN]

It imports nothing of evrun: you need not trust evrun to know that a log is whole. Exit code 0: every commit
continues the chain, and nothing that is left in the files names a later one. Exit code 5: not so. With
SEQUENCE:CHAIN, noted earlier and kept elsewhere, all up to there is proven to be what it was then.

Not checked here: the xxh3 checksums (so HEAD, segment headers and watermarks are taken by what they say), and
compressed segments (.evz), which are refused. `evrun verify` checks all of it.
"""

import hashlib
import re
import struct
import sys
from pathlib import Path

# FORMAT.md, "Segment header" and "Frame"
SEGMENT = struct.Struct("<8sHHI16sQQIBBBBQQQQQ32s")
FRAME = struct.Struct("<4sBBHIIIIQQQQ32s")
HEADER, SLOT, SEAL = 4096, 88, 2
ZEROS = bytes(32)
Place = tuple[int, bytes, int, int]  # a commit's sequence, chain value and time, and the offset behind it


class Broken(Exception):
    """The log is not whole, or not the one that the anchor was taken from."""


def read_header(path: Path, number: int) -> tuple[bytes, int, tuple[int, bytes, int]]:
    """What a segment says: the log's id, the session, and where the segment before it ended."""
    if path.suffix == ".evz":
        raise Broken(f"{path.name} is compressed and cannot be checked here")
    with path.open("rb") as file:
        data = file.read(HEADER)
    if len(data) < HEADER or data[:8] != b"\xe5EVL\r\n\x1a\n" or any(data[136:4088]):
        raise Broken(f"{path.name} does not begin with a segment header")
    fields = SEGMENT.unpack_from(data)
    _, major, _, flags, log_id, own, base, epoch, checksum, digest, codec, whole, _, size, before, *end = (
        fields
    )
    if (major, flags, checksum, digest, codec) != (1, 0, 1, 1, 0):
        raise Broken(f"{path.name} is of a format that is not known here")
    if path.stem != f"{base:020}-{number:08}" or (own, before, end[0]) != (number, number - 1, base - 1):
        raise Broken(f"{path.name}, header of number {own} from event {base}: number {number} was expected")
    if whole and path.stat().st_size < size:
        raise Broken(f"{path.name} was cut: it had {size} bytes")
    return log_id, epoch, (end[0], end[2], end[1])


def next_place(data: bytes, log_id: bytes, epoch: int, place: Place) -> Place | str:
    """The place after the frame that continues the chain, or why there is none."""
    sequence, chain, time, at = place
    if at + 104 > len(data) or data[at : at + 4] != b"\xe5EVF":
        return "no frame begins"
    fields = FRAME.unpack_from(data, at)
    _, version, kind, flags, stored, raw, count, own_epoch, first, watermark, offset, when, own_chain = fields
    end = at + 104 + raw
    body, padding = data[at + 104 : end], data[end : end + -end % 512]
    if (version, flags, stored, len(body)) != (1, 0, raw, raw) or (kind, bool(count or raw)) == (SEAL, True):
        return "a frame of another version or size begins"
    if kind == 1 and count:
        logical = struct.pack("<IIIQQ", epoch, count, raw, first, when)
        chain = hashlib.sha256(chain + log_id + logical + body).digest()
    elif kind != SEAL:  # a seal repeats the chain value before it
        return "a frame of another type begins"
    coordinates = (own_epoch, first, offset) == (epoch, sequence + 1, at) and watermark <= sequence
    if own_chain != chain or not coordinates or when < time or any(padding):
        return "a frame that does not continue the chain begins"
    return sequence + count, chain, when, end + len(padding)


def named_behind(data: bytes, at: int) -> int:
    """The last event that frames behind the end say was durable before them."""
    named = [0]
    for place in range(at, len(data) - 103, 512):
        watermark, offset = struct.unpack_from("<QQ", data, place + 32)
        if data[place : place + 4] == b"\xe5EVF" and offset == place:
            named.append(watermark)
    return max(named)


def read_head(path: Path) -> list[tuple[bytes, int, bytes]]:
    """The log's id, a sequence and the chain value there, of each slot of HEAD that is one."""
    data = path.read_bytes() if path.exists() else b""
    slots = [data[at : at + SLOT] for at in (0, 4096)]
    whole = [slot for slot in slots if slot[:10] == b"\xe5EVH\r\n\x1a\n\1\0" and len(slot) == SLOT]
    return [(slot[16:32], struct.unpack_from("<Q", slot, 48)[0], slot[56:88]) for slot in whole]


def verify(log: Path, anchor: tuple[int, bytes] | None) -> str:
    """Follow the chain to its end, and say where that is."""
    head = read_head(log / "HEAD")  # before the segments: a live writer can only get ahead of it
    paths = [path for path in log.iterdir() if re.fullmatch(r"\d{20}-\d{8,}\.ev[lz]", path.name)]
    paths.sort(key=lambda path: int(path.stem.split("-")[1]))
    if not paths and not head:
        raise Broken(f"there is no log in {log}")
    place, why, data, met, ids = (0, ZEROS, 0, 0), "", b"", {0: ZEROS}, {slot[0] for slot in head}
    headers = [read_header(path, number) for number, path in enumerate(paths, 1)]
    for number, (path, (log_id, epoch, before)) in enumerate(zip(paths, headers, strict=True), 1):
        if before != (place[0], place[1], place[3]):
            raise Broken(f"{why}, but {path.name} begins after event {before[0]} and byte {before[2]}")
        ids.add(log_id)
        data = path.read_bytes()
        # What lies behind the end that the next segment knows is dead, even if it looks like a frame.
        end = headers[number][2][2] if number < len(headers) else len(data)
        used, place = data[:end], (*place[:3], HEADER)
        while isinstance(after := next_place(used, log_id, epoch, place), tuple):
            place = after
            met[place[0]] = place[1]
        why = f"{after} at byte {place[3]} of {path.name}, behind event {place[0]}"
    named = max([named_behind(data, place[3]), *(sequence for _, sequence, _ in head)])
    if named > place[0]:
        raise Broken(f"{why or 'nothing is left'}, but event {named} is named as durable")
    if len(ids) > 1 or any(met.get(sequence) != chain for _, sequence, chain in head):
        raise Broken("HEAD or a segment is of another log, or HEAD knows another chain value")
    if anchor is not None and met.get(anchor[0]) != anchor[1]:
        raise Broken(f"the log does not go through event {anchor[0]} as the anchor knows it")
    torn = len(data[place[3] :].rstrip(b"\0"))
    return f"whole: {place[0]}:{place[1].hex()}" + (f" and {torn} torn bytes behind it" if torn else "")


if __name__ == "__main__":
    anchors = [(int(part.split(":")[0]), bytes.fromhex(part.split(":")[1])) for part in sys.argv[2:3]]
    try:
        sys.stdout.write(verify(Path(sys.argv[1]), anchors[0] if anchors else None) + "\n")
    except Broken as problem:
        sys.exit(sys.stderr.write(f"NOT whole: {problem}.\n") and 5)
