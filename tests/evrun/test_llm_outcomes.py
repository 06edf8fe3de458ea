"""What is certainly not sent, what may have cost money; nothing is sent twice."""

import asyncio
import base64
import json
import shutil
import socket
import ssl
import subprocess

import pytest

from evrun.effects import llm
from evrun.effects.llm import Endpoint, LlmClient, Lost, NotSent
from tests.endpoint.client import running_endpoint
from tests.evrun.loopback import BODY, KEY, OK, free_port, post, read_request, serving


async def _refused():
    return await post(f"http://127.0.0.1:{free_port()}/v1")


async def _no_such_host():
    return await post("http://no-such-host.invalid/v1")


async def _tls_to_a_plain_server():
    async def handle(reader, writer, came):
        hello = await reader.read(5)
        assert hello[0] == 22, "only a TLS hello came, nothing of the request"
        writer.write(b"HTTP/1.1 400 Bad\r\n\r\n")

    async with serving(handle) as (base_url, _):
        return await post(base_url.replace("http:", "https:"))


async def _server_that_accepts_nobody():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)  # noqa: FBT003  # its only parameter
            one.connect_ex(full.getsockname())
        sent = await post(f"http://127.0.0.1:{full.getsockname()[1]}/v1", timeout_s=0.6)
        for one in waiting:
            one.close()
        return sent


async def _all_connections_busy():
    arrived = asyncio.Event()

    async def handle(reader, writer, came):
        await read_request(reader, came)
        arrived.set()
        await reader.read()

    async with (
        serving(handle) as (base_url, came),
        LlmClient(Endpoint(base_url), connections=1, timeout_s=5) as client,
    ):
        first = asyncio.create_task(client.complete(BODY, idempotency_key="a", timeout_s=60))
        await arrived.wait()
        sent = await client.complete(BODY, idempotency_key="b", timeout_s=0.4)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert len(came) == 1
        return sent


NOT_SENT = {
    "a closed port": (_refused, "connect"),
    "a name without address": (_no_such_host, "dns"),
    "https to a server that speaks http": (_tls_to_a_plain_server, "tls"),
    "a server that accepts nobody": (_server_that_accepts_nobody, "connect_timeout"),
    "no connection free in time": (_all_connections_busy, "connect_timeout"),
}


