"""The built-in learner `gepa`: the package's search, step by step, and nothing of it lost."""

import json
import os
import subprocess
import sys

import pytest
from gepa import optimize
from gepa.core.adapter import EvaluationBatch

from evrun.training.gepa_evolver import Gepa
from tests.runs import ROOT
from tests.training.gepa_world import TRAIN, VAL, answer, chance, files, go, judged, minibatch, world

STEPS = 10


def uninterrupted(root):
    """The run that all others are compared with."""
    stand = world(root)
    go(stand, 1, STEPS)
    return stand


def pool(stand):
    """The texts of the accepted candidates, in order, and their scores."""
    search = json.loads((stand.state / "gepa.json").read_text())
    digests = [search["seed"], *(one["child"] for one in search["iterations"] if one["accepted"])]
    return [
        json.loads((stand.state / f"candidates/{digest}.json").read_text())["texts"] for digest in digests
    ]


class Plain:
    """The same world for the package alone."""

    propose_new_texts = None

    def evaluate(self, batch, candidate, **_):
        """Scores as in the world."""
        scores = [judged(candidate["ADAPTER.md"], task)[0] for task in batch]
        return EvaluationBatch(outputs=list(batch), scores=scores, trajectories=list(batch))

    def make_reflective_dataset(self, _candidate, evaluated, components):
        """What the world's model looks at."""
        rows = [{"Generated Outputs": f"output of {task}"} for task in evaluated.trajectories]
        return dict.fromkeys(components, rows)


class Batches:
    """The minibatches of the world's steps."""

    def next_minibatch_ids(self, _loader, state):
        """Those of the step that the iteration is."""
        return [TRAIN.index(task) for task in minibatch(state.i + 1)]


def test_ten_steps_are_ten_iterations_of_the_package(tmp_path):
    """The package, run once for ten iterations in the same world, finds the same candidates."""
    stand = uninterrupted(tmp_path)
    alone = optimize(
        seed_candidate={"ADAPTER.md": "Do the task.\n"},
        trainset=TRAIN,
        valset=VAL,
        adapter=Plain(),
        custom_candidate_proposer=lambda now, rows, names: {
            names[0]: "Rule {}.\n".format(
                chance(now[names[0]].strip(), *sorted(row["Generated Outputs"] for row in rows[names[0]]))
            )
        },
        batch_sampler=Batches(),
        stop_callbacks=lambda state: state.i >= STEPS - 1,
        logger=type("Silent", (), {"log": lambda *_: None})(),
    )
    assert len(alone.candidates) > 3
    assert pool(stand) == alone.candidates
    assert stand.text == alone.best_candidate["ADAPTER.md"]


def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path):
    """Stopped after step 7 of 10 and gone on with by another process: every file of the state is the same."""
    whole = uninterrupted(tmp_path / "whole")
    stopped = world(tmp_path / "stopped")
    go(stopped, 1, 7)
    subprocess.run(
        [sys.executable, "-m", "tests.training.gepa_world", str(stopped.root), "8", str(STEPS)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "77"},
        check=True,
        timeout=60,
    )
    assert files(stopped.state) == files(whole.state)
    assert stopped.text == whole.text


def test_nothing_is_measured_twice(tmp_path):
    """No rollout of a text and a task comes again, nor is one made that the step's own rollouts have."""
    stand = uninterrupted(tmp_path)
    assert len(set(stand.trials)) == len(stand.trials)
    assert not [trial for trial in stand.trials if trial[0] == "Do the task.\n" and trial[1] in minibatch(1)]


def test_the_adapter_is_always_the_best_by_validation(tmp_path):
    """After each step, whatever candidate the search looks at next."""
    stand = world(tmp_path)
    for step in range(1, STEPS + 1):
        go(stand, step, step)
        means = [sum(judged(one["ADAPTER.md"], task)[0] for task in VAL) for one in pool(stand)]
        assert stand.text == pool(stand)[means.index(max(means))]["ADAPTER.md"]


def test_an_error_is_no_score_and_no_gain(tmp_path):
    """A candidate whose pairs are no better, were it not for the parent's error, is not accepted."""

    def rule(text, task):
        if text == "Do the task.\n":
            return (None, "gone") if task == "t3" else (0.5, "")
        return 1.0 if task == "t3" or task in VAL else 0.5, ""

    stand = world(tmp_path, rule)
    go(stand, 1, 1)
    assert (
        stand.steps[0].summary == "not accepted: 0.5 → 0.5 on 2 tasks; 1 without a score on one side left out"
    )
    assert stand.text == "Do the task.\n"


