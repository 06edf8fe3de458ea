"""A learner that asks for checks, rollouts and a model, killed in the middle of it: nothing is paid twice.

`EVRUN_TRAINING_KILLS=all` kills at every event of its call; CI takes two that tell most.
"""

import json
import os
import signal

import pytest

from tests import warm
from tests.endpoint.client import running_endpoint
from tests.runs import environment, evrun, finish, start, wait_until
from tests.training.learners import HEAD
from tests.training.toys import RULE, Toy

ALL = os.environ.get("EVRUN_TRAINING_KILLS") == "all"
BODY = f"""
class Mine(Evolver):
    def step(self, ctx):
        candidate = ctx.workspace.scratch / "candidate"
        shutil.copytree(ctx.workspace.adapter, candidate)
        said = ctx.tools["llm"](messages=[{{"role": "user", "content": "what now?"}}])["content"]
        (candidate / "ADAPTER.md").write_text({RULE!r} + "\\n" + said)
        assert ctx.tools["check_spec"](path=str(candidate))["passed"]
        found = ctx.tools["run_agent"](task_ids=["t1", "t3"], adapter=str(candidate))["results"]
        after = ctx.tools["llm"](messages=[{{"role": "user", "content": "and now?"}}])["content"]
        shutil.copy(candidate / "ADAPTER.md", ctx.workspace.adapter)
        return StepResult("done", f"{{said}}, {{[one['score'] for one in found]}}, {{after}}")
"""
SAID = "Answer to what now?, [1.0, 1.0], Answer to and now?"
PAID = {"rollout t1": 2, "rollout t2": 1, "rollout t3": 1}


def toy(directory, base_url, **changes):
    """One step of two tasks, whose learner asks for two more rollouts and two answers."""
    made = Toy(
        directory,
        evolver__name="mine.py:Mine",
        trainer__epochs=1,
        data__shuffle=False,
        model="mine/m",
        backends={"mine": {"base_url": base_url, "key_required": False}},
        prices=["m=100,200"],
        **changes,
    )
    (directory / "mine.py").write_text(f"import shutil\n{HEAD}\n{BODY}")
    (directory / "train.txt").write_text("t1\nt2\n")
    (directory / "val.txt").write_text("t3\n")
    config = json.loads(made.config.read_text())
    config["data"]["val"] = "val.txt"
    made.config.write_text(json.dumps(config))
    return made


def train(made):
    """Train to the end."""
    done = evrun("train", "--config", made.config, cwd=made.directory)
    assert done.code == 0, done


def kinds_of(made):
    """The types of the log's events."""
    events = evrun("events", made.run, "--json", cwd=made.directory).stdout.splitlines()
    return [json.loads(line)["type"] for line in events]


def chosen(kinds):
    """Where to die: at all events of its call; or after a rollout it asked for, and at its last answer."""
    places = range(kinds.index("EvolverStarted") + 1, kinds.index("EvolverReturned") + 1)
    if ALL:
        return list(places)
    newest = {kinds[place - 1]: place for place in places}
    return [newest[kind] for kind in ("RolloutFinished", "ModelAnswered")]


@pytest.mark.timeout(600)
def test_a_learner_killed_at_any_of_its_events_ends_as_if_it_had_not_been(tmp_path):
    """Recorded answers, checks and rollouts are given back; only what was in flight is asked for again."""
    with running_endpoint() as endpoint:
        whole = toy(tmp_path / "whole", endpoint.base_url)
        train(whole)
        kinds = kinds_of(whole)
        assert [step["evolver"]["summary"] for step in whole.steps()] == [SAID]
        assert whole.paid() == PAID
        for sequence in chosen(kinds):
            made = toy(tmp_path / str(sequence), endpoint.base_url)
            billed = endpoint.totals()["billed"]
            _die_at(made, sequence)
            train(made)
            assert [step["evolver"]["summary"] for step in made.steps()] == [SAID], sequence
            again = sum((made.paid() - whole.paid()).values())
            again += endpoint.totals()["billed"] - billed - 2
            assert again <= 2, (sequence, kinds[sequence - 1], made.paid())
            if kinds[sequence - 1] in {"ModelAnswered", "ToolFinished", "RolloutFinished"}:
                assert again <= 1, (sequence, kinds[sequence - 1], made.paid())
        _check_money(made)


def _die_at(made, sequence):
    process = warm.start(
        "tests.training.dying:main",
        [str(made.config), str(sequence)],
        cwd=made.directory,
        environment=environment(),
    )
    with process:
        process.communicate(60)
    assert process.returncode == -9, (sequence, process.returncode)


def _check_money(made):
    audit = evrun("audit", made.run, "--json", cwd=made.directory).json
    assert all(check["ok"] for check in audit["checks"]), audit["checks"]


def test_a_cap_that_is_met_in_the_middle_of_a_call_pauses_the_run(tmp_path):
    """Exit 4, the call still open; with a higher cap the learner goes on from the answer that is missing."""
    with running_endpoint() as endpoint:
        made = toy(
            tmp_path,
            endpoint.base_url,
            trainer__budget={"usd": 0.45},
            agent__bound={"usd": 0.1},
            agent__params__max_tokens=20,
            evolver__bound={"usd": 0},
            evolver__params__max_tokens=20,
        )
        paused = evrun("train", "--config", made.config, cwd=tmp_path)
        assert (paused.code, made.paid()) == (4, PAID)
        assert endpoint.totals()["billed"] == 1
        assert evrun("train", "--config", made.config, "trainer.budget.usd=3", cwd=tmp_path).code == 0
        assert (endpoint.totals()["billed"], made.paid()) == (2, PAID)
        assert [step["evolver"]["summary"] for step in made.steps()] == [SAID]


WAITS = """
class Mine(Evolver):
    def step(self, ctx):
        ctx.tools["check_spec"]()
        flag = self.directory / "at-work"
        if not flag.exists():
            flag.touch()
            ctx.cancel.wait(60)
            raise InterruptedError("told to end")
        return StepResult("done", "gone on")
"""


def test_an_interrupt_while_the_learner_is_at_work_leaves_its_call_open(tmp_path):
    """It hears of it by `ctx.cancel`; failing then is no failed step: the same call goes on later."""
    made = Toy(tmp_path, evolver__name="mine.py:Mine", trainer__epochs=1)
    (tmp_path / "mine.py").write_text(f"{HEAD}\n{WAITS}")
    first = start("train", "--config", made.config, cwd=tmp_path)
    wait_until((tmp_path / "at-work").exists, "the learner is at work")
    first.send_signal(signal.SIGINT)
    ended = finish(first)
    assert ended.code == 130, ended
    train(made)
    kinds = kinds_of(made)
    assert [(step["status"], step["evolver"]["summary"]) for step in made.steps()] == [
        ("done", "gone on")
    ] * 2
    assert kinds.count("EvolverStarted") == kinds.count("EvolverReturned") + 1, "carried once"
    assert kinds.count("ToolStarted") == 2, "its check was recorded before the interrupt"
