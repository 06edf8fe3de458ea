"""A learner's class in a process of its own: what comes back, and what ends it."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest

from eventlog.events import LearnerUsage
from evrun.batch.control import Ending
from evrun.errors import UsageFault
from evrun.training import learner_watch
from tests.runs import ROOT, environment
from tests.training import learners
from tests.training.learners import SECRET, bench, python


def run(main, *arguments, **named):
    """Run an async function to its end."""
    return anyio.run(partial(main, *arguments, **named))


async def once(directory, body, method="step", **options):
    """One call of a learner with this body; what came back, and the bench."""
    async with python(directory, body) as made:
        return await made.call(method, **options), made


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
    """20 s asleep with 1.2 s allowed: stopped, failed, its spending counted, its programs dead; then anew."""
    body = """
made = 0
def step(self, ctx):
    self.made += 1
    if "sleep" in ctx.params:
        ctx.report_usage(Usage("m", cost_usd=0.05))
        group = subprocess.Popen(["sleep", "60"])
        alone = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print(group.pid, alone.pid, flush=True)
        time.sleep(20)
        (ctx.workspace.output / "late").touch()
    return StepResult("done", str(self.made))
"""

    async def main():
        async with python(tmp_path, body) as made:
            assert (await made.call()).summary == "1"
            stopped = await made.call(sleep=True, timeout_s=1.2)
            assert (stopped.status, stopped.in_order, stopped.paused) == ("failed", False, False)
            assert (
                stopped.error
                == "the learner's step was stopped: not done within 1.2 s (trainer.call_timeout_min)"
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


SAYS = """
def step(self, ctx):
    (ctx.workspace.scratch / "ADAPTER.md").write_text("from scratch")
    return eval(ctx.params["given"])
finalize = step
"""


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


REFUSED = {
    "StepResult('finished')": "status is 'finished'; there is done, failed, out_of_budget, stop",
    "None": "step gave None; expected a StepResult",
    "'done'": "step gave 'done'; expected a StepResult",
    "{'status': 'done', 'sumary': ''}": "it gave sumary; a result has status, summary",
    "StepResult('done', 3)": "summary is 3; expected a text",
    "StepResult('done', session=3)": "session is 3; expected a text",
    "StepResult('done', extra={'a': float('nan')})": "cannot be written as JSON",
    "StepResult('done', usage=[Usage(cost_usd=-1.0)])": "usage[0].cost_usd is -1.0; expected an amount",
    "StepResult('done', usage=[Usage(calls=1.5)])": "usage[0].calls is 1.5; expected a whole number",
    "StepResult('done', usage='much')": "usage[0] is 'much'; expected a Usage",
}


def test_a_result_that_is_none_is_refused_by_name(tmp_path):
    """An unknown status above all: it is not taken for `done`, nor anything else that makes no sense."""

    async def main():
        async with python(tmp_path, SAYS) as made:
            for given, said in REFUSED.items():
                refused = await made.call(given=given)
                assert (refused.status, refused.in_order) == ("failed", False), given
                assert said in refused.error

    run(main)


def test_each_status_that_there_is_goes_through(tmp_path):
    """With all fields of a result, money as a decimal number, rounded up, and unknown counts null."""
    fields = "'s', 'r', 'h', Usage('m', 1, 2, 3, None, 0.1 + 0.2), extra={'a': [1, None, 'b']}"
    usage = [LearnerUsage("m", 1, 2, 3, None, 300_000_001)]

    async def main():
        async with python(tmp_path, SAYS) as made:
            for status in ("done", "failed", "out_of_budget", "stop"):
                done = await made.call(given=f"StepResult('{status}', {fields})")
                assert done[:8] == (status, "s", "r", "h", usage, {"a": [1, None, "b"]}, None, True)
                assert not done.paused
                assert not done.diverged

    run(main)


def test_async_methods_and_results_of_other_kinds_are_fine(tmp_path):
    """A coroutine is awaited; a mapping or any object with the fields will do."""
    body = """
async def step(self, ctx):
    from dataclasses import make_dataclass
    if "mapping" in ctx.params:
        return {"status": "out_of_budget", "summary": "mapping"}
    return make_dataclass("Result", ["status", "summary"])("stop", "object")
"""

    async def main():
        async with python(tmp_path, body) as made:
            mapping, thing = await made.call(mapping=1), await made.call()
            assert (mapping.status, mapping.summary, mapping.in_order) == ("out_of_budget", "mapping", True)
            assert (thing.status, thing.summary, thing.in_order) == ("stop", "object", True)

    run(main)


FINAL = {
    "'learned'": ("learned", None, "be brief\n"),
    "None": ("", None, "be brief\n"),
    "{'text': 'learned', 'step': 2}": ("learned", {"step": 2}, "be brief\n"),
    "FinalResult(ctx.workspace.adapter, 'current')": ("current", None, "be brief\n"),
    "FinalResult(ctx.workspace.scratch, 'chosen')": ("chosen", None, "from scratch"),
}


def test_finalize_may_give_a_text_a_step_or_an_adapter(tmp_path):
    """As in Hermit an adapter's directory may be chosen: its files become those of the working copy."""

    async def main():
        async with python(tmp_path, SAYS) as made:
            for given, (summary, extra, text) in FINAL.items():
                done = await made.call("finalize", given=given)
                assert done[:2] == ("done", summary)
                assert (done.extra, done.in_order) == (extra, True)
                assert (made.workspace.adapter / "ADAPTER.md").read_text() == text

    run(main)