def test_a_candidate_without_all_validation_scores_is_not_accepted(tmp_path):
    """It could look better for what it was not measured on."""
    seed = "Do the task.\n"
    stand = world(
        tmp_path, lambda text, task: (None if text != seed and task == "v1" else 0.0 + (text != seed), "")
    )
    go(stand, 1, 1)
    assert "no validation score for v1" in stand.steps[0].summary
    assert stand.text == seed


def test_a_search_does_not_begin_while_its_start_cannot_be_measured(tmp_path):
    """The next step tries again, and leaves out what has no score then either."""
    stand = world(tmp_path, lambda text, task: (None, "gone") if task == "v1" else judged(text, task))
    go(stand, 1, 2)
    assert stand.steps[0].summary == "not begun: 1 of 4 validation tasks have no score"
    assert stand.steps[1].summary.startswith(("accepted", "not accepted"))
    assert json.loads((stand.state / "gepa.json").read_text())["val"] == ["v0", "v2", "v3"]


def test_what_an_iteration_saw_stays_what_it_saw(tmp_path):
    """A task that had no score then, or has another one now, does not undo what was decided then."""
    seed, later = "Do the task.\n", []

    def rule(text, task):
        if task in VAL:
            return (0.9 if text == seed else 0.8), ""
        if text != seed:
            return 0.7, ""
        if task == "t3" and not later:
            return None, "gone"
        return (0.6 if later else 0.5), ""

    stand = world(tmp_path, rule)
    stand.params = {"perfect_score": 0.5}
    go(stand, 1, 1)
    found = pool(stand)
    later.append("the agent varies, and t3 is there again")
    stand.step(Gepa(), 2, minibatch(1))
    assert stand.steps[0].summary.startswith("accepted: 0.5 → 0.7")
    assert pool(stand)[:2] == found
    assert "| 1 |" in stand.report
    search = json.loads((stand.state / "gepa.json").read_text())
    measured = json.loads((stand.state / f"candidates/{search['seed']}.json").read_text())["measured"]
    assert (measured["t4"]["score"], measured["t3"]["score"]) == (0.5, 0.6)


def test_a_candidate_that_fails_the_check_is_not_tried(tmp_path):
    """No rollout of it; the step says what the check said; later steps are as they should be."""
    stand = world(tmp_path)
    stand.issues = [[{"path": "ADAPTER.md", "check": 4, "problem": "is too long"}]]
    go(stand, 1, 3)
    assert stand.steps[0].summary == "the candidate fails the check: ADAPTER.md: is too long"
    assert {text for text, _ in stand.trials if text != "Do the task.\n"} <= {
        one["ADAPTER.md"] for one in all_of(stand)
    }
    assert stand.steps[1].summary.startswith(("accepted", "not accepted"))


def all_of(stand):
    """The texts of every candidate that there was."""
    return [json.loads(file.read_text())["texts"] for file in (stand.state / "candidates").glob("*.json")]


def test_perfect_tasks_ask_nothing(tmp_path):
    """No model call when there is nothing to improve; the iteration counts."""
    stand = world(tmp_path, lambda *_: (1.0, ""))
    go(stand, 1, 2)
    assert stand.asked == []
    assert stand.steps[1].summary == "nothing to improve: every task has the perfect score"


def test_a_run_without_validation_tasks_is_refused_at_the_setup(tmp_path):
    """With the key to set; and a wrong parameter by its name."""
    stand = world(tmp_path)
    Gepa().setup(stand.context())
    stand.params = {"acceptance_criterion": "always"}
    with pytest.raises(ValueError, match="acceptance_criterion"):
        Gepa().setup(stand.context())
    stand.params = {"reflection_prompt_template": "Improve <curr_param>"}
    with pytest.raises(ValueError, match="<side_info>"):
        Gepa().setup(stand.context())
    stand.params, stand.val = {}, []
    with pytest.raises(ValueError, match=r"data\.val"):
        Gepa().setup(stand.context())


def test_the_world_answers_as_the_package_asks(tmp_path):
    """The model's answer in this world follows from the prompt that the package really writes."""
    stand = world(tmp_path)
    go(stand, 1, 1)
    ((message,),) = stand.asked
    assert "Do the task." in message["content"]
    assert "feedback for" in message["content"]
    assert answer([message]).startswith("Here you are")
