"""What is in the views of training runs: each rule of rendering for itself."""

import json
import math
import random
from statistics import NormalDist

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from projections import FinalChoice, RunState, render_card
from projections.interval import interval, t_quantile
from projections.render_config import render_config
from projections.render_evaluation import evaluation_report
from projections.render_steps import render_step
from projections.training_views import (
    file_name,
    is_evaluation_file,
    selector_directory,
    step_directory,
    step_of_directory,
)

from .histories import records
from .training_events import TrainingRun, trained

JSON = st.recursive(
    st.none() | st.booleans() | st.text() | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def folded(run):
    """The state after all of a run's events."""
    state = RunState()
    for record in records(run.commits):
        state.apply(record)
    return state


@settings(max_examples=30)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}\.[a-zA-Z_]{1,6}", fullmatch=True), JSON, max_size=5))
def test_config_is_yaml_that_reads_as_what_was_told(told):
    """Every setting that JSON can hold comes back out of config.yaml as it went in, whatever is in it."""
    run = TrainingRun()
    run.settings = told
    loaded = yaml.safe_load(render_config(folded(run.begin())))
    for key, value in told.items():
        section, name = key.split(".")
        assert loaded["config"][section][name] == value
    assert loaded["inputs"]["data.tasks"] == {"sha256": "ab" * 32, "path": "/home/me/tasks.jsonl"}


@given(st.lists(st.text(min_size=1, alphabet=st.characters(codec="utf-8")), unique=True))
def test_tasks_have_names_that_files_can_have_and_never_share(ids):
    """No path leads out, nothing is hidden, nothing is too long, and two ids are two files."""
    names = [file_name(task) for task in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        assert "/" not in name
        assert "\0" not in name
        assert not name.startswith((".", "-"))
        assert 0 < len(name.encode()) <= 120


@pytest.mark.parametrize(
    ("task", "name"),
    [("alder", "alder"), ("a/b", "a%2Fb"), ("..", "%2E."), ("50%", "50%25"), ("ä", "%C3%A4"), ("a b", "a b")],
)
def test_a_plain_id_is_its_own_name(task, name):
    """What scripts look for stands where they look; only what a name cannot hold is written otherwise."""
    assert file_name(task) == name


def test_a_long_id_is_cut_with_a_digest_of_the_whole():
    """Two long ids that begin alike are two files."""
    assert file_name("x" * 500) != file_name("x" * 501)
    assert len(file_name("x" * 500)) < 120


def test_directories_of_steps_are_known_by_their_name_alone():
    """Four digits at least, and no other spelling of a number."""
    assert [step_directory(step) for step in (0, 7, 12345)] == ["step_0000", "step_0007", "step_12345"]
    assert [step_of_directory(name) for name in ("step_0007", "step_12345", "step_7", "step_00007", "x")] == [
        7, 12345, None, None, None,
    ]  # fmt: skip
    assert selector_directory("toy/ckpt-step-1") == "toy_ckpt-step-1"
    assert selector_directory("..") == "%2E."
    assert [is_evaluation_file(name) for name in ("summary-12.json", "summary-01.json", "notes.json")] == [
        True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (5, 2.57058), (30, 2.04227), (120, 1.97993), (1000, 1.96234)],
)
def test_the_quantile_is_that_of_the_tables(freedom, quantile):
    """As printed in books, for few and for many degrees of freedom, on both sides of the change of method."""
    assert t_quantile(freedom) == pytest.approx(quantile, abs=6e-6 * quantile)
    assert t_quantile(10**9) == pytest.approx(NormalDist().inv_cdf(0.975))
    assert t_quantile(301) == pytest.approx(t_quantile(300), rel=1e-4)


def test_an_interval_of_single_scores_is_the_usual_one():
    """Mean, give or take t times the standard deviation by the root of the number."""
    scores = [0.0, 1.0, 1.0, 0.5]
    mean = sum(scores) / 4
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / 3)
    low, high = interval([[score] for score in scores])
    assert (low + high) / 2 == pytest.approx(mean)
    assert (high - low) / 2 == pytest.approx(t_quantile(3) * deviation / 2)


