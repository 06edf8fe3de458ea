"""The built-in learner `reflect`: what it asks, what it keeps, what it leaves out of a comparison."""

import json

import pytest

from evrun.training.pairing import paired
from evrun.training.reflect import Reflect
from evrun.training.reflect_prompt import answered
from tests.training.learner_stand import Stand

BETTER = "<<<FILE ADAPTER.md>>>\nAnswer in upper case.\n<<<END>>>"


def likes(word):
    """A judge that likes adapters which have this word."""
    return lambda text, task: (1.0 if word in text else 0.0, f"{task} wants {word}")


def test_a_rewriting_that_does_better_is_kept(tmp_path):
    """The adapter has the new text, the report shows both scores, and the state tells of it."""
    stand = Stand(tmp_path, likes("upper"), lambda _: BETTER)
    result = stand.step(Reflect(), 1, ["a", "b"])
    assert (result.status, result.summary) == ("done", "kept: 0 → 1 on 2 tasks")
    assert stand.text == "Answer in upper case.\n"
    assert "| a | 0 | 1 |\n| b | 0 | 1 |" in stand.report
    assert json.loads((stand.state / "reflect.json").read_text())["kept"][0]["step"] == 1
    assert stand.trials == [("Answer in upper case.\n", "a"), ("Answer in upper case.\n", "b")]
    assert Reflect().finalize(stand.context()).startswith("1 of 1 rewritings did better")


def test_the_model_sees_the_instructions_the_tasks_and_the_feedback(tmp_path):
    """All that it needs for better ones; tasks with the lowest score come first."""
    stand = Stand(
        tmp_path, lambda _, task: ({"a": 0.5, "b": 0.25}[task], f"hint for {task}"), lambda _: BETTER
    )
    stand.step(Reflect(), 1, ["a", "b"])
    (messages,) = stand.asked
    told = messages[1]["content"]
    for text in ("Do the task.", "the prompt of a", "output of a", "Score: 0.5", "hint for b"):
        assert text in told
    assert told.index("## Task b") < told.index("## Task a")


def test_a_rewriting_that_does_no_better_is_not_kept_and_is_remembered(tmp_path):
    """The adapter stays byte for byte; the next question tells what was tried in vain."""
    stand = Stand(tmp_path, likes("lower"), lambda _: BETTER)
    before = stand.text
    assert stand.step(Reflect(), 1, ["a"]).summary == "not kept: 0 → 0 on 1 tasks"
    assert stand.text == before
    stand.step(Reflect(), 2, ["a"])
    assert "tried before" not in stand.asked[0][1]["content"]
    assert "Answer in upper case." in stand.asked[1][1]["content"].split("tried before")[1]


@pytest.mark.parametrize("broken", ["parent", "candidate"])
def test_an_error_on_one_side_of_a_pair_drops_the_pair(tmp_path, broken):
    """Task b would look like a gain (or a loss) if its error counted as 0; it counts for neither."""

    def judged(text, task):
        mine = "candidate" if "upper" in text else "parent"
        if task == "b" and mine == broken:
            return None, "the endpoint was gone"
        if task == "b":
            return 1.0, ""
        return 0.5, ""

    stand = Stand(tmp_path, judged, lambda _: BETTER)
    result = stand.step(Reflect(), 1, ["a", "b"])
    assert result.summary == "not kept: 0.5 → 0.5 on 1 tasks; 1 without a score on one side left out"
    assert stand.text == "Do the task.\n"
    assert "- left out: b" in stand.report


def test_a_gain_counts_beside_an_error(tmp_path):
    """What is left after a pair was dropped decides."""

    def judged(text, task):
        return (None, "gone") if task == "b" else likes("upper")(text, task)

    stand = Stand(tmp_path, judged, lambda _: BETTER)
    assert stand.step(Reflect(), 1, ["a", "b"]).summary.startswith("kept: 0 → 1 on 1 tasks; 1 without")


