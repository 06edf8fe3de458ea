"""Faults measured in a trainer of the same kind, as far as they are about what a run was told."""

import os
from contextlib import closing

import pytest

from eventlog.events import BudgetChanged, SettingsChanged, decode_event
from eventlog.storage import LogReader
from evrun.batch.opening import open_writer
from tests.cli.shell import evrun
from tests.training.configured import written

PAYING = """\
data: {tasks: tasks.jsonl, train: train.txt, step_size: 2, shuffle: false}
agent: {name: agent.py:run, concurrency: 1, bound: {usd: 0.1}}
judge: judge.py
template: prompt-only
evolver: {name: learner.py:Learner, bound: {usd: 0.05}}
trainer: {run_name: r, budget: {usd: 0.33}}
"""
AGENT = """\
from pathlib import Path

from evrun import RunOutput


def run(task, adapter):
    with Path(__file__).with_name("paid.txt").open("a") as paid:
        paid.write(f"{task['id']}\\n")
    return RunOutput(task["prompt"], cost_usd=0.1)
"""
LEARNER = """\
from evrun import Evolver, StepResult, Usage


class Learner(Evolver):
    def step(self, ctx):
        return StepResult("done", usage=Usage(model="m", cost_usd=0.05))
"""


@pytest.fixture
def place(tmp_path):
    """Rollouts at 0.10 and a learner at 0.05: a step of two costs 0.25, and the cap is 0.33."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "learner.py").write_text(LEARNER)
    written(tmp_path, PAYING)
    return tmp_path


def train(place, *arguments):
    """A session of `evrun train`."""
    return evrun("train", "--config", place / "run.yaml", "--quiet", "--json", *arguments, cwd=place)


def events(place, kind):
    """The run's events of a type."""
    with LogReader.open(place / "runs/r/log") as reader:
        found = [decode_event(record.payload) for record in reader.read()]
    return [event for event in found if isinstance(event, kind)]


def paid(place):
    """The tasks that the agent was paid for, as it counts them itself."""
    return (place / "paid.txt").read_text().split()


def test_how_many_steps_a_cap_pays_for_is_said_before_the_start(place):
    """A cap of 1.3 steps is no success: it is said how far it reaches, and the run pauses there."""
    said = train(place)
    assert "pays for 1 of 2 steps" in said.err
    assert said.code == 4, said.err
    assert (said.json["state"], said.json["counts"]["steps"]) == ("paused", 1)
    before = paid(place)
    said = train(place, "trainer.budget.usd=0.5")
    assert (said.code, said.json["settled_usd"]) == (0, "0.50")
    assert "pays for" not in said.err
    assert sorted(paid(place)) == sorted({*before, *paid(place)}), "nothing was paid for twice"
    assert [event.now["usd"] for event in events(place, BudgetChanged)] == [330_000_000, 500_000_000]


def test_a_changed_step_size_or_split_is_shown_and_refused_or_recorded(place):
    """Tasks would be skipped or trained twice: refused, unless it is accepted, and then it is in the log."""
    assert train(place).code == 4
    more = "trainer.budget.usd=5"
    (place / "train.txt").write_text("t0\nt1\nt2\n")
    (place / "agent.py").write_text(AGENT + "# edited\n")
    size = (place / "runs/r/log").stat().st_mtime_ns, len(paid(place))
    said = train(place, more, "data.step_size=1")
    assert said.code == 2
    for part in ("data.step_size was 2, is 1", "data.train has another content", "agent.name has another"):
        assert part in said.err
    assert "--accept-changes" in said.err
    assert size == ((place / "runs/r/log").stat().st_mtime_ns, len(paid(place)))
    assert events(place, SettingsChanged) == []
    said = train(place, more, "data.step_size=1", "--accept-changes")
    assert said.code == 0, said.err
    (changed,) = events(place, SettingsChanged)
    assert changed.changes["data.step_size"] == (2, 1)
    assert {"input:data.train", "input:agent.name"} <= set(changed.changes)


def test_more_patience_and_another_place_need_no_consent(place):
    """What does not shape the run may change at any time."""
    assert train(place).code == 4
    moved = place / "moved.txt"
    moved.write_bytes((place / "train.txt").read_bytes())
    said = train(
        place, "trainer.budget.usd=5", "agent.concurrency=2", "trainer.retries=0", "eval.repeats=3",
        "trainer.call_timeout_min=5", "data.train=moved.txt",
    )  # fmt: skip
    assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("trainer.resume_mode=nonsense", "expected one of auto, disable"),
        ("agent.bound.usd=", "agent.bound.usd"),
        ("start_from=nowhere/final", "start_from nowhere/final"),
        ("trainer.epoch=2", "did you mean trainer.epochs?"),
    ],
)
def test_a_refused_start_leaves_nothing(place, override, said):
    """Nothing is made, nothing is paid, and exit 2 says why."""
    before = sorted(path.name for path in place.iterdir())
    refused = train(place, override)
    assert refused.code == 2
    assert said in refused.err
    assert sorted(path.name for path in place.iterdir() if path.name != "__pycache__") == before


def test_a_cap_with_an_unknown_price_is_refused_at_the_start(place):
    """It could never hold: the model and the key that gives its price are named."""
    model = ("agent=chat", "model=vllm/some-model", "agent.params.max_tokens=100")
    refused = train(place, *model)
    assert refused.code == 2
    assert "trainer.budget.usd needs a price, and that of some-model" in refused.err
    assert "prices: {some-model" in refused.err
    assert not (place / "runs").exists()


def test_a_check_tells_how_a_run_goes_on_what_changed_and_who_works_on_it(place):
    """An unfinished run goes on after its last step; a change and a second process are refused."""
    assert train(place).code == 4
    look = ("check", "--config", place / "run.yaml", "--no-probe")
    said = evrun(*look, "trainer.budget.usd=5", cwd=place)
    assert said.code == 0, said.out
    assert "[ok] run: goes on after step 1: " in said.out
    said = evrun(*look, "data.step_size=3", cwd=place)
    assert said.code == 2
    assert "data.step_size was 2, is 3" in said.out
    with closing(open_writer(place / "runs/r", lambda _: None)):
        said = evrun(*look, cwd=place)
    assert said.code == 2
    assert f"is in use by process {os.getpid()}" in said.out
