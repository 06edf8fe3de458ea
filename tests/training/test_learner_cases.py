"""Learners that misbehave, in whole runs: each costs a step, what it spent is booked, and the run goes on."""

import json
import signal
import sys
import time

from tests.cli.shell import evrun, start
from tests.training.learners import HEAD, SECRET
from tests.training.test_learner_process import gone
from tests.training.toys import Toy

SPENT_USD = 0.05


def toy(directory, body, **changes):
    """The toy run with a learner whose class `Mine` has this body."""
    made = Toy(directory, **{"evolver__name": "mine.py:Mine", "trainer__epochs": 1, **changes})
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    (directory / "mine.py").write_text(f"{HEAD}\n\nclass Mine(Evolver):\n{lines}\n")
    return made


def trained(made):
    """Train to the end; the steps' lines, and what the run has settled in all."""
    done = evrun("train", "--config", made.config, cwd=made.directory)
    assert done.code == 0, done
    spending = json.loads((made.run / "summary.json").read_text())["spending"]
    return made.steps(), float(spending["settled_usd"])


def test_a_learner_that_sleeps_is_stopped_and_the_run_goes_on(tmp_path):
    """20 s asleep with 1.2 s allowed: the step is failed, its rollouts and the learner's cost are booked."""
    body = """
def step(self, ctx):
    ctx.report_usage(Usage("m", cost_usd=0.05))
    if ctx.progress.step == 1:
        (ctx.workspace.adapter / "ADAPTER.md").write_text("half")
        time.sleep(20)
    return StepResult("done", "in time")
"""
    steps, settled = trained(toy(tmp_path, body, trainer__call_timeout_min=0.02))
    assert [step["status"] for step in steps] == ["failed", "done"]
    assert [step["changed"] for step in steps] == [False, False]
    assert settled == 4 * 0.10 + 2 * SPENT_USD


def test_an_unknown_status_fails_the_step(tmp_path):
    """It is not taken for `done`: what it changed is not committed, what it spent is booked."""
    body = """
def step(self, ctx):
    (ctx.workspace.adapter / "ADAPTER.md").write_text("changed")
    return StepResult("finished", "s", usage=Usage("m", cost_usd=0.05))
"""
    steps, settled = trained(toy(tmp_path, body))
    assert [(step["status"], step["changed"]) for step in steps] == [("failed", False)] * 2
    assert settled == 4 * 0.10 + 2 * SPENT_USD


def test_a_program_that_fails_after_spending_is_booked(tmp_path):
    """Exit code 1, after it wrote what it used: the steps are failed, and the money is in the audit."""
    made = toy(tmp_path, "", evolver__name=f"command:{sys.executable} {tmp_path}/fails.py")
    result = '{"status": "done", "usage": [{"model": "m", "cost_usd": 0.05}]}'
    (tmp_path / "fails.py").write_text(
        f"open('output/step_result.json', 'w').write('{result}')\nexit('no luck')"
    )
    steps, settled = trained(made)
    assert [step["status"] for step in steps] == ["failed", "failed"]
    assert settled == 4 * 0.10 + 2 * SPENT_USD
    audit = evrun("audit", made.run, "--json", cwd=tmp_path).json
    assert float(audit["settled_usd"]) == settled


def test_what_a_killed_trainer_s_learner_left_is_killed_and_writes_into_nothing(tmp_path):
    """Killed by -9 with a learner at work, whose program has left its group: it dies at the next start."""
    body = """
def step(self, ctx):
    adapter = ctx.workspace.adapter / "ADAPTER.md"
    flag = self.directory / "pid"
    if not flag.exists():
        line = f"while :; do echo alien >> {adapter}; sleep 0.05; done"
        stray = subprocess.Popen(["sh", "-c", line], start_new_session=True)
        flag.write_text(str(stray.pid))
        time.sleep(60)
    adapter.write_text(adapter.read_text() + f"step {ctx.progress.step}\\n")
    return StepResult("done", "ours")
"""
    made = toy(tmp_path, body)
    first = start("train", "--config", made.config, cwd=tmp_path)
    for _ in range(3000):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    stray = int((tmp_path / "pid").read_text())
    steps, _ = trained(made)
    assert gone(stray)
    assert [step["status"] for step in steps] == ["done", "done"]
    text = (made.run / "checkout" / "ADAPTER.md").read_text()
    assert "alien" not in text
    assert text.endswith("step 1\nstep 2\n")
    assert made.paid() == {"rollout t1": 1, "rollout t2": 1, "rollout t3": 1, "rollout t4": 1}


def test_a_secret_in_a_learner_s_files_is_in_no_record(tmp_path, monkeypatch):
    """Neither in the adapter nor in what it leaves beside it: the log holds files as they are committed."""
    monkeypatch.setenv("TOY_API_KEY", SECRET)
    body = """
def step(self, ctx):
    work = ctx.workspace
    for place in (work.adapter / "ADAPTER.md", work.state / "s", work.output / "o"):
        place.write_text("key " + os.environ["TOY_API_KEY"])
    return StepResult("done", "written")
"""
    made = toy(tmp_path, body)
    trained(made)
    assert (made.run / "checkout" / "ADAPTER.md").read_text() == "key [redacted:TOY_API_KEY]"
    files = [file for place in ("log", "step_0001", "checkout") for file in (made.run / place).rglob("*")]
    found = [file for file in files if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert found == []
