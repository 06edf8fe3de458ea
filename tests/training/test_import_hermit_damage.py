"""Importing a Hermit run whatever happened to its files: what can be read is taken, the rest is listed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evrun.errors import UsageFault
from tests.cli.shell import evrun

from .hermit_toy import HermitToy


@pytest.fixture
def toy(tmp_path: Path) -> HermitToy:
    """Hermit's runs, to be damaged."""
    return HermitToy(tmp_path)


def unread(made: Any) -> list[tuple[str, int | None, str]]:
    """What was not taken."""
    return [tuple(one) for one in made.unread]


def test_half_a_last_line_is_a_step_that_was_not_ended(toy):
    """Hermit itself dies of it (a fault that was measured); here the steps before it are the run."""
    path = toy.runs / "killed/steps.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 100])
    made = toy.imported("killed")
    assert unread(made) == [("steps.jsonl", 3, "the file ends in half a line")]
    assert [step["step"] for step in toy.steps("killed")] == [1, 2]
    assert made.state.training.next_step == 3


def test_a_line_that_is_damaged_ends_what_can_be_taken(toy):
    """What follows a step that is not there rests on a commit that nobody vouches for."""
    path = toy.runs / "finished/steps.jsonl"
    lines = path.read_text().splitlines()
    lines[1] = "{" + lines[1]
    path.write_text("\n".join(lines) + "\n")
    made = toy.imported("finished")
    assert [(file, line) for file, line, _ in unread(made)] == [
        ("steps.jsonl", 2), ("steps.jsonl", 3), ("steps.jsonl", 4),
    ]  # fmt: skip
    assert [step["step"] for step in toy.steps("finished")] == [1]


def test_lines_that_two_trainers_wrote_are_taken_once(toy):
    """Two trainers on one run double its lines: the first of each step is the run, the others are listed."""
    path = toy.runs / "finished/steps.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *lines]) + "\n")
    made = toy.imported("finished")
    assert unread(made) == [("steps.jsonl", 2, "step 1: expected step 2")]
    assert [step["step"] for step in toy.steps("finished")] == [1, 2, 3, 4]


@pytest.mark.parametrize("change", [{"step": "one"}, {"rollout": None}, {"commit": "0" * 40}, {"tasks": [1]}])
def test_a_line_of_another_shape_is_listed(toy, change):
    """With its number, and what is wrong with it."""
    path = toy.runs / "repaired/steps.jsonl"
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    path.write_text(f"{json.dumps(first)}\n{json.dumps({**second, **change})}\n")
    made = toy.imported("repaired")
    assert [(file, line) for file, line, _ in unread(made)] == [("steps.jsonl", 2)]
    assert [step["step"] for step in toy.steps("repaired")] == [1]


def test_without_its_material_a_step_has_its_scores_and_its_sum(toy):
    """What the rollouts said is gone; what they scored and cost is in the step's line."""
    shutil.rmtree(toy.runs / "killed/learning_material")
    made = toy.imported("killed")
    first = toy.steps("killed")[0]
    assert first["rollout"]["scores"] == toy.told("killed")[0]["rollout"]["scores"]
    assert first["budget_after"]["by_role"] == {"learner": "0.05", "rollout": "0.20"}
    assert [note for note in made.notes if "only scores are left" in note] == [
        f"step {step['step']}: only scores are left of {', '.join(step['tasks'])}"
        for step in toy.told("killed")
    ]


def test_a_task_s_file_that_is_damaged_is_listed_and_its_score_kept(toy):
    """The other task's is whole; the money of both is in the account."""
    material = toy.runs / "killed/learning_material/step_0002/tasks"
    (material / "quarry.json").write_bytes(b"{")
    made = toy.imported("killed")
    assert [file for file, _, _ in unread(made)] == ["learning_material/step_0002/tasks/quarry.json"]
    second = toy.steps("killed")[1]
    assert second["rollout"]["scores"] == {"quarry": 1.0, "meadow": 1.0}
    assert second["budget_after"]["usd"] == "0.50"