def test_nothing_is_asked_where_nothing_can_be_learned(tmp_path):
    """All tasks are perfect, or none has a score: no model call, no rollout, the adapter stays."""
    stand = Stand(tmp_path, lambda _, task: (1.0 if task == "a" else None, ""), lambda _: BETTER)
    assert "1.0 or more" in stand.step(Reflect(), 1, ["a"]).summary
    assert "no task has a score" in stand.step(Reflect(), 2, ["b"]).summary
    assert (stand.asked, stand.trials, stand.text) == ([], [], "Do the task.\n")


def test_a_rewriting_that_fails_the_check_is_asked_for_again(tmp_path):
    """The model is told what was wrong; with no tries left nothing is tried and nothing changes."""
    stand = Stand(tmp_path, likes("upper"), lambda _: BETTER)
    wrong = [{"path": "ADAPTER.md", "check": 4, "problem": "is too long"}]
    stand.issues = [wrong]
    assert stand.step(Reflect(), 1, ["a"]).summary.startswith("kept")
    assert "ADAPTER.md: is too long" in stand.asked[1][-1]["content"]
    stand.issues = [wrong, wrong]
    stand.judged = likes("other")
    assert stand.step(Reflect(), 2, ["a"]).summary == "not kept: it is what is there already"
    assert len(stand.trials) == 1


def test_with_again_the_parent_does_the_tasks_again(tmp_path):
    """For agents that vary: both sides are measured after the feedback was seen."""
    stand = Stand(tmp_path, likes("upper"), lambda _: BETTER)
    stand.params = {"again": True}
    stand.step(Reflect(), 1, ["a"])
    assert stand.trials == [("Do the task.\n", "a"), ("Answer in upper case.\n", "a")]


def test_a_wrong_parameter_is_refused_at_the_setup(tmp_path):
    """Before a step was paid for, with its name."""
    stand = Stand(tmp_path, likes("upper"), lambda _: BETTER)
    stand.params = {"tries": "many"}
    with pytest.raises(ValueError, match="tries"):
        Reflect().setup(stand.context())
    stand.params = {"files": ["SKILL.md"]}
    with pytest.raises(ValueError, match=r"SKILL\.md: no such file.*ADAPTER\.md"):
        Reflect().setup(stand.context())


@pytest.mark.parametrize(
    ("answer", "texts", "problem"),
    [
        ("<<<FILE A>>>\nnew\n<<<END>>>", {"A": "new\n"}, None),
        ("Sure!\n<<<FILE A>>>\nnew\n\nmore\n<<<END>>>\nBye", {"A": "new\n\nmore\n"}, None),
        ("new", {"A": "new\n"}, None),
        ("```markdown\nnew\n```", {"A": "new\n"}, None),
        ("<<<FILE A>>>\nold\n<<<END>>>", {}, "there already"),
        ("<<<FILE B>>>\nnew\n<<<END>>>", {}, "B is not one of the files"),
        ("<<<FILE A>>>\n\n<<<END>>>", {"A": ""}, "empty"),
        ("<<<FILE A>>>\nnew", {}, "no file was found"),
        ("", {"A": ""}, "empty"),
    ],
)
def test_files_are_taken_from_an_answer_or_it_is_said_what_is_wrong(answer, texts, problem):
    """The form asked for, prose around it, no form at all; never a file that is not to be changed."""
    found, problems = answered(answer, {"A": "old\n"})
    assert found == texts
    assert problems == [] if problem is None else problem in problems[0]


def test_an_answer_without_form_is_not_taken_where_there_are_several_files():
    """It could be any of them."""
    assert answered("new", {"A": "old\n", "B": "old\n"})[0] == {}


def test_pairs_are_of_tasks_with_two_scores():
    """A score on one side only is no pair, whichever side it is."""
    pairing = paired({"a": 0.0, "b": None, "c": 1.0, "d": 0.5}, {"a": 1.0, "b": 1.0, "c": None})
    assert pairing.pairs == [("a", 0.0, 1.0)]
    assert pairing.dropped == ["b", "c", "d"]
    assert (pairing.before, pairing.after, pairing.gain) == (0.0, 1.0, 1.0)