def test_repeats_of_a_task_do_not_make_a_mean_more_certain():
    """Ten times the same answer to two tasks is two answers."""
    once, often = interval([[0.0], [1.0]]), interval([[0.0] * 10, [1.0] * 10])
    assert once == pytest.approx(often)
    assert interval([[0.5] * 9]) is None
    assert interval([[], [1.0]]) is None


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Of 2000 draws of eight tasks, 95 % of the intervals have the mean that they were drawn with in them."""
    chance, held = random.Random(7), 0
    for _ in range(2000):
        tasks = [chance.gauss(0.5, 0.2) for _ in range(8)]
        low, high = interval([[chance.gauss(task, 0.1) for _ in range(3)] for task in tasks])
        held += low <= 0.5 <= high
    assert 0.935 < held / 2000 < 0.965


def test_an_evaluation_s_errors_are_in_no_mean():
    """Errors are counted beside the scores; tasks that were never solved count in the share."""
    run = TrainingRun().begin()
    run.start_evaluation(1, "x", "y", repeats=2)
    for repeat, scores in enumerate([(1.0, 0.0), (0.5, None)], 1):
        for task, score in zip("xy", scores, strict=True):
            run.evaluate(1, task, score, repeat=repeat)
    run.end_evaluation(1)
    report = evaluation_report(folded(run).training.evaluations[1])
    assert (report["tasks"], report["repeats"], report["errors"], report["mean_score"]) == (2, 2, 1, 0.5)
    assert (report["solved_once"], report["cost_usd"], report["commit"]) == (0.5, "0.00", "cf")


def test_a_step_s_line_has_every_key_that_scripts_read():
    """Money as exact text, times with a zone, the shape of the check by what there was to look at."""
    run = trained()
    first, second = (json.loads(render_step(record)) for record in folded(run).training.steps)
    assert list(first) == [
        "step", "epoch", "tasks", "rollout", "evolver", "status", "note", "session", "parent", "commits",
        "commit", "changed", "check", "repaired", "check_feedback_next", "budget_after", "time",
    ]  # fmt: skip
    assert first["check"]["passed"] is False
    assert first["check"]["after_repair"] == {"passed": True, "issues": []}
    assert first["check_feedback_next"] == first["repaired"] == [
        {"path": "adapter.yaml", "restored_from": "root", "reason": "a fixed file was changed"}
    ]  # fmt: skip
    assert (second["check"], second["repaired"], second["check_feedback_next"]) == (
        {"passed": True, "issues": []}, [], None,
    )  # fmt: skip
    assert first["rollout"]["scores"] == {"a": 0.0, "b": 0.5}
    assert first["rollout"]["cost_usd"] == first["budget_after"]["usd"] == "0.00"
    assert first["time"].endswith("Z")


def test_a_learner_that_failed_leaves_its_reason_in_the_line():
    """The adapter is kept, and the check says that there was nothing to look at."""
    run = TrainingRun().begin()
    run.start_epoch("a")
    run.start_step("a")
    run.rollout("a")
    run.learn(status="out_of_budget")
    run.commit(status="out_of_budget")
    line = json.loads(render_step(folded(run).training.steps[0]))
    assert (line["status"], line["changed"], line["check"]["passed"]) == ("out_of_budget", False, None)
    assert line["check"]["skipped"] == "the previous adapter is kept"


def test_a_card_tells_what_was_chosen_and_nothing_of_the_machine():
    """Provenance, spending, warnings, what was learned; names of files, and no directories of the user's."""
    state = folded(trained())
    card = render_card(state, FinalChoice(2, "best", 0.75, "Be brief.\n", "completed all epochs")).decode()
    assert "that of step 2 (best, score 0.75 on the validation tasks)" in card
    assert "learner: learner.py:Learner" in card
    assert "/home/me" not in card
    assert "steps whose adapter had to be repaired: 1" in card
    assert "\nBe brief.\n" in card
    assert "| 1 | final | 2 | 1 | 1 | unknown | 1 | 0.00 |" in card


def test_a_card_of_nothing_is_one_too():
    """A run that a cap stopped before its first step has a card that says so."""
    card = render_card(folded(TrainingRun().begin()), FinalChoice(0, "last", None, None, "hard budget: usd"))
    assert b"steps: 0, epochs: 0" in card
    assert b"The learner said nothing at the end." in card
    assert b"None yet" in card


def test_texts_that_no_json_can_hold_do_not_harm_a_line():
    """Lone surrogates and line separators in what users' code made come out as JSON that everybody reads."""
    run = TrainingRun().begin()
    run.start_epoch("a")
    run.start_step("a")
    run.rollout("a")
    run.learn()
    run.commit()
    (record,) = folded(run).training.steps
    learner = msgspec.structs.replace(record.learner, summary="a \u2028 b \ud800")
    line = render_step(msgspec.structs.replace(record, learner=learner))
    assert line.count(b"\n") == 1
    assert json.loads(line)["evolver"]["summary"] == "a \u2028 b \ufffd"