def test_a_link_in_a_trajectory_is_not_followed(toy, tmp_path):
    """What it points to is nothing that Hermit kept: it is listed, and left."""
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    place = toy.runs / "stuck/learning_material/step_0001/trajectories/harbour"
    (place / "link").symlink_to(secret)
    made = toy.imported("stuck")
    assert unread(made) == [(
        "learning_material/step_0001/trajectories/harbour/link", None, "is a link, which is not followed",
    )]  # fmt: skip


def test_an_evaluation_that_was_not_ended_is_left_out(toy):
    """Hermit would begin it anew, and so does evrun."""
    (toy.runs / "finished/eval/none/summary.json").unlink()
    made = toy.imported("finished")
    assert unread(made) == [("eval/none", None, "it was not ended, which Hermit would begin anew")]
    assert [one.selector for one in made.state.training.evaluations.values()] == ["final"]


def test_a_score_that_is_no_number_is_none(toy):
    """JSON of Python holds NaN; a mean of it would be nothing at all."""
    path = toy.runs / "repaired/learning_material/step_0002/tasks/quarry.json"
    path.write_text(path.read_text().replace('"score": 1.0', '"score": NaN'))
    toy.imported("repaired")
    rollout = toy.steps("repaired")[1]["rollout"]
    assert (rollout["scores"]["quarry"], rollout["mean_score"], rollout["errors"]) == (None, 1.0, 1)


def test_secrets_do_not_come_along(toy):
    """A key in Hermit's configuration is left out and named; a known value is replaced in what is taken."""
    path = toy.runs / "stuck/config.yaml"
    text = path.read_text().replace(
        "    params: {}\n", "    params:\n      api_key: abcdefgh12345\n      size: 3\n", 1
    )
    path.write_text(text)
    toy.environment = {"HARBOUR_TOKEN": "harbour light"}
    made = toy.imported("stuck")
    assert made.state.batch.settings["agent.params"] == {"api_key": None, "size": 3}
    assert "agent.params.api_key looks like a secret, and is left out" in made.notes
    harbour = toy.output / "stuck/learning_material/step_0001"
    for file in ("tasks/harbour.json", "trajectories/harbour/harbour.log"):
        said = (harbour / file).read_text()
        assert "harbour light" not in said
        assert "[redacted:HARBOUR_TOKEN]" in said


@pytest.mark.parametrize(
    ("number", "listed"), [("1e400", False), ("-1", False), ("99999999999999999999", True), ("NaN", False)]
)
def test_numbers_that_nobody_can_have_paid_are_not_taken(toy, number, listed):
    """A cost or a length of time that is none is not known; a count that no log can hold is damage."""
    path = toy.runs / "stuck/learning_material/step_0001/tasks/harbour.json"
    text = path.read_text().replace('"cost_usd": 0.1', f'"cost_usd": {number}')
    text = text.replace('"wall_s": 0.01', f'"wall_s": {number}')
    path.write_text(text.replace('"tokens": 120', f'"tokens": {number}') if listed else text)
    made = toy.imported("stuck")
    assert bool(made.unread) == listed
    first = toy.steps("stuck")[0]["rollout"]
    assert (first["scores"]["harbour"], first["unknown_cost_tasks"]) == (0.0, 1)


def test_a_run_that_was_moved_is_read_where_it_is(toy, tmp_path):
    """The paths that Hermit recorded are gone: tasks, tree and learner are found beside the run."""
    other = tmp_path / "elsewhere"
    toy.directory.rename(other)
    toy.directory, toy.runs = other, other / "runs"
    settings = toy.imported("killed").state.batch.settings
    assert settings["data.train"] == str(other / "train.txt")
    assert settings["evolver.name"].startswith(str(other / "learner"))


def test_a_run_alone_is_read_with_its_tree_and_its_configuration(toy, tmp_path):
    """A run directory that was taken out of everything: --tree and --config say where the rest is."""
    alone = tmp_path / "alone/killed"
    alone.parent.mkdir()
    (toy.runs / "killed").rename(alone)
    toy.runs, runs = alone.parent, toy.runs
    with pytest.raises(UsageFault, match="no git repository with the run's commits") as refused:
        toy.imported("killed")
    assert "--tree" in str(refused.value.hint)
    made = toy.imported("killed", tree=runs / "trees/prompt-only", config=toy.directory / "run.yaml")
    assert made.state.batch.settings["data.train"] == str(toy.directory / "train.txt")
    assert made.state.training.epochs[2][:2] == toy.told("killed")[2]["tasks"]


