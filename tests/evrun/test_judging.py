"""The judge as a pure decision: what it is asked, how its answers are read, and what follows from them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import (
    BudgetReserved,
    ModelAnswered,
    PromptFailed,
    TrajectoryCompleted,
    TrajectoryDiscarded,
)
from evrun.batch.decide import Finish, Judge, Score, scored
from evrun.batch.judging import JUDGE_TRIES, as_score, judge_digest, read_score
from evrun.batch.judging import Score as Said
from evrun.batch.outlook import judge_outlook, outlook_of
from evrun.ledger import request_digest
from projections import read_answer
from tests.evrun.attempts import UNIT, Talk, body, brief, call

RUBRIC = "1 is right, 0 is wrong"


def talk(**values):
    """An attempt whose trajectory a model will judge."""
    return Talk(brief(**{"judge": "llm:r.md", "judge_text": RUBRIC, **values}))


def judge_says(talked, text, **answer):
    """The judge was asked what is due, and answered."""
    step = talked.next()
    assert isinstance(step, Judge)
    name = f"s1.j{len(talked.attempt.judgings)}"
    digest = request_digest(step.body)
    talked.attempt.reserved(BudgetReserved(name, UNIT, 1, "judge", "m", "h", digest, None, 1, None, "a test"))
    talked.attempt.answered(ModelAnswered(name, body(text=text, **answer), 1, None))
    return talked


def test_an_ended_conversation_is_judged_before_its_end_is_recorded():
    """The request holds rubric and conversation, and nothing that shaped the assistant's answers."""
    talked = talk(tool_choice="auto", response_format={"type": "json_object"}, max_tokens=50).work().say()
    step = talked.next()
    assert isinstance(step, Judge)
    asked = json.loads(step.body)
    assert asked.keys() == {"model", "messages", "max_tokens"}
    said = asked["messages"][-1]["content"]
    assert RUBRIC in said
    shown = json.loads(said.partition("Conversation:\n")[2].partition("\n\n")[0])
    assert [message["role"] for message in shown] == ["user", "assistant", "tool", "assistant"]
    assert shown[1]["tool_calls"] == [{"name": "read_file", "arguments": '{"path": "f"}'}]
    assert shown[-1]["reasoning"] == "thought"


def test_a_score_is_recorded_with_the_end_and_may_set_aside():
    """Judged and boundary in one commit; below the least score it is discarded with that reason."""
    talked = judge_says(talk().say(), '{"score": 0.25, "feedback": "so so"}')
    step = talked.next()
    assert isinstance(step, Finish)
    judged, ended = step.events
    assert (judged.score, judged.feedback, judged.call) == (0.25, "so so", "s1.j0")
    assert judged.judge == judge_digest(talked.brief.settings)
    assert isinstance(ended, TrajectoryCompleted)
    assert ended.counts.api_calls == talked.attempt.api_calls == 1
    low = judge_says(talk(min_score=0.5).say(), '{"score": 0.25}').next()
    assert isinstance(low.event, TrajectoryDiscarded)
    assert (low.event.reason, low.judged.score) == ("low_score", 0.25)


def test_what_another_rule_sets_aside_is_not_judged():
    """No call is paid for what nobody keeps."""
    step = talk().say(reasoning=None).next()
    assert isinstance(step, Finish)
    assert (step.event.reason, step.judged) == ("no_reasoning", None)
    assert isinstance(talk(require_reasoning=False).say(reasoning=None).next(), Judge)


def test_an_answer_without_a_score_is_asked_for_again_and_then_fails_the_attempt():
    """Each request differs, so that no provider repeats itself; the last answer is in the message."""
    talked, bodies = talk().say(), []
    for _ in range(JUDGE_TRIES):
        bodies.append(talked.next().body)
        judge_says(talked, "I like it")
    assert len(set(bodies)) == JUDGE_TRIES
    step = talked.next()
    assert isinstance(step.event, PromptFailed)
    assert (step.event.error_class, step.event.retryable) == ("judge_failed", True)
    assert "'I like it'" in step.event.message
    assert judge_says(judge_says(talk().say(), "hm"), '{"score": 1}').next().judged.score == 1.0


