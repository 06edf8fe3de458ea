"""The official client, as programs use it, against the recording endpoint."""

import asyncio

import openai
import pytest
from pydantic import BaseModel

from evrun.agents.endpoint import Reply

from .recording import MODEL, run

PROMPT = [{"role": "user", "content": "what is two and two"}]
SAID = "Answer to what is two and two"
THOUGHT = "I thought about what is two and two"
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": WEATHER}]
CALLS = [
    {"name": "weather", "arguments": {"place": "Bern"}, "id": "call_1"},
    {"name": "weather", "arguments": {"place": "Zürich, 😀"}, "id": "call_2"},
]
CALLING = [{"match": {"turn": 1}, "then": {"tool_calls": CALLS}}]


def clients(open_endpoint):
    """The two clients as a program makes them, with nothing but an address and a key."""
    told = {"base_url": open_endpoint.endpoint.base_url, "api_key": open_endpoint.token, "max_retries": 2}
    return openai.OpenAI(**told), openai.AsyncOpenAI(**told)


def with_client(body, handler=None, *, rules=None):
    """Run `body(client)` with the synchronous client, in a thread beside the endpoint's loop."""

    async def inside(open_endpoint):
        if rules is not None:
            open_endpoint.answers.script = type(open_endpoint.answers.script)(rules)
        client, _ = clients(open_endpoint)
        with client:
            got = await asyncio.to_thread(body, client)
        return got, getattr(open_endpoint.answers, "bodies", None)

    return run(inside, handler)


def test_a_completion():
    """Text, reasoning, finish reason and usage."""
    whole, asked = with_client(lambda client: client.chat.completions.create(model=MODEL, messages=PROMPT))
    assert whole.choices[0].message.content == SAID
    assert whole.choices[0].message.reasoning_content == THOUGHT
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens > 0
    assert asked == [{"model": MODEL, "messages": PROMPT}]


@pytest.mark.parametrize("usage", [True, False])
def test_a_streamed_completion(usage):
    """The chunks add up to the same; usage comes where it was asked for; the body asked is the same."""
    options = {"stream_options": {"include_usage": True}} if usage else {}

    def body(client):
        stream = client.chat.completions.create(model=MODEL, messages=PROMPT, stream=True, **options)
        return list(stream)

    chunks, asked = with_client(body)
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == SAID
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == THOUGHT
    assert sum(bool(delta.content) for delta in deltas) > 1
    assert deltas[0].role == "assistant"
    assert bool(chunks[-1].usage) == usage
    assert asked == [{"model": MODEL, "messages": PROMPT}]


def test_the_stream_helper_of_chat_and_its_final_completion():
    """Its events, with tools, and what it adds up to."""

    def body(client):
        with client.chat.completions.stream(model=MODEL, messages=PROMPT, tools=TOOLS) as stream:
            events = [event.type for event in stream]
            return events, stream.get_final_completion()

    (events, final), _ = with_client(body, rules=CALLING)
    assert events.count("tool_calls.function.arguments.done") == 2
    called = [(call.id, call.function.name, call.function.arguments) for call in calls_of(final)]
    assert called == [
        ("call_1", "weather", '{"place":"Bern"}'),
        ("call_2", "weather", '{"place":"Zürich, 😀"}'),
    ]
    (events, final), _ = with_client(body)
    assert events.count("content.delta") > 1
    assert events.count("content.done") == 1
    assert final.choices[0].message.content == SAID


def calls_of(completion):
    """The tool calls of its first choice."""
    return completion.choices[0].message.tool_calls


def test_a_conversation_with_tools():
    """The calls are answered and the model goes on: whole and streamed, the requests are the same."""

    def body(client):
        messages = list(PROMPT)
        first = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        messages.append(first.choices[0].message.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "mild"} for call in calls_of(first)]
        return client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)

    last, asked = with_client(body, rules=CALLING)
    assert last.choices[0].message.content == SAID
    assert [message["role"] for message in asked[1]["messages"]] == ["user", "assistant", "tool", "tool"]


class Answer(BaseModel):
    """What a program wants its answer parsed into."""

    total: int


def test_a_parsed_answer_whole_and_streamed():
    """The client's own structured outputs."""

    def body(client):
        whole = client.chat.completions.parse(model=MODEL, messages=PROMPT, response_format=Answer)
        with client.chat.completions.stream(model=MODEL, messages=PROMPT, response_format=Answer) as stream:
            final = stream.get_final_completion()
        return [one.choices[0].message.parsed for one in (whole, final)]

    parsed, asked = with_client(body, rules=[{"then": {"text": '{"total": 4}'}}])
    assert parsed == [Answer(total=4)] * 2
    assert asked[0]["response_format"]["type"] == "json_schema"


