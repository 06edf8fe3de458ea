"""A learner's class in a process of its own: what comes back, and what ends it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import psutil

from eventlog.events import LearnerUsage
from evrun.batch.control import Ending
from evrun.training import learner_watch
from tests.runs import ROOT, environment
from tests.training.learners import once, python, run


def gone(pid):
    """Whether a process is gone, or is within seconds."""
    for _ in range(400):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_learner_is_one_object_from_call_to_call(tmp_path):
    """Attributes last while its process does, and so does that; each call has a workspace of its own."""

    async def main():
        async with python(tmp_path, COUNTING) as made:
            first, second = await made.call(), await made.call()
            assert (first.summary, second.summary) == (f"1 {os.getpid()}", f"2 {os.getpid()}")
            assert (made.workspace.adapter / "ADAPTER.md").read_text() == "changed 2"
            assert made.learner.methods == {"step"}
            assert second.in_order
            assert second.status == "done"

    run(main)


COUNTING = """
made = 0
def step(self, ctx):
    self.made += 1
    (ctx.workspace.adapter / "ADAPTER.md").write_text(f"changed {self.made}")
    return StepResult("done", f"{self.made} {os.getppid()}")
"""


def test_what_a_learner_prints_is_in_its_log_and_not_in_ours(tmp_path, capfd):
    """Its prints, its programs' prints, what it printed while it was loaded; an empty log does not stay."""
    body = """
print("loaded")
def step(self, ctx):
    if ctx.params.get("quiet"):
        return StepResult()
    print("printed")
    subprocess.run(["echo", "by a program"])
    os.write(2, b"raw")
    return StepResult()
"""

    async def main():
        async with python(tmp_path, body) as made:
            await made.call()
            assert made.log == "loaded\nprinted\nby a program\nraw"
            await made.call(quiet=True)
            assert made.log is None

    run(main)
    assert capfd.readouterr() == ("", "")


def test_a_learner_that_sleeps_past_its_deadline_is_stopped(tmp_path):
    """Asleep for longer than it may: stopped, failed, its spending counted, its programs dead; then anew."""
    body = """
made = 0
def step(self, ctx):
    self.made += 1
    if "sleep" in ctx.params:
        ctx.report_usage(Usage("m", cost_usd=0.05))
        group = subprocess.Popen(["sleep", "60"])
        alone = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print(group.pid, alone.pid, flush=True)
        time.sleep(60)
        (ctx.workspace.output / "late").touch()
    return StepResult("done", str(self.made))
"""

    async def main():
        async with python(tmp_path, body) as made:
            assert (await made.call()).summary == "1"
            stopped = await made.call(sleep=True, timeout_s=4.0)
            assert (stopped.status, stopped.in_order, stopped.paused) == ("failed", False, False)
            assert (
                stopped.error
                == "the learner's step was stopped: not done within 4 s (trainer.call_timeout_min)"
            )
            assert stopped.usage == [LearnerUsage("m", None, None, None, None, 50_000_000)]
            assert not (made.workspace.output / "late").exists()
            assert all(gone(int(pid)) for pid in made.log.split())
            assert (await made.call()).summary == "1", "a new process has a new object"

    run(main)


def test_an_exception_is_told_with_its_place_and_the_process_lives_on(tmp_path):
    """File and line of the learner's code; the traceback is in its log; the next call finds all as it was."""
    body = """
made = 0
def step(self, ctx):
    self.made += 1
    return StepResult("done", str(10 // ctx.params["by"] + self.made))
"""

    async def main():
        async with python(tmp_path, body) as made:
            failed = await made.call(by=0)
            assert (failed.status, failed.in_order) == ("failed", False)
            assert failed.error.startswith(f"{tmp_path}/mine.py, line 8: ZeroDivisionError")
            assert "Traceback" in made.log
            assert (await made.call(by=1)).summary == "12"

    run(main)


def test_a_learner_that_ends_its_process_fails_its_call(tmp_path):
    """However it ends, the call is over at once, and what it noted of its spending counts."""
    body = """
def step(self, ctx):
    ctx.report_usage(Usage("m", calls=2))
    exec(ctx.params["line"])
"""
    ways = {
        "os._exit(3)": "exit code 3",
        "os.kill(os.getpid(), 9)": "died of signal 9",
        "sys.exit('enough')": "SystemExit: enough",
    }

    async def main():
        async with python(tmp_path, body) as made:
            for line, how in ways.items():
                ended = await made.call(line=line)
                assert (ended.status, ended.in_order) == ("failed", False)
                assert how in ended.error
                assert ended.usage == [LearnerUsage("m", None, None, None, 2, None)]

    run(main)


