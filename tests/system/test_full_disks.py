"""Disks that are really full, and limits that really cut a write short."""

import shutil
import signal

from eventlog.storage import verify
from tests.runs import evrun
from tests.system.filling import fill, results, write_until_full_then_make_room
from tests.system.images import in_memory
from tests.system.injection import old_log
from tests.system.processes import judge, judge_and_go_on


def test_a_full_disk_refuses_commits_and_takes_them_again_once_there_is_room(server, tmp_path):
    """A tmpfs of 64 KiB: what does not fit is certainly absent, the handle goes on, and so does the log."""
    for leave in (0, 8192, 24576, 36864):
        with in_memory(tmp_path / f"full-{leave}", 64) as disk:
            said = write_until_full_then_make_room(server, disk, leave, segment_bytes=8192)
            assert not set(results(said)) & set("UC"), said[-1]
            judge(disk / "log", [said])


def test_compression_on_a_full_disk_leaves_the_log_as_it_was(server, tmp_path):
    """No room for a twin: an error of ours, every byte of the log as before; with room it works."""
    start = tmp_path / "start"
    told = old_log(server, start)
    with in_memory(tmp_path / "disk", 512) as disk:
        log = shutil.copytree(start, disk / "log")
        server.run("write", log, count=0)  # opened and closed once, as compression does
        before = contents(log)
        filler = fill(disk)
        assert server.run("compact", log)[-1] == ["E", "NotCompressed"]
        assert contents(log) == before
        filler.unlink()
        assert server.run("compact", log)[-1] == ["D"]
        judge_and_go_on(log, told, 10**7)


def contents(log):
    """Every file of a log but LOCK, which is only for people."""
    return {path.name: path.read_bytes() for path in log.iterdir() if path.is_file() and path.name != "LOCK"}


def test_salvage_into_a_full_disk_fails_and_leaves_the_log_as_it_was(server, tmp_path):
    """What it can write it writes elsewhere; where it cannot it says so, and the log keeps every byte."""
    log = tmp_path / "run" / "log"
    told = old_log(server, log)
    before = contents(log)
    with in_memory(tmp_path / "disk", 64) as disk:
        filler = fill(disk)
        ended = evrun("salvage", log.parent, "--out", disk / "out", cwd=tmp_path)
        assert ended.code not in (0, None)
        assert "Traceback" not in ended.stderr
        assert contents(log) == before
        filler.unlink()
    judge_and_go_on(log, told, 10**7)


def test_short_writes_at_a_limit_leave_nothing_and_the_log_goes_on(server, tmp_path):
    """RLIMIT_FSIZE: the kernel takes a part of a frame, then EFBIG; the commit is certainly absent."""
    short = refused = 0
    for count, limit in enumerate(range(9_000, 24_000, 431)):
        log = tmp_path / f"log-{count}"
        said = server.run("limited", log, count=16, limit=limit, segment_bytes=64 << 10)
        assert said[-1] == ["D"]
        assert set(results(said)) <= set("AN"), said
        assert results(said)[8:] == "A" * 8
        assert all("errno 27" in " ".join(words) for words in said if words[0] == "N")
        judge_and_go_on(log, [said], 10**7)
        short += sum(words[0] == "SHORT" for words in said)
        refused += results(said).count("N")
    assert short > 10
    assert refused > 20


def test_what_a_short_write_left_is_taken_back(server, tmp_path):
    """Under the limit to the end, the log is closed with nothing behind its last commit: clean, not torn."""
    short = 0
    for count, limit in enumerate(range(9_000, 24_000, 1_291)):
        log = tmp_path / f"log-{count}"
        said = server.run("limited", log, count=16, limit=limit, segment_bytes=64 << 10, lifted=False)
        short += any(words[0] == "SHORT" for words in said)
        assert "N" in results(said)
        assert verify(log).kind == "clean"
        judge(log, [said])
    assert short > 3


def test_the_signal_of_the_limit_kills_and_loses_nothing(server, tmp_path, tally):
    """SIGXFSZ with its default action ends the process in the middle of a frame, which stays torn."""
    torn = 0
    for count, limit in enumerate(range(9_000, 30_000, 1_931)):
        log = tmp_path / f"log-{count}"
        order = {"count": 16, "limit": limit, "segment_bytes": 64 << 10, "allocate": False}
        life = server.start("limited", log, deadly=True, **order)
        assert life.wait() == signal.SIGXFSZ
        torn += any(words[0] == "SHORT" for words in life.said)
        judge_and_go_on(log, [life.said], 10**7)
    assert torn > 3
    tally("kills", count + 1)
