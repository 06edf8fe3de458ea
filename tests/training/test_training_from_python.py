"""Training from Python: what `evrun train` and `evrun eval` do, taken and given back as Python has it."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import evrun
from eventlog.events import RolloutJudged, StepCommitted
from evrun.training import load_config

from .toys import Toy

QUIET: dict[str, Any] = {"progress": False, "environment": {}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Toy, evrun.TrainResult]:
    """A run that was trained to its end."""
    toy = Toy(tmp_path_factory.mktemp("trained"))
    return toy, evrun.train(toy.config, **QUIET)


def test_a_run_is_trained_and_told_in_numbers(trained):
    """The result says how it ended, in the shape of `evrun train --json`, and has the run to read."""
    toy, result = trained
    assert (result.state, result.reason, result.exit_code) == ("done", None, 0)
    assert result.report["dir"] == str(toy.run)
    assert result.report["settled_usd"] == "1.00"
    assert result.report["run"] == result.run.name == "toy"
    assert toy.paid()["rollout t1"] == 2


def test_the_steps_are_those_of_the_file(trained):
    """`steps()` makes from the log what steps.jsonl holds."""
    toy, result = trained
    assert list(result.run.steps()) == toy.steps()
    assert [step["rollout"]["mean_score"] for step in toy.steps() if step["step"]] == [0.0, 1.0, 1.0, 1.0]


def test_a_run_that_is_opened_by_its_directory_is_a_training_run(trained):
    """`open_run` knows what kind of run it is; events, state and account read as for batches."""
    toy, result = trained
    run = evrun.open_run(toy.run)
    assert isinstance(run, evrun.TrainingRun)
    assert len(list(run.events(RolloutJudged))) == 8
    assert run.state().training.steps[-1].step == 4
    assert run.audit()["settled_usd"] == result.report["settled_usd"]
    assert run.verify().kind == "clean"
    assert run.status()["state"] == "done"


def test_the_summary_and_the_adapter_are_at_hand(trained):
    """The final adapter has its card, and what the learner said of the whole is in the summary."""
    toy, result = trained
    summary = result.run.summary()
    assert summary is not None
    assert summary == json.loads((toy.run / "summary.json").read_text())
    adapter = result.run.adapter()
    assert {"ADAPTER.md", "CARD.md", "adapter.yaml"} <= adapter.keys()
    assert b"uppercase" in adapter["ADAPTER.md"]


def test_views_and_tree_are_compared_and_made_again(tmp_path):
    """`check()` finds what was lost of files and refs; `replay()` makes both again."""
    toy = Toy(tmp_path)
    run = evrun.train(toy.config, **QUIET, trainer={"epochs": 1}, data={"step_size": 4}).run
    assert all(file.same for file in run.check())
    (toy.run / "steps.jsonl").unlink()
    (toy.tree / "refs/tags/toy/final").unlink()
    lost = {file.path: file.why for file in run.check() if not file.same}
    assert lost == {"steps.jsonl": "missing", "tree/refs/tags/toy/final": "missing"}
    run.replay()
    assert all(file.same for file in run.check())
    run.replay(tmp_path / "apart")
    assert (tmp_path / "apart/steps.jsonl").read_bytes() == (toy.run / "steps.jsonl").read_bytes()
    assert (tmp_path / "apart/tree/HEAD").exists()


def test_what_is_a_batch_s_is_refused_by_name(trained):
    """Rows, prompts and their statistics are nothing that a training run has."""
    _, result = trained
    for ask in (lambda: list(result.run.trajectories()), result.run.stats, lambda: result.run.show(0)):
        with pytest.raises(evrun.UsageFault, match="is a training run"):
            ask()


def test_an_evaluation_is_made_and_listed(trained):
    """`evaluate` gives what `evrun eval --json` prints, and the run lists it."""
    toy, _ = trained
    none = evrun.evaluate(toy.config, "none", **QUIET)
    final = evrun.evaluate(toy.config, **QUIET)
    assert (none.report["mean_score"], final.report["mean_score"]) == (0.0, 1.0)
    assert [one["adapter"] for one in final.run.evaluations()] == ["none", "final"]
    assert final.run.evaluations()[-1] == final.report


def test_overrides_are_sections_or_keys(tmp_path):
    """A value given from Python counts more than the file's, one by one; null takes a cap away."""
    toy = Toy(tmp_path, trainer__budget={"usd": 0.0001, "hours": 9})
    change = {"trainer": {"epochs": 1, "budget": {"usd": None}}, "data.step_size": 4}
    result = evrun.train(toy.config, **QUIET, **change)
    assert [len(step["tasks"]) for step in result.run.steps()] == [0, 4]
    settings = result.run.state().batch.settings
    assert (settings["trainer.run_name"], settings["trainer.budget.usd"]) == ("toy", None)
    assert settings["trainer.budget.hours"] == 9