def test_a_process_that_died_between_calls_is_another_one_in_the_next(tmp_path):
    """Nothing is lost but attributes; a file that cannot be loaded now fails the call, and not the run."""

    async def main():
        async with python(tmp_path, COUNTING) as made:
            assert (await made.call()).summary.startswith("1 ")
            await _killed(made)
            assert (await made.call()).summary.startswith("1 ")
            (tmp_path / "mine.py").write_text("x = 1 +")
            await _killed(made)
            broken = await made.call()
            assert (broken.status, broken.in_order) == ("failed", False)
            assert "line 1: SyntaxError" in broken.error

    run(main)


async def _killed(made):
    made.learner.kill()
    while not made.learner._child.has_ended:  # noqa: ASYNC110
        await anyio.sleep(0.01)


def test_a_log_without_end_is_kept_at_both_ends(tmp_path):
    """What lies between is counted."""
    body = "def step(self, ctx):\n    print('begin' + 'x' * 3_000_000 + 'end')\n    return StepResult()"
    _, made = run(once, tmp_path, body)
    assert made.log.startswith("begin")
    assert made.log.endswith("end\n")
    assert len(made.log) < 1_100_000
    assert "bytes are left out here" in made.log


def test_cancel_is_set_before_the_deadline(tmp_path, monkeypatch):
    """A learner that looks at it can end in order (here: it is told long before, so that it has the time)."""
    monkeypatch.setattr(learner_watch, "WARNED_AT", 0.01)
    monkeypatch.setattr(learner_watch, "WARNED_S", 50.0)
    body = "def step(self, ctx):\n    told = ctx.cancel.wait(45)\n    return StepResult('failed', str(told))"
    done, _ = run(once, tmp_path, body, timeout_s=50.0)
    assert (done.summary, done.in_order) == ("True", True)


def test_cancel_is_set_when_the_run_is_ending_and_a_failure_then_is_no_end(tmp_path):
    """An answer in order counts; one that failed because of it leaves the call open for the next session."""
    body = """
def step(self, ctx):
    (ctx.workspace.output / "there").touch()
    ctx.cancel.wait(50)
    if "fail" in ctx.params:
        raise ValueError
    return StepResult("done", "in order")
"""

    async def stopped(made, **params):
        async with anyio.create_task_group() as group:
            group.start_soon(_stop_when_there, made)
            return await made.call(**params)

    async def main():
        async with python(tmp_path / "a", body) as made:
            done = await stopped(made)
            assert (done.summary, done.paused) == ("in order", False)
        async with python(tmp_path / "b", body) as made:
            assert (await stopped(made, fail=1)).paused

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    run(main)


async def _stop_when_there(made):
    while made.workspace is None or not (made.workspace.output / "there").exists():  # noqa: ASYNC110
        await anyio.sleep(0.01)
    made.control.stop(Ending("interrupted", 130, "ended by SIGINT"))


def test_a_tool_that_is_at_work_ends_with_the_call(tmp_path):
    """Stopped at the deadline: what it asked for is cancelled, and waited for."""
    body = "def step(self, ctx):\n    ctx.tools['hang']()"
    stopped, made = run(once, tmp_path, body, timeout_s=3.0)
    assert not stopped.in_order
    assert made.tools.ended == ["hang"]


def test_when_evrun_is_killed_its_learner_ends_by_itself(tmp_path):
    """Of kill -9: the learner, asleep in a call, and a program that it started, are gone with it."""
    (tmp_path / "asleep.py").write_text(ASLEEP)
    ours = subprocess.Popen(
        [sys.executable, "asleep.py"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
    )
    pids = _pids(tmp_path / "pids")
    ours.kill()
    ours.wait()
    assert all(gone(pid) for pid in pids)


def _pids(file: Path):
    for _ in range(1000):
        if file.exists() and len(file.read_text().split()) == 2:
            return [int(pid) for pid in file.read_text().split()]
        time.sleep(0.02)
    raise AssertionError("the learner was never called")


ASLEEP = '''
import anyio
from pathlib import Path
from tests.training.learners import python

BODY = """
def step(self, ctx):
    program = subprocess.Popen(["sleep", "100"])
    (self.directory / "pids").write_text(f"{os.getpid()} {program.pid}")
    time.sleep(100)
"""

async def main():
    async with python(Path.cwd(), BODY) as made:
        await made.call()

anyio.run(main)
'''


def test_the_names_that_users_import_load_nothing_heavy():
    """A learner's process starts quickly: neither the trainer nor the log nor a client of HTTP is loaded."""
    code = (
        "import sys\nfrom evrun import Evolver, StepContext, StepResult, Usage, RunOutput, JudgeResult\n"
        "import evrun.training.learner_child\n"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('anyio', 'httpx', 'aiohttp', 'asyncio', 'eventlog', 'projections')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "[]"
