"""Calls and connections: what was sent outlives its connection, and nobody gets what is another's."""

import asyncio
import json

import aiohttp
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evrun.agents.endpoint import RecordingEndpoint, Reply

from .recording import MODEL, Answers, run

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}


class Slow(Answers):
    """A handler that answers when it is let; what became of its calls is in `ended`."""

    def __init__(self):
        super().__init__()
        self.begun = asyncio.Queue()
        self.let = asyncio.Event()
        self.ended = []

    async def __call__(self, asked):
        """Wait, then answer."""
        self.begun.put_nowait(asked)
        try:
            await self.let.wait()
            reply = await super().__call__(asked)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("answered")
        return reply


def client_of(open_endpoint, **options):
    """A client with the token."""
    base_url, key = open_endpoint.endpoint.base_url, open_endpoint.key
    return httpx.AsyncClient(trust_env=False, base_url=base_url, headers=key, **options)


async def hang_up(open_endpoint, body=CHAT):
    """Ask, and leave once the handler has begun."""
    async with client_of(open_endpoint) as client:
        asking = asyncio.create_task(client.post("/chat/completions", json=body))
        await open_endpoint.answers.begun.get()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def until(condition):
    """Let others work until it holds."""
    while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.01)


def test_a_call_goes_on_when_its_program_hangs_up():
    """It was sent, so it costs: its answer is recorded whole, and the note says that nobody took it."""

    async def body(open_endpoint):
        await hang_up(open_endpoint)
        open_endpoint.answers.let.set()
        await until(lambda: open_endpoint.notes)
        return open_endpoint.answers.ended, open_endpoint.notes

    ended, notes = run(body, Slow())
    assert ended == ["answered"]
    assert notes == ["a program hung up before its answer came; the answer waits for it to ask again"]


@pytest.mark.parametrize("answered_first", [True, False])
def test_a_program_that_asks_again_after_hanging_up_gets_the_answer_of_its_first_call(answered_first):
    """A client's own retry after a time-out is not a second call: nothing is paid twice."""

    async def body(open_endpoint):
        answers = open_endpoint.answers
        await hang_up(open_endpoint)
        if answered_first:
            answers.let.set()
            await until(lambda: open_endpoint.notes)
        async with client_of(open_endpoint) as client:
            asking = asyncio.create_task(client.post("/chat/completions", json=CHAT | {"stream": True}))
            await asyncio.sleep(0.05)
            answers.let.set()
            again = await asking
            other = await client.post("/chat/completions", json=CHAT)
        return again, other, len(answers.asked)

    again, other, calls = run(body, Slow())
    assert again.headers["content-type"].startswith("text/event-stream")
    assert other.json()["choices"][0]["message"]["content"] == "Answer to hi"
    assert calls == 2  # the one that was left and taken up, and the one after it


def test_another_question_does_not_get_the_answer_that_was_left():
    """One key more, or another path: it is a call of its own."""
    both = CHAT | {"input": "hi"}

    async def body(open_endpoint):
        await hang_up(open_endpoint, both)
        open_endpoint.answers.let.set()
        await until(lambda: open_endpoint.notes)
        async with client_of(open_endpoint) as client:
            await client.post("/chat/completions", json=both | {"seed": 1})
            await client.post("/embeddings", json=both)
        return len(open_endpoint.answers.asked)

    assert run(body, Slow()) == 3


def test_an_answer_that_was_taken_is_not_given_again():
    """A program that asks the same once more, also after its connection has closed, wants another answer."""

    async def body(open_endpoint):
        for _ in range(2):
            async with client_of(open_endpoint) as client:
                await client.post("/chat/completions", json=CHAT)
        return len(open_endpoint.answers.asked)

    assert run(body) == 2


def test_a_refusal_that_was_left_is_not_kept():
    """What is kept is what was paid for: an error is asked for anew."""

    class Refuses(Slow):
        async def __call__(self, asked):
            reply = await super().__call__(asked)
            return Reply(429, b"{}") if len(self.asked) == 1 else reply

    async def body(open_endpoint):
        await hang_up(open_endpoint)
        open_endpoint.answers.let.set()
        await until(lambda: open_endpoint.notes)
        async with client_of(open_endpoint) as client:
            return (await client.post("/chat/completions", json=CHAT)).status_code

    assert run(body, Refuses()) == 200


def test_equal_questions_at_once_are_calls_of_their_own():
    """A program that listens to all of them wants several answers."""

    async def body(open_endpoint):
        async with client_of(open_endpoint) as client:
            asking = [asyncio.create_task(client.post("/chat/completions", json=CHAT)) for _ in range(5)]
            for _ in asking:
                await open_endpoint.answers.begun.get()
            open_endpoint.answers.let.set()
            return [(await one).status_code for one in asking]

    assert run(body, Slow()) == [200] * 5


