"""An attempt at a batch line: one request with the line's own fields, whose answer is the end as it comes."""

import json

import pytest

from evrun.batch.briefs import Briefs
from evrun.batch.decide import Finish, Send
from evrun.batch.outlook import outlook_of
from evrun.batch.quality import rules_of
from evrun.batch.settings import Settings
from tests.evrun.attempts import TOOLS, UNIT, Talk, brief, call

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
LINE = {
    "custom_id": "a",
    "method": "POST",
    "url": "/v1/chat/completions",
    "body": {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
        "temperature": 0.5,
        "tools": [TOOL],
        "tool_choice": "required",
        "stream": False,
    },
}


def talk(**values):
    """An attempt at the line."""
    return Talk(brief(LINE, [], **values))


def test_what_is_sent_is_the_line_with_what_it_leaves_open_from_the_run():
    """Its temperature and its tools, the run's cap and seed; never a stream that nobody reads."""
    step = talk(temperature=0.0, max_tokens=9, seed=3, extra_body={"top_k": 5, "temperature": 2}).next()
    assert isinstance(step, Send)
    body = {name: value for name, value in LINE["body"].items() if name != "stream"}
    assert json.loads(step.body) == {**body, "max_tokens": 9, "seed": 3, "top_k": 5}


def test_the_cap_of_a_line_is_the_only_one_that_is_sent():
    """In whichever spelling: both would be refused, or the larger one paid."""
    line = {**LINE, "body": {**LINE["body"], "max_completion_tokens": 7}}
    sent = json.loads(Talk(brief(line, [], max_tokens=9)).next().body)
    assert (sent["max_completion_tokens"], "max_tokens" in sent) == (7, False)


def test_a_changed_model_of_a_resume_is_asked():
    """The run's model is what is priced and recorded, so it is what goes on the wire."""
    assert json.loads(talk(model="other").next().body)["model"] == "other"


@pytest.mark.parametrize("reasoning", [None, "thought"])
@pytest.mark.parametrize("calls", [(), (call("f", "{}"),), (call("nosuch", "x"), call("f"))])
def test_any_answer_is_the_end_and_is_kept(reasoning, calls):
    """No tool runs, nothing is asked again, and no rule misses a reasoning that was not asked for."""
    finish = "tool_calls" if calls else "stop"
    step = talk().say(finish=finish, calls=calls, reasoning=reasoning, text="" if calls else "four").next()
    assert isinstance(step, Finish)
    assert (type(step.event).__name__, step.event.finish_reason) == ("TrajectoryCompleted", finish)
    assert step.event.completed


def test_an_answer_that_was_cut_is_partial_and_one_that_is_none_fails():
    """As for any prompt."""
    cut = talk().say(finish="length").next().event
    assert (cut.completed, cut.partial) == (False, True)
    assert type(talk().say(text="", finish="stop").next().event).__name__ == "PromptFailed"


def test_rules_about_reasoning_and_tools_are_not_for_batch_lines():
    """A score is."""
    rules = rules_of(Settings(dataset="d", model="m", min_score=0.5), LINE)
    assert rules == (False, False, 0.5)
    assert rules_of(Settings(dataset="d", model="m"), {"prompt": "p"}) == (True, True, None)


@pytest.mark.parametrize("toolsets", [None, ["file"]])
def test_no_toolset_is_given_to_a_batch_line(toolsets):
    """A prompt beside it gets them."""
    briefs = Briefs(Settings(dataset="d", model="m", toolsets=toolsets, distribution="terminal_only"))
    assert briefs.drawn(UNIT, LINE, {"file": TOOLS}) == []
    assert briefs.drawn(UNIT, {"prompt": "p"}, {"file": TOOLS}) == ["file"]


def test_a_batch_line_is_estimated_as_one_call():
    """Whatever --max-turns says."""
    started = talk(max_turns=10, retries=1)
    outlook = outlook_of(started.attempt, started.brief)
    assert (outlook.turns, outlook.tries, outlook.certain) == (1, 2, True)
