"""An attempt of an earlier session goes on from its last recorded call, or it is given up with a reason."""

import pytest

from evrun.batch.decide import reason_to_supersede, superseded
from evrun.batch.settings import settings_digest
from tests.evrun.attempts import TOOLS, UNIT, Talk, brief, call
from tests.evrun.boxes import BOX


def talk(**values):
    """A new attempt."""
    return Talk(brief(**values))


def reason(talked, now=None, *, there=True):
    """Why an attempt cannot go on with this brief."""
    now = now or talked.brief
    digest = settings_digest(now.settings)
    return reason_to_supersede(talked.attempt, now, digest, BOX.safe_to_repeat, directory_there=there)


GOING_ON = {
    "new": talk(),
    "asked": talk().ask(),
    "answered": talk().say(finish="tool_calls", calls=[call()]),
    "a safe tool interrupted": talk().say(finish="tool_calls", calls=[call("read_file")]).start_tool(),
    "worked": talk().work(),
    "asked again": talk().work().ask(),
    "stumbled": talk().stumble().ask(),
}


@pytest.mark.parametrize("talked", GOING_ON.values(), ids=GOING_ON)
def test_an_attempt_goes_on_wherever_it_was_interrupted(talked):
    """In any state that can simply be stepped on from."""
    assert reason(talked) is None


def test_where_and_how_patiently_it_is_worked_on_is_no_reason_to_begin_again():
    """Another endpoint address, concurrency, retries or rule."""
    now = brief(base_url="http://other:1/v1", concurrency=1, retries=9, require_reasoning=False)
    assert reason(talk().work().ask(), now) is None


SETTINGS = [
    {"model": "other"},
    {"temperature": 0.5},
    {"max_turns": 3},
    {"system_prompt": "s"},
    {"toolsets": []},
]


@pytest.mark.parametrize("values", SETTINGS)
def test_changed_settings_begin_an_attempt_again(values):
    """Each trajectory was made by one set of settings."""
    assert reason(talk().work(), brief(**values)) == "settings changed"


@pytest.mark.parametrize("name", ["terminal", "patch", "nosuch"])
def test_an_interrupted_tool_that_is_not_safe_to_repeat_begins_an_attempt_again(name):
    """What it did is unknown."""
    interrupted = talk().say(finish="tool_calls", calls=[call(name)]).start_tool()
    assert reason(interrupted) == f"tool {name} was interrupted and is not safe to repeat"
    assert reason(interrupted.end_tool()) is None


def test_a_lost_directory_begins_an_attempt_again_only_if_tools_had_worked_there():
    """Its files were a part of the conversation."""
    assert reason(talk().work(), there=False) == "its working directory is gone"
    assert reason(talk().stumble(), there=False) is None
    assert reason(talk().ask(), there=False) is None


def test_a_directory_that_no_tool_has_finished_in_is_not_missed():
    """It is made after the first tool call is on record; killed in between, nothing answered is repeated."""
    talked = talk().say(finish="tool_calls", calls=[call()]).start_tool()
    assert reason(talked, there=False) is None
    assert reason(talked.end_tool(), there=False) == "its working directory is gone"


def test_a_request_that_would_differ_begins_an_attempt_again():
    """Another row, another tool, another dialect of the endpoint: the recorded digest tells."""
    differs = "the rebuilt request differs from the recorded one"
    assert reason(talk().ask(request=b"other")) == differs
    assert reason(talk().work(), brief(row={"prompt": "q"})) == differs
    assert reason(talk().work(), brief(tools=TOOLS[:1])) == differs
    capped = talk(max_tokens=5).ask()
    assert reason(capped, brief(max_tokens=5, base_url="https://api.openai.com/v1")) == differs


def test_an_attempt_that_is_given_up_says_why():
    """With its number, so that its money is found."""
    event = superseded(talk().attempt, "because")
    assert (event.unit, event.attempt, event.reason) == (UNIT, 1, "because")
