"""Start, stop, kill and hear the processes of `acting`, and hold what they said against their log."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from eventlog.storage import LogWriter, verify
from tests.eventlog.appending_child import payloads
from tests.eventlog.logs import commits_in

ROOT = Path(__file__).resolve().parents[2]
ACTING = Path(__file__).with_name("acting.py")
DEADLINE_S = 60


# By default processes are struck where they change the disk or look at the lock.
EVERYWHERE = os.environ.get("EVRUN_POINTS") == "all"
READS = ("pread", "size", "names", "close", "drop_cache", "lock_is_held")


def environment():
    """This environment, with the checkout to import from, and nothing that writes beside the sources."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


class Life:
    """One forked process of the server, and what it says."""

    def __init__(self, server, pid, said):
        self.server = server
        self.pid = pid
        self.path = said
        self.ended = False

    @property
    def said(self):
        """The lines said so far, each as a list of words."""
        return words_in(self.path)

    def wait(self):
        """Wait for the end; return the signal that ended it, or 0."""
        status = self.server.ask(wait=self.pid, or_stop=False)
        self.ended = True
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, (status, self.said)
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0

    def wait_until_stopped(self):
        """Wait until it has stopped; false when it has ended before."""
        status = self.server.ask(wait=self.pid, or_stop=True)
        self.ended = not os.WIFSTOPPED(status)
        return not self.ended

    def send(self, number):
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self):
        """Kill with -9 and wait; what it said until then."""
        self.send(signal.SIGKILL)
        self.wait()
        return self.said

    def wait_for(self, word, times=1):
        """Wait until it has said a word so often, or has ended; the latter shows in `said` alone."""
        deadline = time.monotonic() + DEADLINE_S
        while sum(words[0] == word for words in self.said) < times and not self.is_over():
            assert time.monotonic() < deadline, f"{word} not said {times} times: {self.said}"
            time.sleep(0.001)

    def is_over(self):
        """Whether it has ended or said that it ends."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        return state in "ZX"


class Server:
    """`acting.py serve`: forks processes that have imported all they need, so that one costs milliseconds."""

    def __init__(self, directory, prefix=()):
        self.directory = directory
        self.count = 0
        self.lives = []
        command = [*prefix, sys.executable, str(ACTING), "serve"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def ask(self, **order):
        """Send one line, read the number that comes back."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, act, log, **order):
        """Fork a process that obeys."""
        self.count += 1
        said = self.directory / f"said-{self.count}"
        said.touch(0o666)
        said.chmod(0o666)
        life = Life(self, self.ask(act=act, log=str(log), said=str(said), **order), said)
        self.lives.append(life)
        return life

    def run(self, act, log, **order):
        """Fork a process, wait for its end, return what it said."""
        life = self.start(act, log, **order)
        life.wait()
        return life.said

    def close(self):
        """End what is left, and the server."""
        for life in self.lives:
            if not life.ended and not life.is_over():
                life.send(signal.SIGKILL)
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()


def words_in(path):
    """Every whole line of a file of facts, as a list of words."""
    text = path.read_bytes().rpartition(b"\n")[0].decode()
    return [line.split() for line in text.splitlines()]


def points_in(said, step=1):
    """The calls that a process told of and that are to be struck: (number, name); of all, each `step`-th."""
    calls = list(enumerate((words[1] for words in said if words[0] == "K"), start=1))
    return calls if EVERYWHERE else [(nth, name) for nth, name in calls if name not in READS][::step]


def numbers(said, *letters):
    """The commits of which one of these letters was said."""
    return [int(words[1]) for words in said if words[0] in letters]


def missing_from(log, told):
    """The acknowledged commits that the log does not hold; all of them where there is no log."""
    acked = {number for said in told for number in numbers(said, "A")}
    recovered = commits_in(log) if has_segments(log) else []
    return sorted(acked - set(recovered))


def has_segments(log):
    """Whether the log was ever begun."""
    return log.is_dir() and any(path.suffix in (".evl", ".evz") for path in log.iterdir())


def judge(log, told, *, ordered=True):
    """Hold a log against what all its processes said, in the order in which they ran; its commits.

    acknowledged <= recovered <= issued, byte-identical, and (if they were issued one by one) in order; what
    was refused is absent.
    """
    recovered = []
    if has_segments(log):
        assert verify(log).kind in ("clean", "torn"), verify(log)
        recovered = commits_in(log)
    issued = [number for said in told for number in numbers(said, "I")]
    absent = {number for said in told for number in numbers(said, "N", "C")}
    acked = {number for said in told for number in numbers(said, "A")}
    assert acked <= set(recovered) <= set(issued), (sorted(acked - set(recovered)), recovered)
    assert not absent & set(recovered)
    assert len(recovered) == len(set(recovered))
    assert not ordered or sorted(recovered, key=issued.index) == recovered
    return recovered


def judge_and_go_on(log, told, commit, *, ordered=True):
    """Judge; then append one more commit and judge again. Returns what to tell the next judge."""
    before = judge(log, told, ordered=ordered)
    options = {"clock_ns": time.time_ns, "random_bytes": os.urandom, "first_segment_bytes": 32 << 10}
    with LogWriter.open(log, **options) as writer:
        assert writer.durable.sequence == sum(len(payloads(number)) for number in before)
        writer.append(payloads(commit))
    mine = [["I", str(commit)], ["A", str(commit)]]
    assert judge(log, [*told, mine], ordered=ordered) == [*before, commit]
    return mine
