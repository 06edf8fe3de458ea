"""Compression beside a writer: it rests, hurries, stops at once, and clears away what a crash left."""

import os
import shutil
import threading
import time

from eventlog.storage import LogReader, compact, verify
from eventlog.storage.compactor import HURRY_AT, PIECE_BYTES, REST_S, Compactor
from eventlog.storage.filesystem import RealFileSystem

from .logs import open_log, payloads_in, write_log
from .test_compact import chat


class Rests(threading.Event):
    """What the compactor waits for, which keeps how often and how long that was."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        """Wait, and remember it."""
        self.seconds.append(timeout)
        return super().wait(timeout)


def a_compactor():
    """One that was offered nothing."""
    return Compactor(RealFileSystem(), "/nowhere", scratch="0" * 8, is_fenced=lambda: False, warn=print)


def test_it_rests_after_each_piece_of_work_and_not_after_each_frame():
    """So who waits for the interpreter never waits long, and the rests are few."""
    compactor = a_compactor()
    compactor._closing = rests = Rests()
    for _ in range(300):
        compactor._pace(PIECE_BYTES // 100)
    assert 2 <= len(rests.seconds) <= 3
    assert set(rests.seconds) == {REST_S}


def test_it_hurries_while_many_segments_wait():
    """What comes faster than it can be compressed at ease is not left plain."""
    compactor = a_compactor()
    compactor._closing = rests = Rests()
    compactor._offered.extend([None] * HURRY_AT)
    compactor._pace(PIECE_BYTES)
    assert rests.seconds == []
    compactor._offered.popleft()
    compactor._pace(PIECE_BYTES)
    assert len(rests.seconds) == 1


def test_a_close_does_not_wait_for_a_rest():
    """A compactor that would rest for an hour ends with the log."""
    compactor = a_compactor()
    resting = threading.Thread(target=lambda: compactor._closing.wait(3600), daemon=True)
    resting.start()
    compactor.close()
    resting.join(30)
    assert not resting.is_alive()


def test_a_plain_segment_whose_twin_is_whole_goes_with_the_next_writer(tmp_path):
    """A kill came after the twin had got its name: the events stay, and the space comes back."""
    log = tmp_path / "log"
    write_log(log, *chat(120))
    kept = shutil.copytree(log, tmp_path / "plain")
    wanted = payloads_in(log)
    compact(log, random_bytes=os.urandom)
    first, *_ = sorted(kept.glob("*.evl"))
    shutil.copy(first, log)
    said = []
    with open_log(log, compress_sealed=True, warn=said.append) as writer:
        deadline = time.monotonic() + 30
        while (log / first.name).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [record.payload for record in writer.reader().read()] == wanted
    assert not (log / first.name).exists()
    assert not said
    assert payloads_in(log) == wanted
    assert verify(log).kind == "clean"


def test_any_event_of_a_compressed_log_is_found_by_the_index_in_the_file(tmp_path):
    """Each alone, and the chain at each commit, as in the plain log; no index is in memory."""
    log = tmp_path / "log"
    write_log(log, *chat(120), largest_segment_bytes=1 << 20)
    with LogReader.open(log) as reader:
        plain = list(reader.read())
        ends = [at for at in range(1, len(plain) + 1) if _ends_a_commit(reader, at)]
        chains = [reader.chain_at(at) for at in ends]
    compact(log, random_bytes=os.urandom)
    with LogReader.open(log) as reader:
        assert [reader.read_one(record.sequence) for record in plain] == plain
        assert [reader.chain_at(at) for at in ends] == chains
        assert not any(len(segment.index._sequences) for segment in reader._catalog.segments)


def _ends_a_commit(reader, sequence):
    try:
        reader.chain_at(sequence)
    except Exception:  # noqa: BLE001 - no commit ends there
        return False
    return True
