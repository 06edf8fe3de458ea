"""More than one process at a log: contending, stopped, fenced, forked."""

import re
import shutil
import signal
from random import Random

import pytest

from tests.system.injection import old_log, twins_unfinished
from tests.system.processes import commits_in, judge, judge_and_go_on, numbers, points_in

NEW = 100_000
PAIRS = {
    "a writer and a writer": (old_log, "write", "write"),
    "compression and a writer": (old_log, "compact", "write"),
    "compression and compression": (twins_unfinished, "compact", "compact"),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_holder_stopped_at_every_call_is_fenced_when_lock_was_replaced(server, tmp_path, tally, pair):
    """SIGSTOP before each call through the seam; LOCK removed; another works; SIGCONT.

    What either was told is in the log. The old one may be told of the commit that was durable when it
    stopped; it is told of no later one, and ends with an error if it has more to do.
    """
    prepare, act, then = PAIRS[pair]
    start, log = tmp_path / "start", tmp_path / "log"
    told = prepare(server, start)
    shutil.copytree(start, log)
    points = points_in(server.run(act, log, strike=[0, "before"]), 3 if act == "compact" else 1)
    stopped = 0
    for nth, _ in points:
        shutil.rmtree(log)
        shutil.copytree(start, log)
        old = server.start(act, log, strike=[nth, "before", signal.SIGSTOP])
        if not old.wait_until_stopped():
            continue
        stopped += 1
        before = old.said
        (log / "LOCK").unlink(missing_ok=True)
        new = [server.run(then, log, first=NEW, count=3), server.run("write", log, first=2 * NEW, count=2)]
        assert [said[-1] for said in new] == [["D"], ["D"]]
        old.send(signal.SIGCONT)
        assert old.wait() == 0
        if act == "write":
            check_fenced(before, old.said)
        judge_and_go_on(log, [*told, old.said, *new], 10 * NEW, ordered=False)
    assert stopped >= 0.9 * len(points)
    tally("stops", stopped)


def check_fenced(before, said):
    """Once it was open: at most the commit in hand was told of, one is unknown, all others are refused.

    One that was stopped before it had the lock opens the log after the other, as if nothing had been.
    """
    late = "".join(words[0] for words in said[len(before) :] if words[0] in "ANUC")
    fenced = re.fullmatch("A?U?C*", late) is not None
    assert fenced or (["O"] not in before and set(late) == {"A"}), said


def test_a_stopped_holder_keeps_the_log_while_lock_is_there(server, tmp_path):
    """Stopped is not dead: others are refused at once, and it goes on as if nothing had been."""
    log = tmp_path / "log"
    old = server.start("write", log, count=1000)
    old.wait_for("A", times=3)
    old.send(signal.SIGSTOP)
    assert old.wait_until_stopped()
    refused = server.run("write", log, first=NEW)
    assert refused == [["S"], ["E", "LogLocked"]]
    heard = len(numbers(old.said, "A"))
    old.send(signal.SIGCONT)
    old.wait_for("A", times=heard + 5)
    judge(log, [old.kill()])


def test_two_contending_processes_take_turns_and_neither_loses_a_commit(server, tmp_path, tally):
    """Both open, append and close as fast as they can; one after the other is killed and replaced."""
    log = tmp_path / "log"
    lives = [server.start("turns", log, first=number * NEW, count=NEW) for number in range(2)]
    told = []
    for number, rng in enumerate(map(Random, range(12)), start=2):
        victim = lives.pop(0)
        victim.wait_for("A", times=rng.randrange(1, 20))
        told.append(victim.kill())
        lives.append(server.start("turns", log, first=number * NEW, count=NEW))
    told += [life.kill() for life in lives]
    judge_and_go_on(log, told, 100 * NEW, ordered=False)
    for said in told:
        mine = set(numbers(said, "I"))
        kept = [number for number in commits_in(log) if number in mine]
        assert kept == sorted(kept)
    tally("kills", len(told))


def test_forks_in_the_middle_of_commits_leave_dead_handles_and_a_living_parent(server, tmp_path):
    """Fifteen forks while eight tasks append: every child's handle is dead and its files are closed."""
    log = tmp_path / "log"
    parent = server.start("forking", log, count=400, forks=15)
    assert parent.wait() == 0
    assert [words[1] for words in parent.said if words[0] == "F"] == ["dead"] * 15
    assert len(numbers(parent.said, "A")) == 400
    judge_and_go_on(log, [parent.said], NEW, ordered=False)


def test_a_fork_at_every_call_of_the_writer_leaves_nothing_open_in_the_child(server, tmp_path):
    """Forked between any two of its calls, the child has no file of the log open, and its handle is dead."""
    told = server.run("write", tmp_path / "told", strike=[0, "before"])
    first = 1 + sum(words[0] == "K" for words in told[: told.index(["O"])])
    left = []
    for nth, name in points_in(told):
        if nth > first:
            log = tmp_path / f"log-{nth}"
            said = server.run("write", log, strike=[nth, "before", "fork"])
            assert len(numbers(said, "A")) == 5, said
            judge(log, [said])
            shutil.rmtree(log)
            left += [(nth, name, words[1]) for words in said if words[0] == "F" and words[1] != "dead"]
    assert left == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_writer_whose_lock_was_unlinked_acknowledges_nothing_more(server, tmp_path, replaced):
    """While it works, LOCK is removed, and perhaps made anew by another: it ends with an error."""
    log = tmp_path / "log"
    old = server.start("write", log, count=1_000_000)
    old.wait_for("A", times=3)
    (log / "LOCK").unlink()
    told = []
    if replaced:
        told.append(server.run("write", log, first=10 * NEW, count=3))
        assert len(numbers(told[0], "A")) == 3
    old.wait_for("C")
    said = old.kill()
    results = "".join(words[0] for words in said if words[0] in "ANUC")
    assert results.strip("A").removeprefix("U").strip("C") == ""
    judge_and_go_on(log, [said, *told], 100 * NEW, ordered=False)
