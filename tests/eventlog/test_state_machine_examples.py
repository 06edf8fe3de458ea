"""What the state machine has found, written out: each of these sequences once broke a promise."""

import errno

import pytest

from .log_machine import LogMachine


@pytest.mark.parametrize("sync", ["kept", "reverted", "dirty"])
@pytest.mark.parametrize("follow", [False, True])
def test_a_reader_is_not_shown_what_a_failed_sync_left_in_the_page_cache(sync, follow):
    """The writer is gone, the cache shows its last commit, the disk never got it; then the power fails."""
    for seed in range(8):
        log = LogMachine()
        log.open()
        log.append([20])
        log.fail("fdatasync", error=errno.EIO, nth=1, path=".evl", sync=sync, written_bytes=0)
        log.append([400])
        log.close()
        log.read_elsewhere(follow=follow)
        log.lose_power(0, seed)
        log.finish()


def test_a_session_that_compresses_leaves_a_compressed_segment_alone():
    """The last segment of the session before is compressed already: once its twin was unlinked as plain."""
    log = LogMachine()
    for _ in range(3):
        log.open(compress_sealed=True)
        for _ in range(4):
            log.append([12_000])
        log.close()
        log.compact()
    log.finish()


def test_a_reader_beside_a_writer_that_compresses_looks_again_from_the_right_place():
    """When a file goes away in the middle of a look the reader begins again, in the right segment."""
    log = LogMachine()
    log.open(compress_sealed=True)
    for _ in range(30):
        log.append([3000, 3000])
        log.read_elsewhere(follow=False)
        log.read_elsewhere(follow=True)
    log.finish()


def test_a_reader_beside_a_writer_that_has_noted_nothing_yet_is_shown_no_more_than_is_promised():
    """HEAD is lost with the power; a new writer has opened the log and written nothing so far."""
    for seed in range(8):
        log = LogMachine()
        log.open()
        log.append([0])
        log.lose_power(0, seed)
        log.open()
        log.read_elsewhere(follow=False)
        log.append([5])
        log.read_elsewhere(follow=False)
        log.finish()


def test_a_poisoned_writer_is_followed_by_one_that_finds_the_rest():
    """Each sync model of each failing call, another session, a crash: nothing promised is missed."""
    for call, path in (("fdatasync", ".evl"), ("fsync", ".new"), ("pwrite", ".evl"), ("rename", "")):
        for sync in ("kept", "reverted", "dirty"):
            log = LogMachine()
            log.open()
            log.append([20])
            log.fail(call, error=errno.EIO, nth=1, path=path, sync=sync, written_bytes=600)
            log.append_many([[400], [12_000], [20]])
            log.close()
            log.open()
            log.append([300])
            log.lose_power(1, 5)
            log.finish()
