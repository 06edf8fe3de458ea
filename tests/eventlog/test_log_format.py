"""The bytes: FORMAT.md's example, round trips, and a parser that ends on anything."""

import re
import struct
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from eventlog.errors import EventLogError, LogUnsupported
from eventlog.storage import LogReader, verify
from eventlog.storage import format as numbers
from eventlog.storage.format import CODEC_PLAIN, CODEC_ZSTD
from eventlog.storage.framing import (
    Place,
    Stamp,
    build_commit,
    build_seal,
    join_body,
    parse_header,
    split_body,
)
from eventlog.storage.head import Head, pack_slot, parse_head, parse_slot
from eventlog.storage.header import NotAHeader, SegmentHeader, pack_segment_header, parse_segment_header

from .logs import Unsynced, open_log, payloads_in, segments_of, write_log

FORMAT = (Path(__file__).parents[2] / "eventlog" / "FORMAT.md").read_text("utf-8")
EVENTS = [b"hello", b"ab", b"", b"cde"]


def example(name, size):
    """The bytes of an example in FORMAT.md, with the rows of zeros put back."""
    block = re.search(rf"<!-- example: {name} -->\n```\n(.*?)```", FORMAT, re.DOTALL)[1]
    data = bytearray(size)
    for row in block.splitlines():
        at = int(row[:8], 16)
        data[at : at + 16] = bytes.fromhex(row[10:57])
    return bytes(data)


def test_the_example_of_the_format_page_is_a_log(tmp_path):
    """The program reads it, with its HEAD, as the page says."""
    (tmp_path / "00000000000000000001-00000001.evl").write_bytes(example("segment", 8192))
    (tmp_path / "HEAD").write_bytes(example("slot", 96))
    assert verify(tmp_path).kind == "clean"
    assert payloads_in(tmp_path) == EVENTS
    with LogReader.open(tmp_path) as reader:
        assert reader.log_id == bytes(range(16))
        assert {record.epoch for record in reader.read()} == {1}
    with open_log(tmp_path) as writer:
        assert writer.append([b"goes on"]) == 5


def test_a_stranger_reads_the_example_with_the_page_alone():
    """A reader of twenty lines, written from FORMAT.md's tables; it shares no code with the program."""
    data = example("segment", 8192)
    assert data[:8] == bytes.fromhex("e5 45 56 4c 0d 0a 1a 0a")
    assert struct.unpack_from("<Q", data, 4088)[0] == xxh3_64_intdigest(data[:4088])
    log_id, (salt,) = data[16:32], struct.unpack_from("<Q", data, 56)
    chain, at, events = bytes(32), 4096, []
    while data[at : at + 4] == b"\xe5EVF":
        stored, raw, count, epoch, first, _, offset, time = struct.unpack_from("<IIIIQQQQ", data, at + 8)
        body = data[at + 104 : at + 104 + stored]
        assert offset == at
        assert struct.unpack_from("<QQ", data, at + 88) == (
            xxh3_64_intdigest(body),
            xxh3_64_intdigest(data[at : at + 96], salt),
        )
        logical = struct.pack("<IIIQQ", epoch, count, raw, first, time)
        chain = sha256(chain + log_id + logical + body).digest()
        assert data[at + 56 : at + 88] == chain
        table = struct.unpack_from(f"<{count}I", body) if count > 1 else (raw,)
        start = 4 * count if count > 1 else 0
        events += [body[start + low : start + high] for low, high in pairwise((0, *table))]
        at += -(-(104 + stored) // 512) * 512
    assert events == EVENTS
    assert example("slot", 96)[56:88] == chain


def test_the_page_and_the_program_agree_on_the_numbers():
    """Sizes are sums; the tables of the page add up to them."""
    assert (numbers.FRAME_HEADER_BYTES, numbers.SEGMENT_FIELDS.size, numbers.HEAD_SLOT_BYTES) == (
        104,
        136,
        96,
    )
    assert (numbers.SEGMENT_CHECKSUM_OFFSET, numbers.MAX_COMMIT_BYTES) == (4088, 268_435_456)
    for table, size in (("Segment header", 4096), ("Frame", 104), ("HEAD", 96)):
        section = FORMAT.split(f"\n## {table}\n")[1].split("\n## ")[0]
        rows = [(int(a), int(b)) for a, b in re.findall(r"^\| (\d+) \| (\d+) \|", section, re.MULTILINE)]
        assert [at for at, _ in rows] == [sum(b for _, b in rows[:n]) for n in range(len(rows))]
        assert sum(b for _, b in rows) == size


u64 = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)
stamps = st.builds(Stamp, st.binary(min_size=16, max_size=16), u32, u64)
places = st.builds(
    Place,
    st.integers(0, 2**63),
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**63),
    st.integers(8, 2**40).map(lambda n: n * 512),
)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_a_body_gives_its_events_back(payloads):
    """Any events, empty ones too."""
    assert split_body(join_body(payloads), len(payloads)) == payloads


@given(st.binary(max_size=80), st.integers(1, 12))
def test_splitting_any_bytes_ends_in_events_or_none(body, count):
    """A table that does not describe the body is refused, never misread."""
    events = split_body(body, count)
    assert events is None or (len(events) == count and join_body(events) == body)


