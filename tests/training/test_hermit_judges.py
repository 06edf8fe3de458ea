"""Judges that were written for Hermit, whose second argument holds the output in an attribute."""

from pathlib import Path
from typing import Any

import pytest

from evrun.effects.judge_child import judge, load

TASK = {"id": "a", "prompt": "harbour"}


def said(tmp_path: Path, body: str, output: Any) -> dict[str, Any]:
    """What a judge with this body says of an output."""
    path = tmp_path / "judge.py"
    path.write_text(f"def score(task, output):\n    {body}\n")
    function, problem = load(path, "score")
    assert function is not None, problem
    return judge(function, path, [TASK, output, {}])


@pytest.mark.parametrize("output", ["HARBOUR", {"text": "HARBOUR"}, ["HARBOUR"], 7, None, True])
def test_a_judge_of_hermit_finds_the_output_in_its_attribute(tmp_path, output):
    """`output.output` is the output, whatever it is; nothing but the import line has to change."""
    found = said(tmp_path, "return {'score': 1.0, 'feedback': repr(output.output)}", output)
    assert found == {"score": 1.0, "feedback": repr(output)}


def test_a_judge_of_ours_is_given_the_output_itself(tmp_path):
    """The attribute is there for nobody who does not ask for it."""
    assert said(tmp_path, "return float(output == 'HARBOUR')", "HARBOUR")["score"] == 1.0
    assert said(tmp_path, "return float(type(output) is str)", "HARBOUR")["score"] == 1.0


def test_what_hermit_gives_besides_the_output_is_refused_by_name(tmp_path):
    """Messages, costs and logs are not handed to a judge: the error says so, and no score is made up."""
    found = said(tmp_path, "return float(output.output == 'x' and bool(output.messages))", "x")
    assert "without 'messages'" in found["error"]


def test_an_attribute_error_of_the_judge_itself_is_its_error(tmp_path):
    """Only the output that lacks `output` makes it be asked again."""
    found = said(tmp_path, "return [].output", "x")
    assert "'list' object has no attribute 'output'" in found["error"]


def test_whatever_else_a_judge_says_is_extra(tmp_path):
    """Hermit keeps the names beside score and feedback; so do we."""
    found = said(tmp_path, "return {'score': 0.5, 'feedback': 'half', 'wanted': 'HARBOUR'}", "x")
    assert found == {"score": 0.5, "feedback": "half", "extra": {"wanted": "HARBOUR"}}
    found = said(tmp_path, "return {'score': 0.5, 'extra': {'a': 1}, 'b': 2}", "x")
    assert found["extra"] == {"a": 1}
