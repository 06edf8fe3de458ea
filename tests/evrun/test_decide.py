"""What an attempt does next and how it ends: from its recorded state alone, on any day, in any session."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import (
    BudgetSpent,
    Counts,
    ModelAnswered,
    PromptFailed,
    SpendInDoubt,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    Usage,
)
from evrun.batch.decide import (
    Finish,
    RunTools,
    Send,
    conclusion,
    next_step,
)
from tests.evrun.attempts import TOOLS, UNIT, Talk, body, brief, call


def talk(**values):
    """A new attempt."""
    return Talk(brief(**values))


def sent(step):
    """The messages of a request."""
    assert isinstance(step, Send)
    return json.loads(step.body)["messages"]


def ended(step, kind):
    """The event that ends an attempt, of this kind."""
    assert isinstance(step, Finish)
    assert isinstance(step.event, kind)
    assert (step.event.unit, step.event.attempt) == (UNIT, 1)
    return step.event


def test_a_new_attempt_asks_its_prompt():
    """With the tools it may use."""
    step = talk().next()
    assert sent(step) == [{"role": "user", "content": "p"}]
    assert len(json.loads(step.body)["tools"]) == len(TOOLS)


def test_a_request_without_its_answer_is_sent_again_as_it_was():
    """Byte by byte: so the endpoint knows the repeat by its key."""
    new = talk()
    first = new.next()
    assert new.ask().next() == first
    later = talk().work()
    second = later.next()
    assert later.ask().ask().next() == second


def test_an_answer_of_text_ends_the_attempt_complete():
    """Kept, with its finish reason and counts."""
    event = ended(talk().say().next(), TrajectoryCompleted)
    assert (event.completed, event.partial, event.finish_reason) == (True, False, "stop")
    assert event.counts == Counts(1, 1, 0, None, {})


def test_an_answer_cut_by_the_token_limit_is_partial():
    """The row says so; it is kept."""
    event = ended(talk().say(finish="length").next(), TrajectoryCompleted)
    assert (event.completed, event.partial, event.finish_reason) == (False, True, "length")


def test_tool_calls_are_run_that_have_no_result_yet():
    """All of a turn at first, then only those that are missing."""
    asked = talk().say(finish="tool_calls", calls=[call(identity=n) for n in "abc"])
    assert asked.next() == RunTools(1, [0, 1, 2])
    assert asked.start_tool(1).end_tool(1).start_tool(0).next() == RunTools(1, [0, 2])


def test_results_go_back_paired_by_id_in_the_order_of_the_calls():
    """Whatever finished first."""
    asked = talk().say(finish="tool_calls", calls=[call(identity="a"), call(identity="b")])
    asked.end_tool(1, b"second").end_tool(0, b"first")
    asked.start_tool(0)
    messages = sent(asked.next())
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in messages[2:]] == [("a", "first"), ("b", "second")]


def test_the_cap_of_turns_ends_an_attempt_as_partial_with_its_last_results():
    """After the tools of the last allowed answer have run, and not one call later."""
    working = talk(max_turns=2).work()
    assert isinstance(working.next(), Send)
    event = ended(working.work().next(), TrajectoryCompleted)
    assert (event.completed, event.partial, event.finish_reason) == (False, True, "max_turns")
    assert event.counts.tools == {"read_file": (2, 2, 0)}


def test_a_last_answer_of_text_at_the_cap_is_complete():
    """The cap is on calls, not on answers."""
    event = ended(talk(max_turns=2).work().say().next(), TrajectoryCompleted)
    assert event.completed


def test_a_call_that_failed_uses_up_no_turn():
    """Only answers count: three sends of which one was answered leave a turn of two."""
    assert isinstance(talk(max_turns=2).ask().ask().work().next(), Send)


def test_three_turns_in_a_row_of_calls_that_cannot_run_end_an_attempt():
    """As partial; two, or one good one between, do not."""
    assert isinstance(talk().stumble().stumble().next(), Send)
    assert isinstance(talk().stumble().stumble().work().stumble().next(), Send)
    lax = talk(unknown_tools="keep")
    event = ended(lax.stumble().stumble().stumble().next(), TrajectoryCompleted)
    assert (event.partial, event.finish_reason) == (True, "invalid_tool_calls")
    assert event.counts.tools["nosuch"][0] == 3


def test_a_call_of_a_tool_that_was_not_offered_is_a_reason_to_discard_though_the_model_recovered():
    """By the rule of that name; asked to keep such trajectories, evrun keeps them."""
    for kept, kind in (
        (None, TrajectoryDiscarded),
        ("discard", TrajectoryDiscarded),
        ("keep", TrajectoryCompleted),
    ):
        recovered = talk(unknown_tools=kept).stumble().work().say()
        event = ended(recovered.next(), kind)
        assert getattr(event, "reason", None) == (None if kept == "keep" else "unknown_tool")
        assert event.completed


def test_one_good_call_among_bad_ones_makes_a_good_turn():
    """Three mixed turns go on."""
    mixed = talk()
    for _ in range(3):
        mixed.say(finish="tool_calls", calls=[call("nosuch", identity="a"), call(identity="b")])
        mixed.end_tool(0).start_tool(1).end_tool(1)
    assert isinstance(mixed.next(), Send)


UNUSABLE = {
    "an unknown finish reason": ({"finish": "banana"}, "unknown finish_reason: banana", "unusable_answer"),
    "no finish reason": ({"finish": None}, "no finish_reason", "unusable_answer"),
    "no text": ({"text": ""}, "neither text nor tool calls", "unusable_answer"),
    "only blanks": ({"text": " \n"}, "neither text nor tool calls", "unusable_answer"),
    "cut before a word": ({"text": "", "finish": "length"}, "the token limit was reached", "unusable_answer"),
    "filtered": ({"text": "a", "finish": "content_filter"}, "content filter", "content_policy"),
    "an error beside it": ({"error": {"message": "boom"}}, "boom", "unusable_answer"),
}


@pytest.mark.parametrize(("answer", "message", "error_class"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_answer_without_positive_evidence_is_a_failure_with_the_reason(answer, message, error_class):
    """Never a success; what the provider will never answer is not retryable."""
    event = ended(talk().say(**answer).next(), PromptFailed)
    assert message in event.message
    assert (event.error_class, event.retryable) == (error_class, error_class != "content_policy")


def test_an_answer_without_reasoning_is_set_aside_only_where_the_rule_asks_for_it():
    """Marked, never deleted; the counts are the same."""
    strict = ended(talk().say(reasoning=None).next(), TrajectoryDiscarded)
    lax = ended(talk(require_reasoning=False).say(reasoning=None).next(), TrajectoryCompleted)
    assert (strict.reason, strict.counts) == ("no_reasoning", lax.counts)


def test_one_turn_of_reasoning_is_enough():
    """The rule looks at the whole trajectory."""
    reasoned = talk().work().say(reasoning=None)
    assert ended(reasoned.next(), TrajectoryCompleted).counts.turns_with_reasoning == 1


texts = st.sampled_from(["", " ", "four", "<think>hm</think>five", "<think>only"]) | st.text(max_size=5)
tool_calls = st.lists(
    st.builds(
        call,
        name=st.sampled_from(["read_file", "nosuch", ""]),
        arguments=st.sampled_from(['{"path": "f"}', "{", ""]),
        identity=st.sampled_from(["a", "b", ""]),
    ),
    max_size=3,
)
bodies = st.builds(
    body,
    text=texts,
    finish=st.sampled_from(["stop", "length", "tool_calls", "content_filter", "banana", None]),
    reasoning=st.sampled_from([None, "", "thought"]),
    calls=tool_calls,
) | st.sampled_from([b"", b"{}", b"<html>", b'{"choices": []}', b'{"choices": [{"message": {}}]}'])
steps_before = st.lists(st.sampled_from(["work", "stumble"]), max_size=3)


@given(steps_before, bodies, st.booleans(), st.integers(1, 4), st.booleans())
def test_a_conclusion_is_what_the_ordinary_step_says_once_the_answer_is_recorded(
    before, answer, strict, max_turns, priced
):
    """For any answer after any turns; and asking for it changes nothing."""
    talked = talk(max_turns=max_turns, require_reasoning=strict)
    for kind in before:
        getattr(talked, kind)()
    reserved = talked.reserve(b"request")
    usage = Usage(5, None, 3, 1)
    settled = (
        BudgetSpent(reserved.call, usage, 7, "p") if priced else SpendInDoubt(reserved.call, "no usage", 1, 1)
    )
    events = (settled, ModelAnswered(reserved.call, answer, 1, None))
    talked.attempt.answers()  # what an attempt remembers of its answers is no change
    untouched = copy.deepcopy(talked.attempt)
    concluded = conclusion(talked.attempt, talked.brief, reserved, events)
    assert talked.attempt == untouched
    recorded = talked.attempt
    recorded.reserved(reserved)
    if priced:
        recorded.spent(settled)
    else:
        recorded.went_in_doubt(settled)
    recorded.answered(events[1])
    step = next_step(recorded, talked.brief)
    assert concluded == (step.events if isinstance(step, Finish) else ())


@given(steps_before, bodies)
def test_a_step_is_a_function_of_the_state(before, answer):
    """The same state gives the same step, and stepping changes nothing."""
    talked = talk()
    for kind in before:
        getattr(talked, kind)()
    talked.ask()
    talked.attempt.answered(ModelAnswered(talked.attempt.turns[-1].call, answer, 1, None))
    again = copy.deepcopy(talked.attempt)
    assert next_step(talked.attempt, talked.brief) == next_step(again, talked.brief)
    assert talked.attempt == again