@given(stamps, places, u64, st.lists(st.binary(max_size=40), min_size=1, max_size=9))
def test_a_frame_gives_its_header_back(stamp, place, time_ns, payloads):
    """Whatever the values; another salt, epoch or offset does not see a frame there."""
    frame, after = build_commit(stamp, place, time_ns, payloads)
    header = parse_header(b"xx" + frame, 2, place.offset_bytes, stamp)
    assert header.events == len(payloads)
    assert (header.first_sequence, header.watermark) == (place.sequence + 1, place.sequence)
    assert (header.end_bytes, header.chain, header.time_ns) == (after.offset_bytes, after.chain, time_ns)
    assert len(frame) % 512 == 0
    assert parse_header(frame, 0, place.offset_bytes + 512, stamp) is None
    assert parse_header(frame, 0, place.offset_bytes, stamp._replace(salt=stamp.salt ^ 1)) is None
    assert parse_header(frame, 0, place.offset_bytes, stamp._replace(epoch=stamp.epoch ^ 1)) is None


@given(stamps, places)
def test_a_seal_repeats_the_chain_value(stamp, place):
    """It adds no event and nothing to the chain."""
    frame, after = build_seal(stamp, place)
    header = parse_header(frame, 0, place.offset_bytes, stamp)
    assert (header.kind, header.events, header.chain) == (numbers.SEAL, 0, place.chain)
    assert after == place._replace(offset_bytes=place.offset_bytes + 512)


def test_a_frame_of_a_newer_version_is_unsupported():
    """Its checksum is right, so it is no damage."""
    stamp, place = Stamp(bytes(16), 1, 7), Place(0, bytes(32), 0, 4096)
    frame = bytearray(build_commit(stamp, place, 1, [b"x"])[0])
    for at in (4, 5, 6):
        changed = frame.copy()
        changed[at] = 9
        changed[96:104] = struct.pack("<Q", xxh3_64_intdigest(bytes(changed[:96]), 7))
        with pytest.raises(LogUnsupported, match="Upgrade"):
            parse_header(bytes(changed), 0, 4096, stamp)


headers = st.builds(
    SegmentHeader,
    st.binary(min_size=16, max_size=16),
    u64,
    u64,
    u32,
    st.sampled_from((CODEC_PLAIN, CODEC_ZSTD)),
    st.booleans(),
    u64,
    u64,
    u64,
    u64,
    u64,
    st.binary(min_size=32, max_size=32),
    u64,
)


@given(headers)
def test_a_segment_header_gives_its_fields_back(header):
    """One block of 4,096 bytes."""
    block = pack_segment_header(header)
    assert len(block) == 4096
    assert parse_segment_header(block) == header


@given(headers, st.integers(0, 4095), st.integers(1, 255))
def test_no_changed_byte_of_a_segment_header_is_taken_for_one(header, at, change):
    """It is either no header or of an unknown format."""
    block = bytearray(pack_segment_header(header))
    block[at] ^= change
    with pytest.raises((NotAHeader, LogUnsupported)):
        parse_segment_header(bytes(block))


@given(
    st.builds(
        Head, st.binary(min_size=16, max_size=16), u32, u64, u64, u64, st.binary(min_size=32, max_size=32)
    )
)
def test_a_slot_gives_its_position_back(head):
    """And of two slots the larger comes last."""
    assert parse_slot(pack_slot(head)) == head
    other = head._replace(sequence=head.sequence // 2)
    both = pack_slot(head).ljust(4096, b"\0") + pack_slot(other)
    assert [found for _, found in parse_head(both)][-1] == head


@given(st.binary(max_size=9000))
def test_any_bytes_are_no_head_and_no_error(data):
    """HEAD promises something or nothing."""
    assert parse_head(data) == []


hostile = st.lists(
    st.one_of(
        st.binary(max_size=600),
        st.sampled_from([numbers.FRAME_MAGIC * 300, bytes(512), numbers.SEGMENT_MAGIC, b"\xff" * 700]),
    ),
    max_size=12,
).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(tail=hostile, at=st.integers(4096, 8191))
def test_any_bytes_behind_the_frames_end_in_a_verdict(tmp_path_factory, tail, at):
    """Over frames, behind them, behind the end of the file: the scan ends, and what it gives was written."""
    directory = tmp_path_factory.mktemp("hostile")
    write_log(directory, [b"one"], [b"two", b"three"], filesystem=Unsynced())
    path = segments_of(directory)[0]
    data = bytearray(path.read_bytes())
    data[at : at + len(tail)] = tail
    path.write_bytes(data)
    verdict = verify(directory)
    assert verdict.kind in ("clean", "torn", "lost")
    if verdict.opens:
        assert payloads_in(directory, filesystem=Unsynced()) == [b"one", b"two", b"three"]


@settings(max_examples=60, deadline=None)
@given(data=hostile)
def test_any_bytes_as_a_segment_are_refused(tmp_path_factory, data):
    """A named segment with a bad header is damage: never a crash, never an empty log."""
    directory = tmp_path_factory.mktemp("hostile")
    (directory / "00000000000000000001-00000001.evl").write_bytes(data)
    assert verify(directory).kind in ("lost", "unsupported")
    with pytest.raises(EventLogError):
        LogReader.open(directory, filesystem=Unsynced())


def test_an_event_that_contains_the_log_itself_is_never_taken_for_frames(tmp_path):
    """A payload may hold any bytes, whole segments too: the salt and the offset keep them apart."""
    write_log(tmp_path, [b"one"])
    whole = segments_of(tmp_path)[0].read_bytes()
    with open_log(tmp_path, first_segment_bytes=1 << 16, largest_segment_bytes=1 << 16) as writer:
        writer.append([whole])
        writer.append([segments_of(tmp_path)[1].read_bytes().rstrip(b"\0")])
    last = segments_of(tmp_path)[-1]
    data = bytearray(last.read_bytes())
    data[4096:4100] = bytes(4)
    last.write_bytes(data)
    (tmp_path / "HEAD").unlink()
    assert verify(tmp_path).kind == "lost"
    assert verify(tmp_path).problem.promised_sequence == 2
