"""What a crash may leave behind the end: it opens, it is reported, and nobody ever writes over it."""

import pytest

from eventlog.storage import verify
from eventlog.storage.framing import Place, build_commit
from eventlog.storage.header import parse_segment_header

from .logs import open_log, payloads_in, segments_of, write_log


def end_of(path):
    """Where the frames of a segment end: the sector after the last byte that is not zero."""
    return -(-len(path.read_bytes().rstrip(b"\0")) // 512) * 512


def next_frame(path, durable, time_ns, *payloads):
    """The frame that the writer of this segment would have written next."""
    header = parse_segment_header(path.read_bytes()[:4096])
    place = Place(durable.sequence, durable.chain, time_ns, end_of(path))
    return build_commit(header.stamp, place, time_ns, payloads)[0]


@pytest.fixture(name="log")
def _log(tmp_path):
    write_log(tmp_path, [b"one"], [b"two"])
    return tmp_path


def put(path, offset, data):
    """Write into a file without changing its size."""
    whole = bytearray(path.read_bytes())
    whole[offset : offset + len(data)] = data
    path.write_bytes(whole)


@pytest.mark.parametrize("kept", [1, 4, 103, 104, 105, 300, 511])
def test_torn_tail_is_reported_and_never_written_over(log, kept):
    """A frame of which only the first bytes arrived: torn, opened, and left where it is for ever."""
    path = segments_of(log)[0]
    frame = next_frame(path, verify(log).position, 2**61, b"three" * 90)
    end = end_of(path)
    put(path, end, frame[:kept])
    before = path.read_bytes()
    warnings = []
    with open_log(log, warn=warnings.append) as writer:
        assert writer.found.kind == "torn"
        assert writer.found.torn_bytes == len(frame[:kept].rstrip(b"\0"))
        assert "unfinished commit" in warnings[0]
        writer.append([b"after"])
    assert path.read_bytes() == before
    assert payloads_in(log) == [b"one", b"two", b"after"]
    assert verify(log).kind == "clean"


def test_a_whole_frame_that_was_never_acknowledged_is_adopted(log):
    """The crash came after the write and before the acknowledgement: the commit is there, wholly."""
    path = segments_of(log)[0]
    frame = next_frame(path, verify(log).position, 2**61, b"three", b"four")
    put(path, end_of(path), frame)
    assert payloads_in(log) == [b"one", b"two", b"three", b"four"]


def test_bytes_dropped_once_never_return(log):
    """A stale frame that fits the chain exactly, behind the end that a successor recorded, stays dead."""
    path = segments_of(log)[0]
    durable = verify(log).position
    frame = next_frame(path, durable, 2**61, b"stale")
    end = end_of(path)
    write_log(log, [b"three"])
    put(path, end, frame)
    assert payloads_in(log) == [b"one", b"two", b"three"]
    write_log(log, [b"four"])
    assert payloads_in(log) == [b"one", b"two", b"three", b"four"]


def test_a_writer_never_writes_into_a_segment_of_an_earlier_session(log):
    """Each session that appends makes a segment of its own; one that appends nothing makes none."""
    first = segments_of(log)[0].read_bytes()
    with open_log(log) as writer:
        assert writer.epoch == 2
    assert len(segments_of(log)) == 1
    with open_log(log) as writer:
        writer.append([b"three"])
    with open_log(log) as writer:
        assert writer.epoch == 3
        writer.append([b"four"])
    assert [path.name for path in segments_of(log)] == [
        "00000000000000000001-00000001.evl",
        "00000000000000000003-00000002.evl",
        "00000000000000000004-00000003.evl",
    ]
    assert segments_of(log)[0].read_bytes() == first


def test_an_empty_segment_is_passed_over(log):
    """A crash between naming a segment and its first commit leaves an empty one; the next starts alike."""
    with open_log(log) as writer:
        writer.append([b"three"])
    path = segments_of(log)[1]
    put(path, 4096, bytes(512))
    (log / "HEAD").unlink()
    write_log(log, [b"three again"])
    names = [path.name for path in segments_of(log)]
    assert names[1:] == ["00000000000000000003-00000002.evl", "00000000000000000003-00000003.evl"]
    assert payloads_in(log) == [b"one", b"two", b"three again"]


@pytest.mark.parametrize("content", [b"", b"\xff" * 8192, bytes(8192), b"\xe5EVH\r\n\x1a\n" * 1024])
def test_a_garbage_head_is_a_legal_crash_image(log, content):
    """Both slots destroyed: no evidence, and no error."""
    (log / "HEAD").write_bytes(content)
    assert verify(log).kind == "clean"
    write_log(log, [b"three"])
    assert payloads_in(log) == [b"one", b"two", b"three"]


def test_left_over_temporary_segments_are_no_part_of_the_log(log):
    """A segment that never got its name is ignored by readers and removed by the next writer."""
    stray = log / "00000000000000000003-00000002.evl.new"
    stray.write_bytes(b"half a header")
    assert payloads_in(log) == [b"one", b"two"]
    write_log(log, [b"three"])
    assert not stray.exists()
    assert payloads_in(log) == [b"one", b"two", b"three"]
