"""The address that requests go to, and the key that nobody sees."""

import asyncio
import traceback

import pytest
from rich.pretty import pretty_repr

from evrun.effects.llm import Endpoint, LlmClient
from evrun.errors import RunFailed, UsageFault
from tests.evrun.loopback import KEY, serving

ADDRESSES = {
    "http://h:1/v1": "http://h:1/v1/chat/completions",
    "http://h:1/v1/": "http://h:1/v1/chat/completions",
    "http://h:1": "http://h:1/chat/completions",
    "http://h:1//": "http://h:1/chat/completions",
    "https://h/a/b": "https://h/a/b/chat/completions",
    "https://h/openai?api-version=7": "https://h/openai/chat/completions?api-version=7",
    "http://[::1]:8/v1": "http://[::1]:8/v1/chat/completions",
}


@pytest.mark.parametrize("base_url", ADDRESSES)
def test_an_address_joins_with_and_without_a_slash_at_its_end(base_url):
    """Both are what people write."""
    assert Endpoint(base_url).url("chat/completions") == ADDRESSES[base_url]


NO_ADDRESSES = {
    "127.0.0.1:8080/v1": "http:// or https://",
    "": "http:// or https://",
    "localhost": "http:// or https://",
    "ftp://h/v1": "found ftp://",
    "http://": "no address",
    "http://h:port/v1": "no address",
    "http://h:99999/v1": "no address",
    "http://h /v1": "no address",
    "http://h/v1#x": "no address",
    "http://h/v1/chat/completions": "ends in /chat/completions",
}


@pytest.mark.parametrize("base_url", NO_ADDRESSES)
def test_what_is_no_address_is_refused_in_plain_words(base_url):
    """Before anything is spent, with what was found."""
    with pytest.raises(UsageFault, match=NO_ADDRESSES[base_url]):
        LlmClient(Endpoint(base_url), connections=1, timeout_s=1)


def test_a_password_in_the_address_is_refused_and_not_repeated():
    """The address goes into the log; a password must not."""
    with pytest.raises(UsageFault) as refused:
        LlmClient(Endpoint("http://me:hunter2@h/v1"), connections=1, timeout_s=1)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "trailing\n", "ümlaut"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key):
    """A line break at the end of a key file is the usual cause."""
    with pytest.raises(UsageFault) as refused:
        LlmClient(Endpoint("http://h/v1", key), connections=1, timeout_s=1)
    assert not key.strip() or key.strip() not in str(refused.value)


@pytest.mark.parametrize(
    "headers",
    [{"Host": "x"}, {"content-length": "1"}, {"a b": "x"}, {"x": "a\r\nb: c"}, {"Authorization": "x"}],
)
def test_headers_that_would_break_the_request_are_refused(headers):
    """A header is data, never a second header."""
    with pytest.raises(UsageFault):
        LlmClient(Endpoint("http://h/v1", KEY, headers), connections=1, timeout_s=1)


def _fails_holding(endpoint, client, headers):
    raise RuntimeError("a crash whose traceback shows local variables")


def test_the_key_is_in_no_repr_and_in_no_traceback():
    """Neither by repr, nor by rich, nor by what an error carries."""
    endpoint = Endpoint("http://h/v1", KEY)
    client = LlmClient(endpoint, connections=1, timeout_s=1)
    shown = f"{endpoint!r} {endpoint} {client!r} {pretty_repr(endpoint)} {pretty_repr(vars(client))}"
    with pytest.raises(RuntimeError) as raised:
        _fails_holding(endpoint, client, client._headers)
    trace = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    shown += "".join(trace.stack[-1].locals.values())
    assert "h/v1" in shown
    assert KEY not in shown


def test_a_server_that_repeats_the_key_does_not_get_it_into_a_message():
    """Messages go into the log."""

    async def main():
        async def handle(reader, writer, came):
            came.append(await reader.readuntil(b"\r\n\r\n"))
            said = f"bad key {KEY}".encode()
            writer.write(b"HTTP/1.1 401 No\r\ncontent-length: %d\r\n\r\n" % len(said) + said)

        async with (
            serving(handle) as (base_url, _),
            LlmClient(Endpoint(base_url, KEY), connections=1, timeout_s=5) as client,
        ):
            await client.models()

    with pytest.raises(RunFailed, match="bad key <API key>") as failed:
        asyncio.run(main())
    assert KEY not in str(failed.value)