def test_responses_whole_and_streamed():
    """The Responses API, its events and its stream helper."""

    def body(client):
        whole = client.responses.create(model=MODEL, input="what is two and two")
        events = list(client.responses.create(model=MODEL, input="what is two and two", stream=True))
        with client.responses.stream(model=MODEL, input="what is two and two") as stream:
            helped = list(stream)
            final = stream.get_final_response()
        return whole, events, helped, final

    (whole, events, helped, final), asked = with_client(body)
    assert whole.output_text == final.output_text == SAID
    assert whole.output[0].summary[0].text == THOUGHT
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == SAID
    assert events[-1].response.to_dict() == whole.to_dict()
    assert final.usage == whole.usage
    assert [event.type for event in helped] == [event.type for event in events]
    assert asked[0] == asked[1] == asked[2]


def test_responses_with_tools():
    """Function calls of the Responses API, streamed by the helper, and answered."""
    tool = {"type": "function", "strict": None, **WEATHER}

    def body(client):
        given = [{"role": "user", "content": "what is two and two"}]
        with client.responses.stream(model=MODEL, input=given, tools=[tool]) as stream:
            done = [event.arguments for event in stream if event.type.endswith("arguments.done")]
            first = stream.get_final_response()
        calls = [item for item in first.output if item.type == "function_call"]
        given += [call.to_dict() for call in calls]
        given += [{"type": "function_call_output", "call_id": c.call_id, "output": "mild"} for c in calls]
        return done, calls, client.responses.create(model=MODEL, input=given, tools=[tool])

    (done, calls, last), _ = with_client(body, rules=CALLING)
    assert done == [call.arguments for call in calls] == ['{"place":"Bern"}', '{"place":"Zürich, 😀"}']
    assert last.output_text == SAID


def test_embeddings_and_models():
    """Base64, which the client asks for by itself, is the provider's matter: what came goes through."""

    def body(client):
        vectors = client.embeddings.create(model=MODEL, input=["one", "two and two"])
        return vectors, [model.id for model in client.models.list()], client.models.retrieve(MODEL)

    (vectors, listed, found), asked = with_client(body)
    assert [one.embedding for one in vectors.data] == [[1.5, 1.0], [5.5, 3.0]]
    assert (listed, found.id) == ([MODEL], MODEL)
    assert asked[0]["input"] == ["one", "two and two"]


def test_the_asynchronous_client_streams_many_at_once():
    """Each gets its own."""

    async def body(open_endpoint):
        _, client = clients(open_endpoint)

        async def ask(number):
            messages = [{"role": "user", "content": f"p{number}"}]
            stream = await client.chat.completions.create(model=MODEL, messages=messages, stream=True)
            return "".join([c.delta.content or "" async for chunk in stream for c in chunk.choices])

        async with client:
            said = await asyncio.gather(*(ask(number) for number in range(20)))
            async with client.responses.stream(model=MODEL, input="p") as stream:
                return said, (await stream.get_final_response()).output_text

    said, final = run(body)
    assert said == [f"Answer to p{number}" for number in range(20)]
    assert final == "Answer to p"


@pytest.mark.parametrize("stream", [True, False])
def test_a_wrong_token_is_an_authentication_error(stream):
    """Which the client does not try again."""

    def body(client):
        stranger = client.with_options(api_key="sk-none")
        with pytest.raises(openai.AuthenticationError, match="not valid here"):
            stranger.chat.completions.create(model=MODEL, messages=PROMPT, stream=stream)

    assert with_client(body)[1] == []


def test_the_refusal_of_a_cap_is_the_error_that_a_provider_would_give():
    """A handler's 429 without a time to wait, and without a retry if it says so."""
    error = {
        "message": "You exceeded your current quota",
        "type": "insufficient_quota",
        "code": "insufficient_quota",
    }
    rules = [{"then": {"status": 429, "error": error, "headers": {"x-should-retry": "false"}}}]

    def body(client):
        with pytest.raises(openai.RateLimitError, match="exceeded your current quota") as caught:
            client.chat.completions.create(model=MODEL, messages=PROMPT, stream=True)
        return caught.value.code

    code, asked = with_client(body, rules=rules)
    assert (code, len(asked)) == ("insufficient_quota", 1)


def test_a_client_that_loses_patience_and_tries_again_pays_once():
    """Its own retry after a time-out gets the answer of the call that it left."""
    calls = []

    async def handler(asked):
        calls.append(asked)
        await asyncio.sleep(0.7)
        return Reply(200, b'{"choices": [{"message": {"content": "late"}, "finish_reason": "stop"}]}')

    def body(client):
        patient = client.with_options(timeout=0.3, max_retries=5)
        return patient.chat.completions.create(model=MODEL, messages=PROMPT)

    assert with_client(body, handler)[0].choices[0].message.content == "late"
    assert len(calls) == 1