def test_answers_of_another_judge_do_not_count():
    """A changed rubric is asked from the beginning; what the old one answered stays paid and unused."""
    talked = judge_says(talk().say(), "hm")
    other = brief(judge="llm:r.md", judge_text="another rubric")
    first = Talk(other).say().next().body
    talked.brief = other
    assert talked.next().body == first


def test_a_function_is_asked_through_a_step_of_its_own():
    """What it says ends the attempt like a model's score."""
    talked = talk(judge="j.py:score", judge_text="def score(): ...", min_score=1.0).say()
    step = talked.next()
    assert isinstance(step, Score)
    finish = scored(talked.attempt, talked.brief, step.ended, Said(0.5, None), None)
    assert (finish.event.reason, finish.judged.score, finish.judged.call) == ("low_score", 0.5, None)


def test_the_outlook_counts_the_judge_while_it_may_still_be_asked():
    """Up to three answers, on the conversation as long as it may get; none where a function judges."""
    talked = talk(max_tokens=50, max_turns=4)
    own = outlook_of(talked.attempt, talked.brief)
    ahead = judge_outlook(talked.attempt, talked.brief, own)
    assert (ahead.turns, ahead.tries, ahead.certain) == (JUDGE_TRIES, own.tries, False)
    assert ahead.pending > 2 * own.turns * 50
    judge_says(talked.say(), "hm")
    own = outlook_of(talked.attempt, talked.brief)
    assert own.turns == 0
    assert judge_outlook(talked.attempt, talked.brief, own).turns == JUDGE_TRIES - 1
    judge_says(talked, '{"score": 1}')
    assert judge_outlook(talked.attempt, talked.brief, own) is None
    bare = talk(judge="j.py:f")
    assert judge_outlook(bare.attempt, bare.brief, outlook_of(bare.attempt, bare.brief)) is None


READ = [
    ('{"score": 7}', (7.0, None)),
    ('{"score": -0.5, "feedback": "bad"}', (-0.5, "bad")),
    ('  {"score": "8", "feedback": " "}\n', (8.0, None)),
    ('Here:\n```json\n{"score": 3, "feedback": "ok"}\n```\n', (3.0, "ok")),
    ('```\n{"score": 1}\n```\nno, rather\n```\n{"score": 2}\n```', (2.0, None)),
    ("It is fine.\nScore: 4", (4.0, "It is fine.")),
    ("**Score:** 4.5", (4.5, None)),
    ("score = 4/10", (4.0, None)),
    ("Score: 4 because", None),
    ("score: 4\nOr not.", None),
    ('{"score": true}', None),
    ('{"score": null}', None),
    ('{"score": NaN}', None),
    ('{"score": 1e999}', None),
    ('{"rating": 4}', None),
    ("[4]", None),
    ("4", None),
    ("scores: 1 2", None),
]


@pytest.mark.parametrize(("text", "found"), READ)
def test_scores_are_read_where_they_are_and_nowhere_else(text, found):
    """A JSON object, bare or fenced, the last one first; or a last line that says so."""
    said = read_score(read_answer(body(text=text)))
    assert (said == found) if found is not None else isinstance(said, str)


@given(st.text() | st.from_regex(r"\s*\{.*\}", fullmatch=True))
def test_whatever_a_judge_says_is_a_score_or_a_reason_why_not(text):
    """Nothing raises an error."""
    said = read_score(read_answer(body(text=text)))
    assert isinstance(said, str) or as_score(said.value) == said.value


def test_an_answer_that_holds_nothing_is_no_score():
    """Also where the judge calls a tool, or its answer was filtered."""
    assert isinstance(read_score(read_answer(body(text="", calls=[call()], finish="tool_calls"))), str)
    assert isinstance(read_score(read_answer(body(finish="content_filter"))), str)
    assert isinstance(read_score(read_answer(b"<html>")), str)