def test_without_its_tasks_a_run_can_be_read_and_not_gone_on_with(toy):
    """The epoch that was open is not recorded as whole: nobody knows what was still to come."""
    for name in ("tasks.jsonl", "train.txt"):
        (toy.directory / name).unlink()
    made = toy.imported("killed")
    assert list(made.state.training.epochs) == [1]
    assert any("--config" in note for note in made.notes)


@pytest.mark.parametrize(
    ("name", "why"),
    [("config.yaml", "No such file"), ("steps.jsonl", None), ("summary.json", None)],
)
def test_only_the_configuration_is_needed(toy, name, why):
    """A run without steps or summary is one that has not got far; without its configuration it is none."""
    (toy.runs / "finished" / name).unlink()
    if why is None:
        made = toy.imported("finished")
        assert (made.reason is None) == (name == "steps.jsonl")
        return
    with pytest.raises(UsageFault, match=why):
        toy.imported("finished")
    assert not toy.output.exists()


def test_refused_imports_leave_nothing(toy):
    """A name that is taken, a place in Hermit's own directory, a name that is none."""
    toy.imported("stuck")
    with pytest.raises(UsageFault, match="holds a run already"):
        toy.imported("stuck")
    toy.output = toy.runs / "killed"
    with pytest.raises(UsageFault, match="is not to be changed"):
        toy.imported("killed", run_name="x")
    toy.output = toy.runs
    with pytest.raises(UsageFault, match="is not to be changed"):
        toy.imported("killed")
    with pytest.raises(UsageFault, match=r"finished holds .*config\.yaml"):
        toy.imported("killed", run_name="finished")
    with pytest.raises(UsageFault):
        toy.imported("killed", run_name="../x")
    assert not (toy.runs / "killed/x").exists()


def test_the_command_says_what_was_made_and_how_to_go_on(toy, tmp_path):
    """Exit 0 when all of it is in the run, 3 with a list when not, 2 when nothing could be made."""
    args = ("import", "hermit", toy.runs / "killed", "--output-dir", tmp_path / "out")
    done = evrun(*args, cwd=tmp_path)
    assert done.code == 0, done.err
    assert f"imported {toy.runs / 'killed'} as {tmp_path / 'out/killed'}: 3 steps, 6 rollouts" in done.out
    assert f"go on with: evrun train --config {tmp_path / 'out/killed/run.yaml'}" in done.out
    assert evrun(*args, cwd=tmp_path).code == 2
    capped = evrun("import", "hermit", toy.runs / "capped", "--output-dir", tmp_path / "out", cwd=tmp_path)
    assert "agent.bound.usd, evolver.bound.usd (so far 0.10 USD and 0.05 USD)" in capped.out
    with (toy.runs / "killed/steps.jsonl").open("a") as lines:
        lines.write('{"step": 4')
    torn = evrun(*args, "--run-name", "torn", "--json", cwd=tmp_path)
    assert torn.code == 3
    report = json.loads(torn.out)
    assert report["not_taken"] == [{"file": "steps.jsonl", "line": 4, "what": "the file ends in half a line"}]
    assert (report["run"], report["state"], report["settled_usd"]) == ("torn", "interrupted", "0.75")
    assert report["counts"]["steps"] == 3


def test_options_of_the_other_program_are_refused(tmp_path):
    """Each of them says whose it is."""
    wrong = evrun("import", "hermit", tmp_path, "--dataset", tmp_path / "x", cwd=tmp_path)
    assert (wrong.code, "--dataset is for `evrun import hermes`" in wrong.err) == (2, True)
    wrong = evrun("import", "hermes", tmp_path, "--run-name", "r", "--tree", tmp_path, cwd=tmp_path)
    assert (wrong.code, "--tree is for `evrun import hermit`" in wrong.err) == (2, True)
    assert evrun("import", "hermitage", tmp_path, cwd=tmp_path).code == 2