@pytest.mark.parametrize("row", NOT_SENT.values(), ids=NOT_SENT.keys())
def test_without_a_connection_nothing_was_sent(row):
    """These cost nothing, and the run may say so."""
    case, reason = row
    sent = asyncio.run(case())
    assert isinstance(sent, NotSent), sent
    assert sent.reason == reason
    assert sent.message


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_certificate_that_nobody_vouches_for_ends_before_the_request(tmp_path):
    """The key is not shown to a stranger."""
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(
        ["openssl", "req", *made, "-subj", "/CN=localhost", "-days", "2"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def main():
        async def handle(reader, writer, came):
            came.append(await reader.read(1))

        async with serving(handle, ssl=context) as (base_url, came):
            return await post(base_url, api_key=KEY), came

    sent, came = asyncio.run(main())
    assert isinstance(sent, NotSent)
    assert (sent.reason, came) == ("tls", [])


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_means_not_sent(monkeypatch, scheme):
    """For hosts elsewhere the environment's proxy is used, and its absence is certain."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{free_port()}")
    sent = asyncio.run(post(f"{scheme}://endpoint.invalid/v1"))
    assert isinstance(sent, NotSent)
    assert sent.reason == "proxy"


def test_a_proxy_that_refuses_the_tunnel_means_not_sent(monkeypatch):
    """Behind a CONNECT that was refused there is no connection to send on."""

    async def main():
        async def handle(reader, writer, came):
            came.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

        async with serving(handle) as (base_url, came):
            monkeypatch.setenv("https_proxy", base_url.removesuffix("/v1"))
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            return await post("https://endpoint.invalid/v1", api_key=KEY), came

    sent, came = asyncio.run(main())
    assert isinstance(sent, NotSent)
    assert sent.reason == "proxy"
    assert KEY.encode() not in came[0]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxys_password_goes_to_the_proxy_and_into_no_message(monkeypatch, scheme):
    """With the request where it is forwarded, with CONNECT where a tunnel is asked for."""

    async def main():
        async def handle(reader, writer, came):
            came.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n")

        async with serving(handle) as (base_url, came):
            proxy = base_url.removesuffix("/v1").replace("://", "://user:pass%3Aword@")
            monkeypatch.setenv(f"{scheme}_proxy", proxy)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            return await post(f"{scheme}://endpoint.invalid/v1"), came

    sent, came = asyncio.run(main())
    basic = base64.b64encode(b"user:pass:word")
    assert b"proxy-authorization: basic " + basic.lower() in came[0].lower()
    assert "word" not in repr(sent)


FAULTS = {
    "close": "connection",
    "reset": "connection",
    "cut": "connection",
    "hang": "timeout",
    "trickle": "timeout",
    "garbage": "protocol",
    "endless": "too_large",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_after_sending_is_lost_and_never_sent_again(fault, monkeypatch):
    """The endpoint has the request, has billed it, and got it once."""
    monkeypatch.setattr(llm, "LARGEST_BODY", 1 << 20)
    with running_endpoint(rules=[{"then": {"fault": fault}}]) as endpoint:
        sent = asyncio.run(post(endpoint.base_url, timeout_s=0.8 if FAULTS[fault] == "timeout" else 20))
        totals = endpoint.totals()
    assert isinstance(sent, Lost), sent
    assert sent.reason == FAULTS[fault]
    assert sent.message
    assert (totals["requests"], totals["billed"]) == (1, 1)


def test_a_kept_connection_that_the_server_drops_on_the_next_request_is_lost():
    """The request may have been read; only the endpoint knows."""

    async def main():
        async def handle(reader, writer, came):
            await read_request(reader, came)
            writer.write(OK)
            await read_request(reader, came)

        async with (
            serving(handle) as (base_url, came),
            LlmClient(Endpoint(base_url), connections=1, timeout_s=5) as client,
        ):
            first = await client.complete(BODY, idempotency_key="a", timeout_s=5)
            second = await client.complete(BODY, idempotency_key="b", timeout_s=5)
            return first, second, came

    first, second, came = asyncio.run(main())
    assert first.status == 200
    assert isinstance(second, Lost)
    assert (second.reason, len(came)) == ("connection", 2)


def test_a_server_that_stops_reading_is_lost_in_time():
    """A part of the request has left: enough for a doubt."""

    async def main():
        stop = asyncio.Event()

        async def handle(reader, writer, came):
            came.append(await reader.read(10))
            await stop.wait()

        async with serving(handle) as (base_url, came):
            sent = await post(base_url, body=b"x" * (32 << 20), timeout_s=0.8)
            stop.set()
            return sent, came

    sent, came = asyncio.run(main())
    assert isinstance(sent, Lost)
    assert (sent.reason, came) == ("timeout", [b"POST /v1/c"])


def test_a_body_that_is_not_what_its_encoding_says_is_lost():
    """It was worked on, and cannot be read."""

    async def main():
        async def handle(reader, writer, came):
            await read_request(reader, came)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello")

        async with serving(handle) as (base_url, _):
            return await post(base_url)

    sent = asyncio.run(main())
    assert isinstance(sent, Lost)
    assert sent.reason == "decoding"


def test_after_a_lost_request_the_next_one_has_a_fresh_connection():
    """The late answer to one request must never be taken for the answer to another."""

    async def main(base_url):
        async with LlmClient(Endpoint(base_url), connections=1, timeout_s=5) as client:
            first = await client.complete(BODY, idempotency_key="a", timeout_s=0.3)
            second = await client.complete(
                BODY.replace(b"two and two", b"other"), idempotency_key="b", timeout_s=20
            )
            return first, second

    rules = [{"times": 1, "then": {"latency_ms": 600}}, {"then": {"latency_ms": 600}}]
    with running_endpoint(rules=rules) as endpoint:
        first, second = asyncio.run(main(endpoint.base_url))
    assert isinstance(first, Lost)
    assert json.loads(second.body)["choices"][0]["message"]["content"] == "Answer to other"


def test_a_cancelled_request_is_raised_and_leaves_the_client_usable():
    """Cancelling is the caller's own doing; what it means for money is the caller's to record."""

    async def main(base_url):
        async with LlmClient(Endpoint(base_url), connections=1, timeout_s=5) as client:
            task = asyncio.create_task(client.complete(BODY, idempotency_key="a", timeout_s=60))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await client.complete(BODY, idempotency_key="b", timeout_s=20)

    with running_endpoint(rules=[{"times": 1, "then": {"fault": "hang"}}]) as endpoint:
        assert asyncio.run(main(endpoint.base_url)).status == 200
