"""What an own agent asked: told as what differs, given back whole; and the trajectory that is read off it."""

import json
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import BudgetReserved, ModelAnswered, ModelAsked, PromptStarted, SpendInDoubt
from projections import count_attempt
from projections.agent_messages import agent_messages, agent_tools
from projections.conversation import Attempt
from projections.exchanges import tell, whole_request

UNIT = "prompt:" + "0" * 32 + "#1.1"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
REQUESTS = st.dictionaries(
    st.sampled_from(["model", "messages", "input", "tools", "temperature", "n"]),
    JSON | st.lists(JSON),
    max_size=5,
)


def asked(told, call="s1.c1", path="chat/completions"):
    """The event of what was told."""
    return ModelAsked(call, UNIT, 1, path, *told)


def attempt_of(*exchanges, path="chat/completions"):
    """An attempt that asked these requests, each answered with a body (null: not at all)."""
    attempt = Attempt.start(PromptStarted(UNIT, 1, [], b""), 0, 1)
    earlier = {}
    for number, (request, body) in enumerate(exchanges, 1):
        call = f"s1.c{number}"
        attempt.asked(asked(tell(request, earlier), call, path))
        earlier[call] = request
        digest = sha256(json.dumps(request).encode()).digest()
        attempt.reserved(BudgetReserved(call, UNIT, 1, "rollout", "m", "h", digest, None, 1, None, ""))
        if body is not None:
            attempt.answered(ModelAnswered(call, json.dumps(body).encode(), 1, None))
    return attempt


def answer(text="", reasoning=None, calls=()):
    """The body of an answer."""
    message = {"role": "assistant", "content": text, "reasoning": reasoning, "tool_calls": list(calls)}
    return {"choices": [{"message": message, "finish_reason": "tool_calls" if calls else "stop"}]}


def call_of(identity, name="bash", arguments='{"x": 1}'):
    """A tool call."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


@given(st.lists(REQUESTS, min_size=1, max_size=6))
def test_every_request_comes_back_exactly(requests):
    """Whatever follows whatever: the same JSON, with 1, 1.0 and true told apart."""
    told, whole = {}, {}
    for number, request in enumerate(requests):
        event = asked(tell(request, told), f"c{number}")
        told[event.call] = request
        whole[event.call] = whole_request(event, whole)
        assert json.dumps(whole[event.call], sort_keys=True) == json.dumps(request, sort_keys=True)


def test_a_growing_chat_takes_what_it_grows_by():
    """The hundredth request of a chat takes as much as the tenth, though it is ten times as long."""
    earlier, messages, sizes = {}, [{"role": "system", "content": "s" * 5000}], []
    for number in range(100):
        messages = [*messages, {"role": "user", "content": f"turn {number:03d}"}]
        request = {"model": "m", "messages": messages, "tools": [{"name": "t" * 3000}]}
        told = tell(request, earlier)
        earlier[f"c{number:03d}"] = request
        sizes.append(len(told.request))
    assert sizes[0] > 8000
    assert set(sizes[1:]) == {len('{"messages":[{"role":"user","content":"turn 001"}]}')}


def test_two_chats_at_once_take_no_more_than_two_chats():
    """Each request is told against the newest of its own chat, not of the other one."""
    earlier, sizes = {}, []
    chats = [[{"role": "user", "content": name * 500}] for name in "ab"]
    for number in range(20):
        chat = chats[number % 2]
        chat.append({"role": "user", "content": f"{number:03d}"})
        told = tell({"messages": list(chat)}, earlier)
        earlier[f"c{number}"] = {"messages": list(chat)}
        sizes.append(len(told.request))
    assert max(sizes[2:]) < 60


def test_the_trajectory_is_the_last_answered_request_and_its_answer():
    """Reasoning comes back from the answers, tools are paired by id, an unanswered request is not in it."""
    opening = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "list"}]
    call = call_of("c1")
    result = {"role": "tool", "tool_call_id": "c1", "content": '{"error": "no"}'}
    grown = [*opening, {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    tools = [{"type": "function", "function": {"name": "bash", "description": "d", "parameters": {"a": 1}}}]
    attempt = attempt_of(
        ({"messages": opening, "tools": tools}, answer("", "I look", [call])),
        ({"messages": grown, "tools": tools}, answer("done", "I know")),
        ({"messages": [*grown, {"role": "user", "content": "more"}], "tools": tools}, None),
    )
    said = [(m.role, m.content, m.reasoning) for m in agent_messages(attempt)]
    assert said == [
        ("system", "be brief", None),
        ("user", "list", None),
        ("assistant", "", "I look"),
        ("tool", '{"error": "no"}', None),
        ("assistant", "done", "I know"),
    ]
    assert agent_tools(attempt) == [{"name": "bash", "description": "d", "parameters": {"a": 1}}]
    counts = count_attempt(attempt)
    assert (counts.api_calls, counts.turns_with_reasoning, counts.tools) == (2, 2, {"bash": (1, 0, 1)})


def test_a_responses_conversation_reads_the_same():
    """Instructions, input items, calls and outputs; one may go on by an id."""
    first = {
        "id": "r1", "object": "response", "status": "completed",
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look"}]},
            {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
        ],
    }  # fmt: skip
    output = [{"type": "message", "content": [{"type": "output_text", "text": "done"}]}]
    second = {"id": "r2", "object": "response", "status": "completed", "output": output}
    result = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    attempt = attempt_of(
        ({"instructions": "be brief", "input": "list"}, first),
        ({"instructions": "be brief", "input": [result], "previous_response_id": "r1"}, second),
        path="responses",
    )
    assert [(m.role, m.content, m.reasoning) for m in agent_messages(attempt)] == [
        ("system", "be brief", None),
        ("user", "list", None),
        ("assistant", "", "I look"),
        ("tool", "ok", None),
        ("assistant", "done", None),
    ]
    assert count_attempt(attempt).tools == {"bash": (1, 1, 0)}


def test_embeddings_are_in_no_conversation():
    """They are answered and counted as calls, and say nothing."""
    body = {
        "object": "list",
        "data": [{"embedding": [0.1]}],
        "usage": {"prompt_tokens": 2, "total_tokens": 2},
    }
    attempt = attempt_of(({"input": ["a"]}, body), path="embeddings")
    assert (agent_messages(attempt), count_attempt(attempt).api_calls) == ([], 1)


def test_a_doubt_is_about_its_own_exchange():
    """Of two requests at once the one whose outcome is unknown is marked."""
    attempt = attempt_of(({"messages": []}, None), ({"messages": [1]}, None))
    attempt.went_in_doubt(SpendInDoubt("s1.c1", "", 1, 1))
    assert [one.in_doubt for one in attempt.own.made] == [True, False]
