"""A reader holds no lock: whatever happens between two of its calls, it is shown the log and nothing else."""

import os
import shutil

import pytest

from eventlog.storage import LogReader, RealFileSystem, compact, verify

from .logs import open_log, payloads_in, write_log

COMMITS = [[b"%d" % number + b"x" * 1500] for number in range(14)]
EVENTS = [event for commit in COMMITS for event in commit]
MORE = [b"y" * 3000, b"z" * 3000]


class Interrupted(RealFileSystem):
    """A reader's view of real files; something happens just before its n-th call of one kind."""

    def __init__(self, call, nth, happening):
        self._left = nth
        self._happening = happening
        setattr(self, call, self._interrupt(getattr(self, call)))

    def _interrupt(self, call):
        def interrupted(*args):
            self._left -= 1
            if self._left == 0:
                self._happening()
            return call(*args)

        return interrupted


def compress(directory):
    """Somebody compresses the whole log."""
    compact(directory, random_bytes=os.urandom)


def write_on(directory):
    """Somebody opens the log, appends over two segments, and leaves."""
    write_log(directory, *([event] for event in MORE))


def write_and_compress(directory):
    """Both."""
    write_on(directory)
    compress(directory)


@pytest.mark.parametrize("happening", [compress, write_on, write_and_compress], ids=lambda one: one.__name__)
@pytest.mark.parametrize("call", ["open", "names", "pread", "lock_is_held", "fdatasync"])
@pytest.mark.parametrize("nth", range(1, 13))
def test_whatever_happens_between_two_calls_a_reader_is_shown_the_log(tmp_path, call, nth, happening):
    """A log of several segments is opened and read while somebody changes files: all of it, nothing else."""
    write_log(tmp_path, *COMMITS)
    disk = Interrupted(call, nth, lambda: happening(tmp_path))
    with LogReader.open(tmp_path, filesystem=disk) as reader:
        shown = [record.payload for record in reader.read()]
        assert shown in (EVENTS, EVENTS + MORE)
        reader.refresh()
        shown = [record.payload for record in reader.read()]
    assert shown in (EVENTS, EVENTS + MORE)
    assert payloads_in(tmp_path)[: len(shown)] == shown


@pytest.mark.parametrize("nth", range(1, 13))
def test_a_follower_beside_a_writer_that_compresses_sees_every_event_once(tmp_path, nth):
    """Opened at any moment, through files that are replaced under it."""
    seen = []
    with open_log(tmp_path, compress_sealed=True) as writer:
        for commit in COMMITS[:nth]:
            writer.append(commit)
        with LogReader.open(tmp_path) as follower:
            for commit in COMMITS[nth:]:
                seen += [record.payload for record in follower.read(len(seen) + 1)]
                writer.append(commit)
                assert follower.refresh() == writer.durable
            seen += [record.payload for record in follower.read(len(seen) + 1)]
    assert seen == EVENTS


class Compressing(RealFileSystem):
    """Each listing of the log is outdated at once: the next plain segment is replaced by its twin."""

    def __init__(self, log, twins):
        super().__init__()
        self._log, self._twins = log, twins

    def names(self, directory):
        """What was there a moment ago."""
        found = super().names(directory)
        plain = sorted(name for name in found if name.endswith(".evl"))
        if len(plain) > 1:
            twin = plain[0].replace(".evl", ".evz")
            shutil.copy(self._twins / twin, self._log / twin)
            (self._log / plain[0]).unlink()
        return found


def test_a_log_that_is_being_compressed_all_the_while_is_never_lost(tmp_path):
    """One segment after the other is replaced between being listed and opened: verify sees the log whole."""
    log, twins = tmp_path / "log", tmp_path / "twins"
    write_log(log, *[[b"event %d " % n * 300] for n in range(60)])
    shutil.copytree(log, twins)
    compact(twins, random_bytes=os.urandom)
    assert len(list(log.glob("*.evl"))) >= 8
    verdict = verify(log, filesystem=Compressing(log, twins))
    assert (verdict.kind, verdict.position.sequence) == ("clean", 60)
    assert len(list(log.glob("*.evl"))) <= 2
