"""Streams from real servers: pieces that end anywhere, connections that break, servers that dawdle."""

import asyncio
import json

import pytest

from evrun.effects.llm import Answered, Endpoint, LlmClient, Lost
from projections import parse_answer
from tests.evrun.loopback import BODY, KEY, read_request, serving

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = {
    "choices": [{"index": 0, "delta": {"content": "☃𝄞"}, "finish_reason": None}],
    "usage": {"prompt_tokens": 3},
}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def event(value):
    """One event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def chunked(data):
    """Bytes as one chunk of HTTP."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def ask(*pieces, end=b"0\r\n\r\n", timeout_s=5.0, stream=True, then_wait=False, head=HEAD):
    """The outcome against a server that sends these pieces, each on its own."""

    async def handle(reader, writer, came):
        await read_request(reader, came)
        writer.write(head)
        for piece in pieces:
            writer.write(chunked(piece))
            await writer.drain()
            await asyncio.sleep(0.001)
        if then_wait:
            await reader.read()
        writer.write(end)

    async def main():
        async with serving(handle) as (base_url, came):
            endpoint = Endpoint(base_url, KEY)
            async with LlmClient(endpoint, connections=1, timeout_s=5, stream=stream) as client:
                outcome = await client.complete(BODY, idempotency_key="k", timeout_s=timeout_s)
            return outcome, came

    return asyncio.run(main())


def test_a_stream_in_pieces_of_one_byte_is_one_answer():
    """Pieces end within characters, within line ends, within names; the request says what it can read."""
    stream = event(CHUNK) + event(CHUNK) + event(END) + b"data: [DONE]\r\n\r\n"
    outcome, [request] = ask(*(stream[at : at + 1] for at in range(len(stream))))
    assert isinstance(outcome, Answered)
    assert parse_answer(outcome.body).text == "☃𝄞☃𝄞"
    assert b"accept: text/event-stream, application/json" in request.lower()


@pytest.mark.parametrize("end", [b"", b"5\r\nda"])
def test_a_connection_that_breaks_within_a_stream_loses_the_answer(end):
    """With what was said about tokens so far."""
    outcome, _ = ask(event(CHUNK), end=end)
    assert isinstance(outcome, Lost)
    assert outcome.reason == "connection"
    assert '"prompt_tokens": 3' in outcome.message


def test_a_stream_that_stands_still_meets_the_deadline_of_its_request():
    """Keep-alive comments do not lengthen it."""
    outcome, _ = ask(event(CHUNK), b": wait\n\n", timeout_s=0.3, then_wait=True)
    assert isinstance(outcome, Lost)
    assert outcome.reason == "timeout"
    assert "prompt_tokens" in outcome.message


def test_an_answer_that_is_whole_counts_though_its_connection_stays_open():
    """The deadline ends the wait, and nothing is asked for again."""
    outcome, _ = ask(event(CHUNK), event(END), b"data: [DONE]\n\n", timeout_s=0.3, then_wait=True)
    assert isinstance(outcome, Answered)
    assert parse_answer(outcome.body).text == "☃𝄞"


def test_a_stream_that_repeats_the_key_does_not_get_it_into_a_message():
    """Not into the words about an event that is no JSON either."""
    outcome, _ = ask(f"data: {KEY}\n\n".encode(), event(END))
    assert isinstance(outcome, Lost)
    assert KEY not in outcome.message


def test_refusals_are_as_they_are():
    """Whether a stream was asked for or not."""
    said = b'{"error": {"message": "no"}}'
    head = HEAD.replace(b"200 OK", b"429 Slow down").replace(b"text/event-stream", b"application/json")
    outcome, _ = ask(said, head=head)
    assert (outcome.status, outcome.body) == (429, said)


def test_a_client_that_asks_for_no_stream_takes_bytes_as_they_are():
    """What nobody asked for is nobody's to put together."""
    outcome, [request] = ask(event(END), stream=False)
    assert outcome.body == event(END)
    assert b"event-stream" not in request
