"""Real processes, killed with -9 at random and at chosen moments: what was acknowledged is there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from eventlog.storage import LogReader, LogWriter, verify

from .appending_child import payloads
from .logs import commits_in

CHILD = Path(__file__).with_name("appending_child.py")


class Child:
    """A running appending_child, and what it has said so far."""

    started: ClassVar[list["Child"]] = []

    def __init__(self, directory, mode="append", first=0, count=1_000_000, die_at=0):
        command = [sys.executable, str(CHILD), str(directory), mode, str(first), str(count), str(die_at)]
        surroundings = {**os.environ, "PYTHONPATH": str(CHILD.parents[2])}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings)
        self.said = []
        self.started.append(self)

    def listen_until(self, word, times=1):
        """Read on until the word was said that often from now on, or the child has ended."""
        while times:
            line = self.process.stdout.readline()
            if not line:
                return
            self.said.append(line.split())
            times -= line.split()[0] == word

    def kill(self):
        """Kill with -9 and take in what was said before."""
        self.process.kill()
        return self.finish()

    def finish(self):
        """Wait for the end and return what it said in all."""
        self.said += [line.split() for line in self.process.stdout]
        self.process.stdout.close()
        self.process.wait()
        return self.said


@pytest.fixture(autouse=True)
def leave_no_child_behind():
    """Kill what a failing test left running."""
    yield
    for child in Child.started:
        if child.process.returncode is None:
            child.kill()
    Child.started.clear()


def numbers(said, word):
    """List the commits of which a child said this word."""
    return [int(words[1]) for words in said if words[0] == word]


def check(directory, told):
    """Hold the log against what all children said, in the order in which they ran."""
    issued = [number for said in told for number in numbers(said, "I")]
    acked = [number for said in told for number in numbers(said, "A")]
    recovered = commits_in(directory)
    assert verify(directory).kind in ("clean", "torn")
    assert set(acked) <= set(recovered) <= set(issued)
    assert recovered == [number for number in issued if number in set(recovered)]
    return recovered


def check_if_begun(directory, told):
    """Check a log that its first process may have been killed too early to make."""
    if directory.exists() and any(directory.glob("*.evl")):
        check(directory, told)
    else:
        assert not any(numbers(said, "A") for said in told)


@pytest.mark.parametrize("mode", ["append", "tasks"])
def test_every_acknowledged_commit_survives_kills_at_random_moments(tmp_path, mode):
    """One log, twelve lives, each killed -9 a random moment after a random number of acknowledgements."""
    told = []
    for life, rng in enumerate(map(Random, range(12))):
        child = Child(tmp_path / "log", mode, first=life * 1000)
        child.listen_until("A", times=rng.randrange(40))
        time.sleep(rng.random() * 0.005)  # not for order: only to hit another place in the writer's loop
        told.append(child.kill())
        check_if_begun(tmp_path / "log", told)
    assert sum(len(numbers(said, "A")) for said in told) > 50


def test_a_process_killed_while_it_opens_leaves_a_log_that_opens(tmp_path):
    """The kill falls into recovery itself, of a log whose last life ended unclean; nothing is lost."""
    told = []
    for life, rng in enumerate(map(Random, range(12))):
        child = Child(tmp_path / "log", first=life * 1000)
        if life % 4 == 0:
            child.listen_until("A", times=3)
        else:
            child.listen_until("S")
            time.sleep(rng.random() * 0.008)
        told.append(child.kill())
        check_if_begun(tmp_path / "log", told)


@pytest.mark.parametrize("sign", [1, -1], ids=["after", "before"])
def test_a_kill_at_each_change_of_the_disk_loses_nothing(tmp_path, sign):
    """The process dies at its first, second, third… change of the disk, on one log."""
    told = []
    for life, change in enumerate([*range(1, 15), 20, 30, 45]):
        child = Child(tmp_path / "log", first=life * 1000, die_at=sign * change)
        told.append(child.finish())
        assert child.process.returncode == -signal.SIGKILL
        check_if_begun(tmp_path / "log", told)
    assert commits_in(tmp_path / "log")


def test_a_log_goes_on_after_kills(tmp_path):
    """After the crashes a new writer appends, closes, and the log is clean and complete."""
    told = [Child(tmp_path / "log", first=0, die_at=40).finish()]
    told.append(Child(tmp_path / "log", first=1000, count=5).finish())
    assert told[-1][-1] == ["D"]
    assert check(tmp_path / "log", told)[-5:] == [1000, 1001, 1002, 1003, 1004]
    assert verify(tmp_path / "log").kind == "clean"


def test_two_processes_take_turns_and_neither_loses_a_commit(tmp_path):
    """Both open, append and close as fast as they can; one is killed in the middle and started again."""
    children = {0: Child(tmp_path / "log", "turns"), 1: Child(tmp_path / "log", "turns", first=100_000)}
    told = []
    for round_, rng in enumerate(map(Random, range(6)), start=2):
        victim = round_ % 2
        children[victim].listen_until("A", times=rng.randrange(1, 15))
        told.append(children[victim].kill())
        children[victim] = Child(tmp_path / "log", "turns", first=round_ * 100_000)
    told += [child.kill() for child in children.values()]
    recovered = commits_in(tmp_path / "log")
    assert len(recovered) == len(set(recovered))
    for said in told:
        mine = [number for number in recovered if number in set(numbers(said, "I"))]
        assert mine == sorted(mine)
        assert set(numbers(said, "A")) <= set(mine)
    assert {number for said in told for number in numbers(said, "I")} >= set(recovered)


def test_a_paused_holder_whose_lock_was_unlinked_is_fenced(tmp_path):
    """SIGSTOP, LOCK removed, another writer: waking, the old one gets an error; both keep what was acked."""
    log = tmp_path / "log"
    old = Child(log, first=0)
    old.listen_until("A", times=5)
    old.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, old.process.pid, os.WSTOPPED)
    (log / "LOCK").unlink()
    new = Child(log, first=100_000)
    new.listen_until("A", times=5)
    old.process.send_signal(signal.SIGCONT)
    said_by_old = old.finish()
    new.listen_until("A", times=5)  # it goes on
    told = [said_by_old, new.kill()]
    assert said_by_old[-1][0] == "E"
    assert said_by_old[-1][1] in ("OutcomeUnknown", "LogClosed")
    check(log, told)


def test_a_second_process_is_refused_while_the_first_lives(tmp_path):
    """At once, with the error that says so, and the holder notices nothing."""
    holder = Child(tmp_path / "log")
    holder.listen_until("A")
    assert Child(tmp_path / "log", first=100_000).finish() == [["S"], ["E", "LogLocked"]]
    holder.listen_until("A", times=3)
    told = [holder.kill()]
    assert len(numbers(told[0], "A")) >= 4
    check(tmp_path / "log", told)


def test_a_reader_in_another_process_shows_only_what_survives_a_kill(tmp_path):
    """What a reader saw while the writer lived is there after the writer was killed, byte for byte."""
    child = Child(tmp_path / "log", "tasks")
    child.listen_until("A")
    reader = LogReader.open(tmp_path / "log")
    seen = []
    for _ in range(20):
        child.listen_until("A", times=3)
        end = reader.refresh()
        seen += [record.payload for record in reader.read(len(seen) + 1, end.sequence)]
    child.kill()
    reader.close()
    after = LogReader.open(tmp_path / "log")
    assert [record.payload for record in after.read(1, len(seen))] == seen
    after.close()
    assert len(seen) > 20


def test_a_writer_opened_here_continues_what_a_killed_child_began(tmp_path):
    """Epochs count the lives, and sequences stay dense over them."""
    for life in range(3):
        child = Child(tmp_path / "log", first=life * 1000)
        child.listen_until("A", times=2)
        child.kill()
    before = sum(len(payloads(commit)) for commit in commits_in(tmp_path / "log"))
    writer = LogWriter.open(tmp_path / "log", clock_ns=time.time_ns, random_bytes=os.urandom)
    assert writer.epoch == 4
    assert writer.append([b"mine"]) == before + 1
    writer.close()