def test_dismissal_cancels_what_is_open_and_refuses_what_comes():
    """The program, if it still lives, is told that its attempt has ended; others go on."""

    async def body(open_endpoint):
        endpoint, answers = open_endpoint.endpoint, open_endpoint.answers
        other = endpoint.admit(Answers())
        async with client_of(open_endpoint) as client:
            asking = asyncio.create_task(client.post("/chat/completions", json=CHAT))
            await answers.begun.get()
            await endpoint.dismiss(open_endpoint.token)
            ended_by_then = list(answers.ended)
            refused = await asking, await client.get("/models")
            await endpoint.dismiss(open_endpoint.token)
            kept = await client.get("/models", headers={"authorization": f"Bearer {other}"})
        return ended_by_then, refused, kept

    ended, refused, kept = run(body, Slow())
    assert ended == ["cancelled"]
    assert [(one.status_code, one.json()["error"]["code"]) for one in refused] == [
        (401, "invalid_api_key")
    ] * 2
    assert kept.status_code == 200


def test_a_call_whose_program_hung_up_ends_with_its_dismissal():
    """Nothing of an attempt works on behind its end."""

    async def body(open_endpoint):
        await hang_up(open_endpoint)
        await open_endpoint.endpoint.dismiss(open_endpoint.token)
        return open_endpoint.answers.ended

    assert run(body, Slow()) == ["cancelled"]


def test_a_request_whose_body_comes_after_the_dismissal_begins_nothing():
    """The token was good when its head came; by the end of its body the attempt is over."""

    async def body(open_endpoint):
        port = int(open_endpoint.endpoint.base_url.split(":")[2].removesuffix("/v1"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /chat/completions HTTP/1.1\r\nhost: x\r\napi-key: {open_endpoint.token}\r\n"
        writer.write(head.encode() + b"connection: close\r\ncontent-length: 2\r\n\r\n{")
        await writer.drain()
        await asyncio.sleep(0.1)
        await open_endpoint.endpoint.dismiss(open_endpoint.token)
        writer.write(b"}")
        answer = await reader.read()
        writer.close()
        return answer, open_endpoint.answers.asked

    answer, asked = run(body)
    assert answer.startswith(b"HTTP/1.1 401")
    assert asked == []


def test_the_end_of_the_endpoint_ends_every_call():
    """Whoever leaves the context leaves nothing behind, whatever was open."""

    async def inside():
        answers = Slow()
        async with RecordingEndpoint([MODEL], [].append) as endpoint:
            tokens = [endpoint.admit(answers) for _ in range(3)]
            client = httpx.AsyncClient(trust_env=False, base_url=endpoint.base_url)
            asking = [
                asyncio.create_task(client.post("/chat/completions", json=CHAT, headers={"api-key": token}))
                for token in tokens
            ]
            for _ in tokens:
                await answers.begun.get()
        await asyncio.gather(*asking, return_exceptions=True)
        await client.aclose()
        return answers.ended, len(set(tokens)), asyncio.all_tasks() == {asyncio.current_task()}

    assert asyncio.run(inside()) == (["cancelled"] * 3, 3, True)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=200, max_size=200), st.booleans())
def test_of_two_hundred_requests_at_once_none_is_mixed_up(owners, stream):
    """Each answer is that of its own question and of its own token's handler, streamed or whole."""

    async def inside():
        async with RecordingEndpoint([MODEL], [].append) as endpoint:
            heard = [[] for _ in range(5)]
            tokens = [endpoint.admit(naming(number, heard[number])) for number in range(5)]
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(endpoint.base_url + "/", connector=connector) as client:
                asking = [ask(client, tokens[owner], number) for number, owner in enumerate(owners)]
                said = await asyncio.gather(*asking)
        return said, heard

    async def ask(client, token, number):
        body = {"messages": [{"role": "user", "content": f"{number}"}], "stream": stream}
        headers = {"authorization": f"Bearer {token}"}
        async with client.post("chat/completions", json=body, headers=headers) as response:
            text = await response.text()
        return content_of(text) if stream else json.loads(text)["choices"][0]["message"]["content"]

    said, heard = asyncio.run(inside())
    assert said == [f"{owner} answers {number}" for number, owner in enumerate(owners)]
    for owner, questions in enumerate(heard):
        assert sorted(questions) == sorted(n for n, whose in enumerate(owners) if whose == owner)


def naming(owner, heard):
    """A handler that says whose it is and what it was asked, after a while that differs."""

    async def handler(asked):
        question = json.loads(asked.body)["messages"][0]["content"]
        heard.append(int(question))
        await asyncio.sleep((int(question) * 7919 % 13) / 1000)
        message = {"role": "assistant", "content": f"{owner} answers {question}"}
        return Reply(200, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())

    return handler


def content_of(stream):
    """The text that a stream of chunks adds up to."""
    chunks = [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