def test_a_mapping_or_a_checked_configuration_does_as_well(tmp_path, monkeypatch):
    """The same keys without a file; relative paths begin where the program works."""
    toy = Toy(tmp_path)
    monkeypatch.chdir(tmp_path)
    told = json.loads(toy.config.read_text())
    told["trainer"]["epochs"], told["data"]["step_size"] = 1, 4
    assert evrun.train(told, **QUIET).state == "done"
    again = load_config(toy.config, ["trainer.epochs=1", "data.step_size=4"])
    assert evrun.train(again, **QUIET, trainer={"run_name": "second"}).run.name == "second"
    assert (tmp_path / "runs/second/steps.jsonl").exists()


def test_functions_and_classes_are_known_by_their_files(tmp_path):
    """What a program has imported it hands over; it is found again by whoever works with it."""
    toy = Toy(tmp_path, agent__name="chat", evolver__name="reflect", judge__path=None, judge__name="exact")
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys
            sys.path.insert(0, sys.argv[1])
            import agent, judge, learner
            import evrun

            if __name__ == "__main__":
                result = evrun.train(
                    sys.argv[1] + "/run.yaml", progress=False, agent={"name": agent.run}, judge=judge.score,
                    evolver=learner.Toy, trainer={"epochs": 1}, data={"step_size": 4},
                )
                print(result.state, [step["status"] for step in result.run.steps()])
            """
        )
    )
    done = _python(program, str(tmp_path))
    assert (done.stdout.strip(), done.returncode) == ("done ['done', 'done']", 0), done.stderr
    recorded = evrun.open_run(toy.run).state().batch.settings
    assert recorded["agent.name"] == f"{tmp_path}/agent.py:run"
    assert (recorded["judge.path"], recorded["judge.name"]) == (f"{tmp_path}/judge.py", "score")
    assert recorded["evolver.name"] == f"{tmp_path}/learner.py:Toy"


def test_a_function_without_a_file_is_refused(tmp_path):
    """A lambda, or a function inside of another, could not be found again by the run that goes on."""
    toy = Toy(tmp_path)
    with pytest.raises(evrun.UsageFault, match="does not stand at the top of a file"):
        evrun.train(toy.config, **QUIET, agent=lambda task, adapter: "x")
    assert not toy.run.exists()


def test_a_program_that_is_its_own_agent_is_not_begun_twice(tmp_path):
    """A file that trains while it is read to find the agent in it is refused: nothing runs in a circle."""
    toy = Toy(tmp_path)
    program = tmp_path / "circle.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys
            import evrun

            def run(task, adapter):
                return "x"

            evrun.train(sys.argv[1], progress=False, agent=run)
            """
        )
    )
    done = _python(program, str(toy.config))
    assert done.returncode == 1
    assert "called by a file that evrun reads" in done.stderr
    assert not toy.run.exists()


def test_wrong_keys_are_refused_before_anything_is_there(tmp_path):
    """An unknown key, also in a section, is named with the nearest; nothing was made."""
    toy = Toy(tmp_path)
    with pytest.raises(evrun.UsageFault, match=r"trainer\.epoch\b"):
        evrun.train(toy.config, **QUIET, trainer={"epoch": 1})
    with pytest.raises(evrun.UsageFault):
        evrun.train(toy.config, **QUIET, data={"step_size": object()})
    assert not toy.run.exists()


def test_steps_are_said_as_they_are_committed(tmp_path):
    """`progress` gets a line for each step of this session, not for those of earlier ones."""
    toy, lines = Toy(tmp_path, trainer__epochs=1), []
    evrun.train(toy.config, progress=lines.append, environment={}, data={"step_size": 3})
    assert [line for line in lines if line.startswith("step")] == [
        "step 0 (epoch 0): no score, done, unchanged, 0.00 USD",
        "step 1 (epoch 1): mean 0.000, done, changed, 0.35 USD",
        "step 2 (epoch 1): mean 1.000, done, unchanged, 0.50 USD",
    ]


def test_a_switch_ends_an_async_session_and_the_same_call_goes_on(tmp_path):
    """`switch.turn()` is Ctrl-C: the session ends in order, what it has done is kept."""
    toy = Toy(tmp_path, agent__params={"account": str(tmp_path / "account.txt"), "seconds": 0.2})
    switch = evrun.Switch()

    def said(line: str) -> None:
        if line.startswith("step 1 "):
            switch.turn()

    first = asyncio.run(evrun.train_async(toy.config, progress=said, environment={}, switch=switch))
    assert first.state == "interrupted"
    second = evrun.train(toy.config, **QUIET)
    assert (second.state, second.exit_code) == ("done", 0)
    assert len(list(second.run.events(StepCommitted))) == 5
    assert toy.paid()["setup"] == 1


def _python(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(evrun.__file__).parent.parent)}
    return subprocess.run(
        [sys.executable, str(program), *arguments],
        capture_output=True, text=True, check=False, timeout=60, env=environment,
    )  # fmt: skip
