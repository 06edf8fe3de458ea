"""The environment: what proxies are told, that no message tells their passwords, whom it says to trust."""

import asyncio
import base64
import traceback

import pytest

from evrun.effects.llm import Endpoint, LlmClient, NotSent
from evrun.errors import UsageFault
from tests.evrun.loopback import OK, free_port, post, serving


@pytest.fixture
def proxy(monkeypatch):
    """Sets the proxy of the environment."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    def named(address):
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme}_proxy", address)

    return named


@pytest.mark.parametrize(
    "address",
    [
        "user:pass-word@HOST",
        "//user:pass-word@HOST",
        "http:/user:pass-word@HOST",
        "user:pass-word://HOST",
        "http://us%3Aer:pass-word@HOST",
        "http://user:pass-word@HOST:port",
        "http://user:pass-word@[::1",
        "http://user:pass-word@",
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(proxy, address):
    """Neither the message nor what a traceback would print shows it."""
    proxy(address.replace("HOST", f"127.0.0.1:{free_port()}"))
    with pytest.raises(UsageFault, match="the environment asks for") as caught:
        LlmClient(Endpoint("http://endpoint.invalid/v1"), connections=1, timeout_s=1)
    assert "pass-word" not in "".join(traceback.format_exception(caught.value, chain=True))


@pytest.mark.parametrize(
    ("userinfo", "meant"),
    [
        ("user:p#ss/w?rd[", "user:p#ss/w?rd["),
        ("user:p%23ss%2Fword", "user:p#ss/word"),
        ("user:p@ss:word", "user:p@ss:word"),
        (":password", ":password"),
        ("user", "user:"),
    ],
)
def test_a_proxy_gets_the_password_that_was_meant(proxy, userinfo, meant):
    """Also one whose special characters were not encoded, and one without a name."""

    async def main():
        async def handle(reader, writer, came):
            came.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(OK)

        async with serving(handle) as (base_url, came):
            proxy(base_url.removesuffix("/v1").replace("://", f"://{userinfo}@"))
            return await post("http://endpoint.invalid/v1"), came

    sent, came = asyncio.run(main())
    assert sent.status == 200
    basic = base64.b64encode(meant.encode()).decode()
    assert f"proxy-authorization: Basic {basic}\r\n" in came[0].decode()


def test_a_proxy_that_repeats_its_password_does_not_get_it_into_a_message(proxy):
    """What refuses may quote what it refuses."""
    basic = base64.b64encode(b"user:pass-word")

    async def main():
        async def handle(reader, writer, came):
            came.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 407 not pass-word or " + basic + b"\r\ncontent-length: 0\r\n\r\n")

        async with serving(handle) as (base_url, _):
            proxy(base_url.removesuffix("/v1").replace("://", "://user:pass-word@"))
            return await post("https://endpoint.invalid/v1")

    sent = asyncio.run(main())
    assert isinstance(sent, NotSent)
    assert "not <proxy password> or <proxy authorization>" in sent.message


@pytest.mark.parametrize("address", ["http://a\\b/v1", "http://[::1]x/v1", "http://a..b/v1"])
def test_an_address_that_no_request_can_be_sent_to_is_refused_before_the_run(address):
    """As bad input, not as an error of evrun's own or a prompt in doubt."""
    with pytest.raises(UsageFault, match="no request can be sent to"):
        LlmClient(Endpoint(address), connections=1, timeout_s=1)


def test_certificates_that_cannot_be_read_are_named(monkeypatch, tmp_path):
    """With the variable that asked for them, as bad input."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with pytest.raises(UsageFault, match=r"SSL_CERT_FILE=.*missing\.pem"):
        asyncio.run(post("https://127.0.0.1:1/v1"))
