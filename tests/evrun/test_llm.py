"""One request, one outcome: what is answered, and which models there are."""

import asyncio
import gzip
import hashlib
import json

import pytest

from evrun.effects.llm import Answered, Endpoint, LlmClient
from evrun.errors import RunFailed
from tests.endpoint.client import running_endpoint
from tests.evrun.loopback import BODY, KEY, OK, free_port, post, read_request, serving


def test_an_answer_comes_back_whole_with_the_headers_that_matter():
    """Status, the body's bytes, the wait and request id; no header that says nothing."""
    rule = {
        "then": {"status": 429, "headers": {"Retry-After": "7", "X-RateLimit-Reset": "9", "X-Other": "1"}}
    }
    with running_endpoint(rules=[rule]) as endpoint:
        sent = asyncio.run(post(endpoint.base_url))
    assert isinstance(sent, Answered)
    assert (sent.status, sent.request_id) == (429, "req_1")
    assert json.loads(sent.body)["error"]["message"] == "the script says 429"
    assert sent.headers == {
        "retry-after": "7",
        "x-ratelimit-reset": "9",
        "x-request-id": "req_1",
        "content-type": "application/json",
    }


def test_the_body_the_key_and_the_headers_reach_the_endpoint_exactly():
    """The bytes whose digest is in the log are the bytes on the wire."""

    async def main():
        async def handle(reader, writer, came):
            await read_request(reader, came)
            writer.write(OK)

        async with serving(handle) as (base_url, came):
            await post(base_url + "/", api_key=KEY, headers={"X-Title": "evrun"})
            return came[0]

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /v1/chat/completions http/1.1"
    assert f"authorization: bearer {KEY}" in lines
    assert "idempotency-key: key-1" in lines
    assert "x-title: evrun" in lines
    assert "content-type: application/json" in lines
    assert f"content-length: {len(BODY)}" in lines
    assert len(lines) == len({line.split(":")[0] for line in lines}), "no header twice"
    assert body == BODY


def test_a_body_of_many_megabytes_arrives_whole():
    """A long conversation is sent in pieces, with its length."""
    body = json.dumps({"messages": [{"role": "user", "content": "x" * (5 << 20)}]}).encode()
    with running_endpoint() as endpoint:
        assert asyncio.run(post(endpoint.base_url, body=body)).status == 200
        assert endpoint.requests()[0]["digest"] == hashlib.sha256(body).hexdigest()


def test_a_compressed_answer_is_unpacked():
    """Gateways compress whether asked or not."""

    async def main():
        async def handle(reader, writer, came):
            await read_request(reader, came)
            packed = gzip.compress(b'{"a": 1}')
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
                + packed
            )

        async with serving(handle) as (base_url, _):
            return await post(base_url)

    assert asyncio.run(main()).body == b'{"a": 1}'


def test_a_redirect_is_an_answer_and_is_not_followed():
    """A key must not travel to an address that nobody named."""

    async def main():
        async def handle(reader, writer, came):
            await read_request(reader, came)
            writer.write(b"HTTP/1.1 307 Go\r\nlocation: /v1/elsewhere\r\ncontent-length: 0\r\n\r\n")

        async with serving(handle) as (base_url, came):
            return await post(base_url), came

    sent, came = asyncio.run(main())
    assert (sent.status, sent.headers["location"], len(came)) == (307, "/v1/elsewhere", 1)


def test_no_proxy_of_the_environment_comes_between_loopback_and_the_run(monkeypatch):
    """Localhost is on this machine, whatever HTTP_PROXY says."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with running_endpoint() as endpoint:
        assert asyncio.run(post(endpoint.base_url)).status == 200
        assert asyncio.run(post(endpoint.base_url.replace("127.0.0.1", "localhost"))).status == 200


def test_a_run_uses_no_more_connections_than_it_has_calls_in_flight():
    """Connections are kept and used again."""

    async def main(base_url):
        async with LlmClient(Endpoint(base_url), connections=8, timeout_s=5) as client:

            async def worker(number):
                return [
                    await client.complete(BODY, idempotency_key=f"{number}.{i}", timeout_s=20)
                    for i in range(25)
                ]

            return await asyncio.gather(*(worker(number) for number in range(8)))

    with running_endpoint() as endpoint:
        asked_before = 1  # the account is asked for over a connection of its own
        outcomes = asyncio.run(main(endpoint.base_url))
        totals = endpoint.totals()
    assert all(sent.status == 200 for worker in outcomes for sent in worker)
    assert totals["answered"] == 200
    assert totals["connections"] <= 8 + asked_before


async def _models(base_url, **endpoint):
    async with LlmClient(Endpoint(base_url, **endpoint), connections=1, timeout_s=5) as client:
        return await client.models()


def test_the_endpoints_models_are_listed():
    """For a run that names none."""
    with running_endpoint(models=["a", "b"], api_key=KEY) as endpoint:
        assert asyncio.run(_models(endpoint.base_url, api_key=KEY)) == ["a", "b"]
        with pytest.raises(RunFailed, match="answered 401"):
            asyncio.run(_models(endpoint.base_url))


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"data": [{"id": "a"}]}', ["a"]),
        (b'{"models": [{"name": "a"}, {"name": "b"}]}', ["a", "b"]),
        (b'["a"]', ["a"]),
        (b'{"data": []}', []),
        (b"<html>", None),
        (b'{"data": 3}', None),
    ],
)
def test_lists_of_models_are_read_in_the_shapes_that_servers_use(body, names):
    """Or refused as what they are."""

    async def main():
        async def handle(reader, writer, came):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

        async with serving(handle) as (base_url, _):
            return await _models(base_url)

    if names is None:
        with pytest.raises(RunFailed, match="no list of models"):
            asyncio.run(main())
    else:
        assert asyncio.run(main()) == names


def test_an_endpoint_that_is_not_there_is_said_plainly():
    """With the address that was asked."""
    port = free_port()
    with pytest.raises(RunFailed, match=f"127.0.0.1:{port}/v1/models"):
        asyncio.run(_models(f"http://127.0.0.1:{port}/v1"))
