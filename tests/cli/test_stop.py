"""`evrun stop`: the process that holds a run ends, and no other; real processes, a real endpoint."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from eventlog.storage import LogWriter, lock_holder
from tests.cli.shell import evrun
from tests.cli.story import NOON_NS
from tests.endpoint.client import running_endpoint
from tests.runs import evrun as evrun_ended
from tests.runs import finish, start, wait_until, write_prompts

SLOW = [{"match": {}, "then": {"latency_ms": 1000}}]
HANG = [{"match": {}, "then": {"fault": "hang"}}]


@contextmanager
def a_run(tmp_path, prompts, **options):
    """A run at work, as a process of its own, and its endpoint."""
    dataset = write_prompts(tmp_path / "d.jsonl", [f"question {n}" for n in range(prompts)])
    with running_endpoint(**options) as endpoint:
        where = ("--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--toolsets", "none")
        process = start("run", dataset, *where, "--concurrency", "2", cwd=tmp_path)
        with process:
            try:
                yield process, endpoint
            finally:
                process.kill()


def test_a_run_is_stopped_in_order_and_goes_on_later(tmp_path):
    """Calls in flight finish, nothing is in doubt, the views are whole, and the resume does the rest."""
    with a_run(tmp_path, 40, rules=SLOW) as (process, endpoint):
        wait_until(lambda: endpoint.totals()["answered"] >= 3, "answers")
        said = evrun("stop", "r", "--json", cwd=tmp_path)
        assert said.code == 0, said
        told = said.json
        assert (told["was_running"], told["ended"], told["pid"]) == (True, True, process.pid)
        assert (told["signals"], told["state"]) == (["SIGTERM"], "interrupted")
        ended = finish(process)
        assert ended.code == 143, ended
        totals = endpoint.totals()
        assert told["counts"]["kept"] == totals["answered"] == totals["requests"] < 40
        endpoint.set_rules([])
        assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
        assert evrun_ended("run", "--run-name", "r", "--resume", cwd=tmp_path).code == 0
        assert endpoint.totals()["requests"] == 40


def test_now_does_not_wait_for_an_answer_that_never_comes(tmp_path, monkeypatch):
    """The process leaves at once; its calls are in doubt; the log is whole."""
    monkeypatch.setattr(
        "evrun.effects.processes_stop.KILL_AFTER_S", 60
    )  # a busy machine may be slow to leave
    with a_run(tmp_path, 3, rules=HANG) as (process, endpoint):
        wait_until(lambda: endpoint.totals()["faults"] == 2, "calls in flight")
        said = evrun("stop", "r", "--now", cwd=tmp_path)
        assert said.code == 0, said
        assert f"process {process.pid} has ended: interrupted, 3 left" in said.out
        assert "go on with: evrun run --run-name r --resume" in said.out
        assert finish(process).code == 143
    assert evrun("audit", "r", "--json", cwd=tmp_path).json["calls"]["in_doubt"] == 2
    assert evrun("verify", "r", cwd=tmp_path).code == 0


def test_a_process_that_does_not_leave_is_killed(tmp_path, monkeypatch):
    """One that is stopped hears no SIGTERM; `--now` ends it all the same."""
    monkeypatch.setattr("evrun.effects.processes_stop.KILL_AFTER_S", 0.5)
    with a_run(tmp_path, 3, rules=HANG) as (process, endpoint):
        wait_until(lambda: endpoint.totals()["faults"] == 2, "calls in flight")
        process.send_signal(signal.SIGSTOP)
        said = evrun("stop", "r", "--now", "--json", cwd=tmp_path)
        assert said.code == 0, said
        assert said.json["signals"][-1] == "SIGKILL"
        assert process.wait(30) == -signal.SIGKILL
    assert evrun("verify", "r", cwd=tmp_path).code == 0


def test_who_waits_in_vain_is_told_so_with_exit_1(tmp_path):
    """The run was asked to end and works on: its call is not answered."""
    with a_run(tmp_path, 3, rules=HANG) as (process, endpoint):
        wait_until(lambda: endpoint.totals()["faults"] == 2, "calls in flight")
        said = evrun("stop", "r", "--timeout", "0.2", cwd=tmp_path)
        assert said.code == 1, said
        assert "works on after 0.2 s: running" in said.out
        assert process.poll() is None


def test_without_waiting_the_run_is_asked_and_no_more(tmp_path):
    """Exit 0 at once; the run ends in its own time."""
    with a_run(tmp_path, 40, rules=SLOW) as (process, endpoint):
        wait_until(lambda: endpoint.totals()["answered"] >= 2, "answers")
        said = evrun("stop", "r", "--no-wait", "--json", cwd=tmp_path)
        assert (said.code, said.json["ended"], said.json["pid"]) == (0, None, process.pid)
        assert finish(process).code == 143


def test_a_run_that_nobody_works_on_is_exit_0(crash, done, tmp_path):
    """A line that says how it stands."""
    said = evrun("stop", "done", cwd=tmp_path)
    assert (said.code, said.out) == (0, "done is not running: done, 1 kept, 1 discarded, 1 failed, 0 left\n")
    told = evrun("stop", "crash", "--json", cwd=tmp_path).json
    assert (told["was_running"], told["pid"], told["state"]) == (False, None, "interrupted")


@contextmanager
def held(run, **holder):
    """The lock of a run, held by this process, with what LOCK says of it changed."""
    with LogWriter.open(run / "log", clock_ns=lambda: NOON_NS, random_bytes=bytes):
        assert lock_holder(run / "log")["pid"] == str(os.getpid())
        said = {"host": socket.gethostname(), "pid": str(os.getpid()), **holder}
        text = "{" + ", ".join(f'"{name}": "{value}"' for name, value in said.items()) + "}"
        (run / "log/LOCK").write_text(text)
        yield


def test_a_run_that_is_held_on_another_host_is_exit_6(done, tmp_path):
    """Its process is named, and no process of this host is touched."""
    with held(done, host="elsewhere"):
        said = evrun("stop", "done", cwd=tmp_path)
    assert (said.code, said.out) == (6, "")
    assert f"process {os.getpid()} on elsewhere" in said.err


@pytest.mark.parametrize("pid", ["a stranger", "nobody", "nonsense"])
def test_a_process_that_does_not_hold_the_lock_is_not_touched(done, tmp_path, pid):
    """A number that LOCK names may be another process by now: whoever has not LOCK open gets no signal."""
    (tmp_path / "other").write_text("")
    reads = "import sys; file = open('other'); sys.stdin.read()"
    stranger = subprocess.Popen([sys.executable, "-c", reads], stdin=subprocess.PIPE, cwd=tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    number = {"a stranger": stranger.pid, "nobody": gone.pid, "nonsense": "x"}[pid]
    try:
        with held(done, pid=str(number)):
            said = evrun("stop", "done", "--now", cwd=tmp_path)
        assert (said.code, said.out) == (6, "")
        assert f"process {number}" in said.err
        assert stranger.poll() is None
    finally:
        stranger.stdin.close()
        assert stranger.wait(30) == 0  # it read to the end: no signal came


def test_contradictions_and_strangers_are_exit_2(done, tmp_path):
    """`--now` has to look whether the process has left; a run that is not there cannot be stopped."""
    assert evrun("stop", "done", "--now", "--no-wait", cwd=tmp_path).code == 2
    assert evrun("stop", "gone", cwd=tmp_path).code == 2
    assert evrun("stop", "done", "--timeout", "nan", cwd=tmp_path).code == 2
