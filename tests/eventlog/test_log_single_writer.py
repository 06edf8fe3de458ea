"""One writer a log: the lock, the fence, other processes, and forks."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eventlog.errors import LogClosed, LogLocked, OutcomeUnknown
from eventlog.storage import RealFileSystem, lock_holder, verify

from .logs import open_log, payloads_in, segments_of

ROOT = Path(__file__).parents[2]


def test_a_second_handle_is_refused_and_told_who_holds_the_log(tmp_path):
    """Also within one process; when the first is closed the lock is free."""
    with open_log(tmp_path, holder={"host": "here", "started_at": "today"}) as writer:
        writer.append([b"one"])
        with pytest.raises(LogLocked, match="host here") as caught:
            open_log(tmp_path)
        assert caught.value.holder["pid"] == str(os.getpid())
        assert lock_holder(tmp_path) == caught.value.holder
        assert caught.value.holder["started_at"] == "today"
    assert lock_holder(tmp_path) is None
    with open_log(tmp_path) as writer:
        assert writer.append([b"two"]) == 2


def test_lock_holder_of_no_log_is_none(tmp_path):
    """Where there is no LOCK nobody holds it."""
    assert lock_holder(tmp_path) is None


def test_a_broken_lock_text_harms_nobody(tmp_path):
    """What LOCK says is for people only."""
    with open_log(tmp_path) as writer:
        (tmp_path / "LOCK").write_bytes(b"\xff{")
        assert lock_holder(tmp_path) == {}
        with pytest.raises(LogLocked, match="does not say"):
            open_log(tmp_path)
        assert writer.append([b"one"]) == 1


@pytest.mark.parametrize("replace", [False, True])
def test_a_writer_whose_lock_was_unlinked_never_acknowledges_again(tmp_path, replace):
    """The second writer gets in; the first is fenced, its commit unknown; what was acknowledged is there."""
    old = open_log(tmp_path)
    old.append([b"old"])
    (tmp_path / "LOCK").unlink()
    new = open_log(tmp_path) if replace else None
    if new:
        assert new.append([b"new"]) == 2
    with pytest.raises(OutcomeUnknown, match="another writer"):
        old.append([b"fenced"])
    with pytest.raises(LogClosed):
        old.append([b"later"])
    old.close()
    if new:
        assert new.append([b"newer"]) == 3
        new.close()
        assert payloads_in(tmp_path) == [b"old", b"new", b"newer"]
    else:
        assert payloads_in(tmp_path) == [b"old", b"fenced"]
    assert verify(tmp_path).kind == "clean"


class PausedDisk(RealFileSystem):
    """A holder that stops at the n-th call of one kind, as SIGSTOP would stop it, until it is let go."""

    def __init__(self):
        self.armed = ""
        self.reached = threading.Event()
        self.go = threading.Event()

    def pause(self, call):
        """Stop here if this call is the armed one."""
        if call == self.armed:
            self.armed = ""
            self.reached.set()
            assert self.go.wait(60)

    def open(self, path, flags, mode=0o600):
        """See FileSystem."""
        if path.endswith(".new"):
            self.pause("open")
        return super().open(path, flags, mode)

    def fsync(self, fd):
        """See FileSystem."""
        self.pause("fsync")
        super().fsync(fd)

    def pwrite(self, fd, data, offset):
        """See FileSystem."""
        if bytes(data[:4]) == b"\xe5EVF":
            self.pause("pwrite")
        return super().pwrite(fd, data, offset)

    def fdatasync(self, fd):
        """See FileSystem."""
        self.pause("fdatasync")
        super().fdatasync(fd)

    def rename(self, source, target):
        """See FileSystem."""
        self.pause("rename")
        super().rename(source, target)

    def sync_directory(self, path):
        """See FileSystem."""
        self.pause("sync_directory")
        super().sync_directory(path)


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "open", "fsync", "rename", "sync_directory"])
def test_a_paused_holder_loses_nothing_of_the_one_that_came_after(tmp_path, call):
    """The old writer stops at any call of a roll or commit while LOCK is removed and a new writer works."""
    disk = PausedDisk()
    old = open_log(tmp_path, filesystem=disk)
    old.append([b"a" * 3000])
    disk.armed = call
    ticket = old.submit([b"b" * 3000])
    assert disk.reached.wait(60)
    (tmp_path / "LOCK").unlink()
    new = open_log(tmp_path)
    first = new.append([b"c" * 3000])
    disk.go.set()
    with pytest.raises(OutcomeUnknown):
        ticket.wait(60)
    assert new.append([b"d" * 3000]) == first + 1
    old.close()
    new.close()
    found = [payload[:1] for payload in payloads_in(tmp_path)]
    assert found in ([b"a", b"c", b"d"], [b"a", b"b", b"c", b"d"])
    assert found[first - 1 :] == [b"c", b"d"]
    assert verify(tmp_path).kind == "clean"


HOLDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.eventlog.logs import open_log
writer = open_log(Path(sys.argv[1]))
writer.append([b"from the child"])
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_holds_the_log_until_it_dies(tmp_path):
    """Refused while the other lives; free the moment it is killed; what it acknowledged is there."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), str(ROOT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(LogLocked) as caught:
            open_log(tmp_path)
        assert caught.value.holder["pid"] == str(child.pid)
        assert payloads_in(tmp_path) == [b"from the child"]
        child.send_signal(signal.SIGKILL)
        child.wait()
    with open_log(tmp_path) as writer:
        assert writer.append([b"after"]) == 2


FORKER = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from eventlog.errors import LogClosed
from tests.eventlog.logs import open_log
before = set(os.listdir("/proc/self/fd"))
writer = open_log(Path(sys.argv[1]))
writer.append([b"parent"])
ours = [fd for fd in os.listdir("/proc/self/fd") if "log" in os.path.realpath("/proc/self/fd/" + fd)]
assert len(ours) == 3, ours
pid = os.fork()
if pid == 0:
    left = [fd for fd in ours if os.path.exists("/proc/self/fd/" + fd)]
    try:
        writer.append([b"child"])
    except LogClosed as error:
        writer.close()
        os.write(1, b"child refused\\n" if "forked" in str(error) and not left else b"wrong\\n")
    sys.stdin.read()
    os._exit(0)
os.write(1, b"parent goes on %d\\n" % writer.append([b"parent again"]))
os._exit(0)
"""


def test_the_child_of_a_fork_has_a_dead_handle_and_holds_no_lock(tmp_path):
    """The parent dies, the child lives on: the log is free, and only the parent's events are in it."""
    directory = tmp_path / "log"
    command = [sys.executable, "-c", FORKER, str(directory), str(ROOT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        said = {child.stdout.readline(), child.stdout.readline()}
        assert said == {"child refused\n", "parent goes on 2\n"}
        child.wait()
        with open_log(directory) as writer:
            writer.append([b"next"])
        child.stdin.close()
    assert payloads_in(directory) == [b"parent", b"parent again", b"next"]


def test_a_failed_opening_gives_the_lock_back(tmp_path):
    """A refused log is not locked afterwards."""
    with open_log(tmp_path) as writer:
        writer.append([b"one"])
    path = segments_of(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):
        with pytest.raises(Exception, match="it was cut"):
            open_log(tmp_path)
    assert lock_holder(tmp_path) is None
