"""Strike every system call of a scene with every fault, one process each, and hold the log against it."""

import shutil
import signal
from typing import NamedTuple

import eventlog.errors
from eventlog.storage import verify
from tests.system.order import is_new, is_segment, objections
from tests.system.processes import judge, judge_and_go_on, numbers
from tests.system.strace import RENAMES, SYNCS, UNLINKS, WRITES, Call, traced

CALLS = ("openat", *WRITES, *SYNCS, *RENAMES, *UNLINKS)
NO_ROOM = ("ENOSPC", "EDQUOT")
FAULTS = ("EIO", *NO_ROOM, "KILL")
COUNT = 7  # commits of a scene: they fill a segment, so that there is a roll
NEXT = 1_000_000  # the commit that goes on after the fault


class Struck(NamedTuple):
    """One process with one fault: what it said, its calls, and the call that was hit."""

    said: list
    calls: list
    hit: Call


class Scene:
    """An act on a copy of a prepared log. `told` is what those who prepared it said."""

    def __init__(self, server, directory, prepare, act, **order):
        self.server = server
        self.directory = directory
        self.start = directory / "start"
        self.told = prepare(server, self.start)
        self.act = act
        self.order = order
        self.count = 0

    def play(self, gate_at, inject=""):
        """Let the process act on a fresh copy, with a fault or without; traced at once or when it is open."""
        self.count += 1
        self.log = self.directory / f"log-{self.count}"
        if self.start.exists():
            shutil.copytree(self.start, self.log)
        return traced(self.server, self.act, self.log, inject, gate_at, **self.order)

    def points(self, name):
        """Every call of this name on the log: whence it is counted, and its number.

        What the writer's thread does is counted from when the log is open, lest its fault hits the opening.
        """
        found = []
        for gate_at in ("start", "opened") if self.act == "write" else ("start",):
            said, calls = self.play(gate_at)
            shutil.rmtree(self.log)
            assert said[-1] == ["D"]
            assert objections(calls) == []
            main = next(call.thread for call in calls if call.name == "write")
            named = [call for call in calls if call.name == name]
            found += [(gate_at, call.nth) for call in named if (call.thread == main) == (gate_at == "start")]
        return found

    def strike(self, name, point, fault):
        """Play with one fault; the trace shows that it hit, and that no sync came too late or too often."""
        gate_at, nth = point
        kind = "signal" if fault == "KILL" else "error"
        said, calls = self.play(gate_at, f"{name}:{kind}={fault}:when={nth}")
        hits = [call for call in calls if call.name == name and call.nth == nth]
        assert hits, (name, point, said)
        if fault == "KILL":
            assert said[-1:] != [["D"]]
        else:
            assert all(call.struck for call in hits)
        assert objections(calls) == [], (name, point, fault, objections(calls))
        return Struck(said, calls, hits[-1])

    def judge(self, struck):
        """Acknowledged <= recovered <= issued, and the log goes on."""
        assert self.log.exists() or not numbers(struck.said, "A")
        told = [*self.told, struck.said]
        judge(self.log, told)
        judge_and_go_on(self.log, told, NEXT)
        shutil.rmtree(self.log)


def unclean_log(server, log):
    """A log whose writer was killed in the middle of a frame."""
    life = server.start("write", log, first=100, strike=[11, "within", 9])
    life.wait()
    assert verify(log).kind == "torn"
    return [life.said]


def no_log(server, log):
    """Nothing."""
    return []


def old_log(server, log):
    """A log of two sessions and several segments, whose last writer was killed."""
    first = server.run("write", log, first=100, count=8)
    second = server.start("write", log, first=200, strike=[11, "within", 9])
    second.wait()
    assert verify(log).kind == "torn"
    return [first, second.said]


def twins_unfinished(server, log):
    """An old log, whose compression was killed when one plain segment and its twin were both there."""
    told = old_log(server, log)
    names = [
        words[1] for words in server.run("compact", copied(log, "whole"), strike=[0, ""]) if words[0] == "K"
    ]
    life = server.start("compact", log, strike=[names.index("unlink") + 1, "before", 9])
    assert life.wait() == signal.SIGKILL
    assert any(log.glob("*.evz"))
    assert len({path.stem for path in log.glob("*.ev?")}) < len(list(log.glob("*.ev?")))
    return told


def copied(log, name):
    """A copy of a log beside it."""
    return shutil.copytree(log, log.with_name(name))


def target_of(call):
    """What a call is about: a segment, HEAD, LOCK or a directory."""
    if is_segment(call.path) or is_new(call.path):
        return "segment"
    return call.path.rpartition("/")[2] if call.path.endswith(("HEAD", "LOCK")) else "directory"


def expected(call, fault):
    """What the commit in hand becomes when the writer's thread is struck here: a letter, and "goes on"."""
    target, room = target_of(call), fault in NO_ROOM
    if call.name in SYNCS or target == "directory":
        # A sync that failed says nothing about what it was to sync, whatever the error's name; that of HEAD
        # comes when everybody was told.
        return ("A" if target == "HEAD" else "U"), False
    if target == "HEAD" and call.name == "pwrite64":
        return "A", room
    if call.name == "fallocate":
        return ("A", True) if room else ("U", False)
    return ("N", True) if room else ("U", False)


def check_outcome(struck, fault):
    """The three outcomes, and what becomes of the handle."""
    results = [(words[0], int(words[1])) for words in struck.said if words[0] in "ANUC"]
    letters = [letter for letter, _ in results]
    if fault == "KILL":
        assert set(letters) <= {"A"}
    elif struck.hit.thread == next(call.thread for call in struck.calls if call.name == "write"):
        check_opening(struck, letters)
    else:
        spoken = [
            call.text for call in struck.calls if call.name == "write" and call.ended < struck.hit.begun
        ]
        before = sum('"A ' in text for text in spoken)
        letter, goes_on = expected(struck.hit, fault)
        rest = COUNT - before - 1
        wanted = ["A"] * before + [letter] + ["A" if goes_on else "C"] * rest
        assert letters == wanted[:COUNT], (struck.hit, fault, letters)
        assert struck.said[-1] == ["D"]


def check_compaction(scene, struck, fault):
    """A fault while compressing: an error of ours or none; the log is whole, and the next time it works."""
    if fault != "KILL" and struck.said[-1] != ["D"]:
        check_opening(struck, [])
    told = [*scene.told, struck.said]
    before = judge(scene.log, told)
    assert scene.server.run("compact", scene.log)[-1] == ["D"]
    assert {path.suffix for path in scene.log.glob("0*")} == {".evz"}
    assert judge(scene.log, told) == before


def check_opening(struck, letters):
    """A fault while opening: the log is refused with an error of ours, or it hit what is only for people."""
    word, *names = struck.said[-1]
    if word == "E":
        assert issubclass(vars(eventlog.errors)[names[0]], eventlog.errors.EventLogError)
        assert letters == []
    else:
        assert struck.hit.name in ("pwrite64", "ftruncate")
        assert struck.hit.path.endswith("LOCK")
        assert letters == ["A"] * COUNT
