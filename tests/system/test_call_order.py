"""The trace of a real writer shows each sync where it has to be."""

import signal

import pytest

from tests.system.order import is_new, is_segment, objections
from tests.system.processes import judge
from tests.system.strace import RENAMES, SYNCS, traced


@pytest.fixture
def life(server, tmp_path):
    """Open a new log two directories deep, append, roll, close; traced."""
    log = tmp_path / "made" / "here" / "log"
    said, calls = traced(server, "write", log, count=9)
    assert judge(log, [said]) == list(range(9))
    return log, said, calls


def steps(calls, log):
    """The calls on segments and directories as short lines, without reads, HEAD and LOCK."""
    shown = []
    for call in calls:
        name = call.path.replace(str(log), "log").partition("-")[2] or call.path.replace(str(log), "log")
        concerned = is_segment(call.path) or is_new(call.path) or call.path == str(log)
        changing = call.name in (*SYNCS, *RENAMES, "fallocate", "pwrite64") or "O_CREAT" in call.text
        if concerned and changing:
            shown.append(f"{call.name} {name}")
    return shown


def test_every_acknowledgement_comes_after_the_sync_of_its_frame(life):
    """pwrite, fdatasync, and only then "acknowledged"; HEAD between the last two; no name is forgotten."""
    _, said, calls = life
    assert objections(calls) == []
    for words in said:
        if words[0] == "A":
            issued, acked = (
                next(call for call in calls if f'"{letter} {words[1]}\\n"' in call.text) for letter in "IA"
            )
            between = [call for call in calls if issued.ended < call.begun and call.ended < acked.begun]
            data = [call.name for call in between if is_segment(call.path)]
            assert data[-2:] == ["pwrite64", "fdatasync"]
            assert [call.path[-4:] for call in between if call.name == "pwrite64"][-1] == "HEAD"


def test_a_new_segment_is_synced_then_named_then_its_directory_synced(life):
    """Create, allocate, header, fsync, rename, fsync of the directory; then the first frame."""
    log, _, calls = life
    assert steps(calls, log)[:8] == [
        "openat 00000001.evl.new",
        "fallocate 00000001.evl.new",
        "pwrite64 00000001.evl.new",
        "fsync 00000001.evl.new",
        "rename 00000001.evl.new",
        "fsync log",
        "pwrite64 00000001.evl",
        "fdatasync 00000001.evl",
    ]


def test_a_roll_syncs_the_seal_before_the_next_header_is_written(life):
    """Seal, fdatasync, and only then the file whose header says where the old one ended."""
    log, _, calls = life
    shown = steps(calls, log)
    for number in range(2, sum("fallocate" in step for step in shown) + 1):
        made = shown.index(f"openat {number:08}.evl.new")
        assert shown[made - 2 : made] == [f"pwrite64 {number - 1:08}.evl", f"fdatasync {number - 1:08}.evl"]
        assert shown[made + 3 : made + 6] == [
            f"fsync {number:08}.evl.new", f"rename {number:08}.evl.new", "fsync log",
        ]  # fmt: skip
    assert "rename 00000002.evl.new" in shown


def test_every_directory_that_was_made_is_synced_before_the_first_acknowledgement(life):
    """The log lies in two directories that did not exist: the names of all three become durable."""
    log, _, calls = life
    acked = next(call for call in calls if '"A 0' in call.text)
    synced = {call.path for call in calls if call.name == "fsync" and call.ended < acked.begun}
    assert {str(path) for path in (log, log.parent, log.parents[1], log.parents[2])} <= synced


def test_opening_syncs_and_drops_the_cache_before_it_reads_and_writes_after(server, tmp_path):
    """Lock; fdatasync of the last segment; its directory; cache dropped; read; LOCK's text comes last."""
    log = tmp_path / "log"
    first = server.start("write", log, strike=[60, "after", signal.SIGKILL])
    assert first.wait() == signal.SIGKILL
    said, calls = traced(server, "write", log, first=10, count=1)
    assert objections(calls) == []
    opened = next(call for call in calls if '"O' in call.text)
    opening = [call for call in calls if call.ended < opened.begun and call.name not in ("openat", "write")]
    named = [f"{call.name} {call.path.rpartition('/')[2][-4:]}" for call in opening]
    steps_in_order = ["flock LOCK", "fdatasync .evl", "fsync log", "fadvise64 .evl", "pread64 .evl"]
    places = [named.index(step) for step in steps_in_order]
    assert places == sorted(places)
    assert named[-1] == "pwrite64 LOCK"
    assert [name for name in named if name.startswith(("pwrite64", "rename"))] == ["pwrite64 LOCK"]
    judge(log, [first.said, said])


@pytest.mark.parametrize(
    ("gone", "found"),
    [
        (lambda call: call.name == "fdatasync", "is not synced"),
        (lambda call: call.name == "fsync" and is_new(call.path), "its content is not synced"),
        (lambda call: call.name == "fsync" and call.path.endswith("/log"), "names in"),
        (lambda call: call.name == "fsync" and call.path.endswith("/here"), "names in"),
        (lambda call: call.name == "fsync" and call.path.endswith("/made"), "names in"),
    ],
    ids=["frame", "new segment", "directory", "parent", "grandparent"],
)
def test_a_sync_that_is_left_out_of_the_trace_is_missed(life, gone, found):
    """The judge of the order can say no: without one kind of sync the same trace is objected to."""
    _, _, calls = life
    assert any(found in objection for objection in objections([call for call in calls if not gone(call)]))


def test_a_sync_that_comes_after_the_acknowledgement_is_too_late(life):
    """Moving each fdatasync behind the next thing said is objected to, every time."""
    _, said, calls = life
    late = list(calls)
    for call in calls:
        if call.name == "fdatasync":
            place = late.index(call)
            spoken = next((at for at in range(place, len(late)) if late[at].name == "write"), None)
            late.insert(spoken + 1, late.pop(place))
    assert sum('"A' in objection for objection in objections(late)) >= sum(w[0] == "A" for w in said)