def test_a_finalize_that_chooses_nothing_is_refused(tmp_path):
    """A step that is no number, a directory that is not there."""

    async def main():
        async with python(tmp_path, SAYS) as made:
            for given in ("{'step': 'two'}", "{'adapter': 1}", "FinalResult(ctx.workspace.root / 'x', '')"):
                refused = await made.call("finalize", given=given)
                assert (refused.status, refused.in_order) == ("failed", False), given

    run(main)


def test_setup_and_bootstrap_may_give_nothing(tmp_path):
    """Methods that the class has of its own are known; what `Evolver` only describes is not among them."""

    async def main():
        async with python(
            tmp_path, "def setup(self, ctx): ...\ndef bootstrap(self, ctx): ...\n" + COUNTING
        ) as made:
            assert made.learner.methods == {"setup", "bootstrap", "step"}
            assert (await made.call("setup")).status == "done"
            assert (await made.call("bootstrap")).status == "done"

    run(main)


def test_a_learner_sees_all_that_its_context_promises(tmp_path):
    """Every field of the context, as Hermit's learners use them; what it does not have is refused by name."""
    body = """
def step(self, ctx):
    w, p = ctx.workspace, ctx.progress
    assert w.adapter.is_dir() and w.state.is_dir() and w.scratch.is_dir() and w.history.is_dir()
    assert w.learning_material.name == "material" and w.task_info is None
    assert ctx.access.validation is None and ctx.access.environment == ()
    assert (p.step, p.epoch, p.is_epoch_end) == (3, 2, True)
    assert ctx.params == {"a": [1]} and ctx.message == "do better" and ctx.session == "h"
    assert ctx.sandbox is None and ctx.base.is_dir() and not ctx.cancel.is_set()
    assert ctx.tools["count"](by=2) == {"count": 2} and ctx.tools["count"].name == "count"
    assert self.directory.is_dir() and ctx.tool_url.startswith("http://127.0.0.1:")
    try:
        ctx.tools["fail"](x=1)
    except ToolError as error:
        assert str(error) == "no: {'x': 1}"
    ctx.recorder
"""
    failed, _ = run(once, tmp_path, body, session="h", a=[1])
    assert "AttributeError: evrun gives a learner no ctx.recorder; there is workspace, access" in failed.error


def test_secrets_in_what_a_learner_says_are_replaced(tmp_path):
    """In its log, its words, its extra, and its errors."""
    body = f"""
def step(self, ctx):
    print("{SECRET}")
    if "fail" in ctx.params:
        raise ValueError("{SECRET}")
    return StepResult("done", "{SECRET}", "{SECRET}", "{SECRET}", extra={{"a": "{SECRET}"}})
"""

    async def main():
        async with python(tmp_path, body) as made:
            done, log = await made.call(), made.log
            failed = await made.call(fail=1)
            assert SECRET not in f"{done}{failed}{log}{made.log}"
            assert done.extra == {"a": "[redacted:KEY]"}

    run(main)


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
    stopped, made = run(once, tmp_path, body, timeout_s=1.0)
    assert not stopped.in_order
    assert made.tools.ended == ["hang"]


UNUSABLE = {
    "x = 1 +": "line 1: SyntaxError",
    "import json\n\nraise KeyError('k')": "line 3: KeyError: 'k'",
    "import no_such_module_here": "ModuleNotFoundError: No module named 'no_such_module_here'",
    "class Other:\n    def step(self, ctx): ...": "there is no class Mine; there is Other",
    "def Mine(ctx): ...": "Mine is no class",
    "class Mine:\n    def setup(self, ctx): ...": "the class Mine has no method step(self, ctx)",
    "from evrun import Evolver\nclass Mine(Evolver): ...": "the class Mine has no method step",
    "class Mine:\n    def __init__(self):\n        1 / 0\n    step = print": "line 3: ZeroDivisionError",
    "import os\nos._exit(4)": "while it was loaded, its process ended with exit code 4",
}


@pytest.mark.parametrize("text", UNUSABLE)
def test_a_learner_that_cannot_be_used_is_refused_at_the_start(tmp_path, text):
    """With the place and what is wrong; nothing was called."""
    (tmp_path / "mine.py").write_text(text)
    assert UNUSABLE[text] in refusal(tmp_path, f"{tmp_path}/mine.py:Mine")


def test_a_learner_s_file_that_is_not_there_is_refused(tmp_path):
    """As a module is that cannot be imported."""
    assert "there is no file" in refusal(tmp_path, f"{tmp_path}/mine.py:Mine")
    assert "No module named 'no_such_module_here'" in refusal(tmp_path, "no_such_module_here:Mine")


def refusal(directory, name):
    """What is said of a learner at the start."""

    async def main():
        async with bench(directory, name):
            pass

    with pytest.raises(UsageFault) as refused:
        run(main)
    assert str(refused.value).startswith(f"evolver.name {name}: ")
    return str(refused.value)


def test_a_name_of_no_form_is_refused(tmp_path):
    """With the forms that there are."""
    with pytest.raises(UsageFault) as refused:
        learners.Bench(tmp_path, "skillopt", {})
    assert refused.value.hint == "gepa, reflect, FILE.py:CLASS, MODULE:CLASS or command:CMD"


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
