"""Faults that users of other trainers reported, each as what must happen instead (list: docs/cases.md)."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests import warm
from tests.runs import environment, evrun, finish, kill, start, wait_until
from tests.training.toys import Toy


def train(toy: Toy, *more: object):
    """Train, or go on."""
    return evrun("train", "--config", toy.config, "--json", *more, cwd=toy.directory)


def die_at(toy: Toy, sequence: int) -> None:
    """Train until an event is durable, and die of kill -9."""
    process = warm.start(
        "tests.training.dying:main", [str(toy.config), str(sequence)], cwd=toy.directory,
        environment=environment(),
    )  # fmt: skip
    with process:
        process.communicate(60)
    assert process.returncode == -9


def events(toy: Toy, kind: str) -> list[int]:
    """The sequences of a type's events."""
    lines = evrun("events", toy.run, "--type", kind, "--json", cwd=toy.directory).stdout.splitlines()
    return [int(line.split('"seq": ')[1].split(",")[0]) for line in lines]


def git(toy: Toy, *words: str) -> str:
    """What the git program says of the tree."""
    done = subprocess.run(["git", "-C", str(toy.tree), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def files_of(toy: Toy) -> dict[Path, bytes]:
    """All views of a run."""
    views = [path for path in toy.run.rglob("*") if path.is_file() and not {"log", "work"} & {*path.parts}]
    return {path: path.read_bytes() for path in views}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing has disturbed; not to be changed."""
    toy = Toy(tmp_path_factory.mktemp("whole"))
    assert train(toy).code == 0
    return toy


def test_a_tag_that_a_crash_left_out_is_made_at_the_next_start(whole, tmp_path):
    """Killed behind the boundary of an epoch's last step: the record is there, its tag comes (case 5)."""
    toy = Toy(tmp_path)
    die_at(toy, events(whole, "StepCommitted")[1])
    assert "toy/ckpt-epoch-1" not in git(toy, "tag")
    assert train(toy).code == 0
    assert git(toy, "tag").splitlines() == git(whole, "tag").splitlines()


def test_a_half_written_line_of_steps_is_put_right(whole, tmp_path):
    """The view is no truth: what a crash left of it is replaced (case 6)."""
    toy = Toy(tmp_path)
    die_at(toy, events(whole, "StepStarted")[2])
    steps = toy.run / "steps.jsonl"
    steps.write_bytes(steps.read_bytes()[:-20])
    assert train(toy).code == 0
    assert [step["step"] for step in toy.steps()] == [0, 1, 2, 3, 4]
    assert evrun("replay", toy.run, "--check", cwd=tmp_path).code == 0


def test_a_changed_split_is_refused_or_accepted_on_record(whole, tmp_path):
    """What shapes the run may not change in silence (case 7)."""
    toy = Toy(tmp_path)
    die_at(toy, events(whole, "StepStarted")[1])
    (tmp_path / "train.txt").write_text("t1\nt2\nt3\n")
    paid = toy.paid()
    refused = train(toy, "data.step_size=1")
    assert refused.code == 2
    assert "data.train has another content" in refused.stderr
    assert "data.step_size was 2, is 1" in refused.stderr
    assert toy.paid() == paid
    assert train(toy, "data.step_size=1", "--accept-changes").code == 0
    assert events(toy, "SettingsChanged")
    trained = [task for step in toy.steps() if step["epoch"] == 1 for task in step["tasks"]]
    assert len(trained) == len(set(trained))


def test_a_second_trainer_is_refused_and_told_who_has_the_run(tmp_path):
    """One writer: nothing is doubled (case 8)."""
    toy = Toy(tmp_path, agent__params={"account": str(tmp_path / "account.txt"), "seconds": 1.5})
    first = start("train", "--config", toy.config, cwd=tmp_path)
    wait_until(
        lambda: toy.paid()["rollout t1"] + toy.paid()["rollout t3"] > 0 or bool(toy.paid()), "a rollout"
    )
    second = train(toy)
    assert second.code == 6
    assert str(first.pid) in second.stderr
    assert finish(first).code == 0
    assert sum(count for what, count in toy.paid().items() if what.startswith("rollout")) == 8


def test_views_and_tree_are_rebuilt_with_the_same_hashes(whole, tmp_path):
    """The log alone brings everything back, refs and commits too (case 15)."""
    toy = Toy(tmp_path)
    assert train(toy).code == 0
    before, refs = git(toy, "rev-parse", "toy/final"), git(toy, "show-ref")
    files = {
        path: path.read_bytes() for path in toy.run.rglob("*") if path.is_file() and "log" not in path.parts
    }
    subprocess.run(["rm", "-rf", str(toy.tree), *map(str, toy.run.glob("[!l]*"))], check=True)
    subprocess.run(["rm", "-rf", str(toy.run / "learning_material")], check=True)
    assert evrun("replay", toy.run, cwd=tmp_path).code == 0
    assert git(toy, "rev-parse", "toy/final") == before
    assert git(toy, "show-ref") == refs
    again = {
        path: path.read_bytes() for path in toy.run.rglob("*") if path.is_file() and "log" not in path.parts
    }
    assert again == files
    assert evrun("replay", toy.run, "--check", cwd=tmp_path).code == 0


def test_below_the_coverage_the_learner_is_not_called(tmp_path):
    """What could not be measured is missing and no zero; with too little measured nobody learns (case 13)."""
    params = {"account": str(tmp_path / "account.txt"), "broken": ["t1", "t2", "t3"]}
    toy = Toy(
        tmp_path, agent__params=params, trainer__retries=1, trainer__coverage_min=1.0, trainer__epochs=1,
        data__step_size=4,
    )  # fmt: skip
    done = train(toy)
    assert done.code == 3, done
    assert toy.paid()["rollout t1"] == 2
    assert not [what for what in toy.paid() if what.startswith("learner")]
    step = toy.steps()[-1]
    assert step["status"] == "failed"
    assert step["rollout"]["scores"] == {"t1": None, "t2": None, "t3": None, "t4": 0.0}
    assert (step["rollout"]["mean_score"], step["rollout"]["coverage"]) == (0.0, 0.25)


def test_evaluating_twice_keeps_both_results_and_moves_nothing(tmp_path):
    """Held-out results stand beside the adapter (case 17)."""
    toy = Toy(tmp_path)
    assert train(toy).code == 0
    final = git(toy, "rev-parse", "toy/final")
    for _ in range(2):
        done = evrun("eval", "--config", toy.config, "--adapter", "final", "--json", cwd=tmp_path)
        assert done.code == 0, done
        assert done.json["mean_score"] == 1.0
    assert git(toy, "rev-parse", "toy/final") == final
    results = toy.run / "eval/final"
    assert len((results / "results.jsonl").read_text().splitlines()) == 4
    assert {path.name for path in results.glob("summary*.json")} == {
        "summary.json", "summary-1.json", "summary-2.json",
    }  # fmt: skip
    assert evrun("train", "--config", toy.config, cwd=tmp_path).code == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_in_order(tmp_path, number, code):
    """Calls in flight finish, nothing new starts, and the run goes on where it was (case 19)."""
    toy = Toy(tmp_path, agent__params={"account": str(tmp_path / "account.txt"), "seconds": 0.3})
    process = start("train", "--config", toy.config, cwd=tmp_path)
    wait_until(lambda: bool(toy.paid()), "a rollout")
    process.send_signal(number)
    ended = finish(process)
    assert ended.code == code, ended
    assert "Traceback" not in ended.stderr
    assert train(toy).code == 0
    assert sum(count for what, count in toy.paid().items() if what.startswith("rollout")) == 8


def test_a_refused_start_leaves_nothing(tmp_path):
    """No half-made run, no tree, no branch (case 20)."""
    toy = Toy(tmp_path, start_from="nowhere/final")
    before = sorted(tmp_path.iterdir())
    refused = train(toy)
    assert refused.code == 2
    assert "nowhere/final" in refused.stderr
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before
    assert not toy.run.exists()


def test_a_learner_of_a_dead_trainer_writes_nothing_into_the_resumed_run(tmp_path):
    """It is killed with its group, and its directory is not the one in use (case 9)."""
    learner = tmp_path / "learner.sh"
    toy = Toy(tmp_path, evolver__name=f"command:sh {learner}", evolver__params={})
    learner.write_text(
        'sleep 4; echo late >> "$PWD/adapter/ADAPTER.md"; echo late >> ' + str(tmp_path / "late.txt") + "\n"
    )
    process = start("train", "--config", toy.config, cwd=tmp_path)
    wait_until(lambda: bool(events_now(toy, "EvolverStarted")), "the learner at work")
    kill(process)
    learner.write_text('echo better >> "$PWD/adapter/ADAPTER.md"\n')
    assert train(toy, "--accept-changes").code == 0
    time.sleep(4.5)
    assert not (tmp_path / "late.txt").exists()
    assert "late" not in (toy.run / "checkout/ADAPTER.md").read_text()
    assert "better" in (toy.run / "checkout/ADAPTER.md").read_text()


def events_now(toy: Toy, kind: str) -> list[int]:
    """As `events`, of a run that may not be there yet."""
    return events(toy, kind) if (toy.run / "log").is_dir() else []


@pytest.mark.parametrize(
    "words",
    [("stats",), ("show", "RUN", "0"), ("export", "RUN", "--format", "jsonl", "-o", "x.jsonl"),
     ("otel", "RUN", "--collector", "http://127.0.0.1:9")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_command_about_prompts_says_where_to_look_instead(whole, words):
    """A training run has no prompts; nobody is shown zeros."""
    typed = [str(whole.run) if word == "RUN" else word for word in words]
    typed = [*typed, str(whole.run)] if len(typed) == 1 else typed
    refused = evrun(*typed, cwd=whole.directory)
    assert refused.code == 2, refused
    assert "is a training run" in refused.stderr


def test_a_run_is_put_aside_only_for_one_that_can_begin(tmp_path):
    """Starting over keeps the old run under another name; a refused start over keeps it where it is."""
    toy = Toy(tmp_path, trainer__epochs=1)
    assert train(toy).code == 0
    final = git(toy, "rev-parse", "toy/final")
    refused = train(toy, "trainer.resume_mode=disable", "start_from=nowhere")
    assert refused.code == 2, refused
    assert git(toy, "rev-parse", "toy/final") == final
    assert [path.name for path in toy.run.parent.iterdir() if path.name != "trees"] == ["toy"]
    again = train(toy, "trainer.resume_mode=disable", "start_from=toy/final")
    assert again.code == 0, again
    (aside,) = (path for path in toy.run.parent.iterdir() if path.name.startswith("toy.replaced-"))
    assert git(toy, "rev-parse", f"{aside.name}/final") == final
    assert toy.steps()[0]["parent"] == final
    assert evrun("replay", aside, "--check", cwd=tmp_path).code == 0
