"""`evrun check`: every precondition by name, one task done as a probe, and nothing of the run touched."""

import json
import signal
import time

import pytest

from tests.cli.shell import evrun, start
from tests.training.configured import PLAIN, written

LEARNER = """\
from evrun import Evolver, StepResult


class Learner(Evolver):
    def step(self, ctx):
        return StepResult("done")
"""


SLEEPER = """\
import asyncio
from pathlib import Path


async def run(task, adapter):
    Path(__file__).with_name("asleep").touch()
    await asyncio.sleep(0.5)
    return "x"
"""


@pytest.fixture
def place(tmp_path):
    """A run that can begin."""
    (tmp_path / "learner.py").write_text(LEARNER)
    (tmp_path / "hermit_agent.py").write_text("from hermit.task import RunOutput\n")
    written(tmp_path)
    return tmp_path


def checked(place, *arguments):
    """What `evrun check` says: its exit code, and (state, item) -> detail and hint."""
    said = evrun("check", "--config", place / "run.yaml", *arguments, "--json", cwd=place)
    found = said.json
    assert found["exit_code"] == said.code
    items = {(one["state"], one["item"]): f"{one['detail']} [{one['hint']}]" for one in found["findings"]}
    return said.code, items, found["probe"]


def test_a_run_that_can_begin_is_seen_to_be_one(place):
    """Each part by its name, one task worked on and scored, and no file made."""
    before = sorted(path.name for path in place.iterdir() if path.name != "__pycache__")
    code, items, probe = checked(place)
    assert code == 0, items
    assert {item for _, item in items} >= {
        "configuration", "tasks", "task_info", "template", "start", "inputs", "agent", "judge", "budget",
        "directories", "learner", "run", "probe",
    }  # fmt: skip
    assert {state for state, _ in items} == {"ok"}
    assert probe == {"task": "t0", "score": 1.0, "cost_usd": "0.00", "ok": True}
    assert sorted(path.name for path in place.iterdir() if path.name != "__pycache__") == before


def test_it_is_told_in_lines_for_people(place):
    """`[ok]` and `[PROBLEM]`, what to do below, and an exit code of 2."""
    said = evrun("check", "--config", "run.yaml", "--no-probe", cwd=place)
    assert said.code == 0
    assert "[ok] tasks: 4: train 4, val 0, test 0\n" in said.out
    assert said.out.endswith("the run can begin\n")
    (place / "train.txt").write_text("t0\nt11\n")
    said = evrun("check", "--config", "run.yaml", cwd=place)
    assert said.code == 2
    assert "[PROBLEM] tasks: data.train " in said.out
    assert "\n    did you mean " in said.out
    assert said.out.endswith("problems: 1\n")
    assert "probe" not in said.out


MISSING = (
    {
        "task_info=.": ("task_info", "no README.md"),
        "start_from=first/final": ("start", "start_from"),
        "agent=agent.py:nothing": ("agent", "nothing"),
        "judge=nowhere.py": ("judge", "nowhere.py"),
        "trainer.budget.usd=1": ("budget", "agent.bound.usd"),
        "trainer.output_dir=run.yaml/x": ("directories", "no directory that can be written"),
        "evolver=learner.py:Nobody": ("learner", "Nobody"),
    },
    {
        "data.tasks=nowhere.jsonl": ("tasks", "No such file"),
        "template=unknown": ("template", "prompt-only@1.0"),
        "agent=chat": ("model of the agent", "chat needs a model"),
    },
    {"agent=hermit_agent.py:run": ("agent", "from evrun import")},
    {"trainer.epochs=none": ("configuration", "trainer.epochs")},
)


@pytest.mark.parametrize("missing", MISSING, ids=("parts", "files", "imports", "values"))
def test_what_is_missing_is_a_problem_by_its_name(place, missing):
    """Everything that `evrun train` would refuse, all at once, and what to do; then nothing is probed."""
    code, items, probe = checked(place, *missing)
    assert (code, probe) == (2, None)
    for item, said in missing.values():
        assert said in items["problem", item]
    problems = {item for state, item in items if state == "problem"}
    assert problems - {"inputs"} == {item for item, _ in missing.values()}


def test_a_cap_that_ends_the_run_early_is_a_warning(place):
    """How many steps it pays for is said before anything is spent."""
    bounds = ("data.step_size=2", "agent.bound.usd=0.1", "evolver.bound.usd=0.05", "--no-probe")
    code, items, _ = checked(place, *bounds, "trainer.budget.usd=0.33")
    assert code == 0
    assert "pays for 1 of 2 steps" in items["warning", "steps"]
    _, items, _ = checked(place, *bounds, "trainer.budget.usd=0.5")
    assert "pays for 2 of 2 steps" in items["ok", "steps"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("agent.py", "def run(task, adapter):\n    raise KeyError('colour')\n", "KeyError"),
        ("judge.py", "def score(task, output):\n    return 'good'\n", "the judge"),
    ],
)
def test_a_probe_that_fails_is_a_problem(place, file, text, said):
    """An agent that raises, a judge that gives no number: seen on one task, before a run is begun."""
    (place / file).write_text(text)
    code, items, probe = checked(place)
    assert code == 2
    assert said in items["problem", "probe"]
    assert probe["ok"] is False
    assert not (place / "runs").exists()


def test_a_finished_run_and_a_changed_one_are_told(place):
    """What the run's name stands for: finished is refused; a change that shapes the run is named."""
    done = evrun("train", "--config", "run.yaml", "--quiet", "--json", cwd=place)
    assert done.code == 0, done.err
    code, items, _ = checked(place, "--no-probe")
    assert code == 2
    assert "finished" in items["problem", "run"]
    code, items, _ = checked(place, "--no-probe", "trainer.resume_mode=disable")
    assert code == 0
    assert "put aside" in items["ok", "run"]


def test_a_signal_ends_a_probe_and_leaves_nothing(place):
    """Ctrl-C while the agent works: it may finish, then exit 130, and no run is left."""
    (place / "agent.py").write_text(SLEEPER)
    with start("check", "--config", "run.yaml", cwd=place) as process:
        while not (place / "asleep").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, ""), err
    assert not (place / "runs").exists()


def test_overrides_and_keys_are_those_of_the_file(place):
    """The same configuration as `evrun train` would have; JSON alone is on stdout."""
    (place / "run.yaml").write_text(PLAIN + "sandbox: {enabled: true}\n")
    said = evrun("check", "--config", "run.yaml", "--json", cwd=place)
    assert said.code == 2
    assert json.loads(said.out)["findings"][0]["detail"].startswith("sandbox.enabled")
