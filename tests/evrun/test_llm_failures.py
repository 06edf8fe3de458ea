"""Every error of httpx and of the transport under it has its outcome."""

import asyncio

import aiohttp
import httpx
import pytest

from evrun.effects.llm import Endpoint, LlmClient, Lost, NotSent
from evrun.effects.llm_failures import class_of, failure_of
from tests.evrun.loopback import BODY


def _descendants(kind):
    return {kind} | {deeper for child in kind.__subclasses__() for deeper in _descendants(child)}


HTTPX_ERRORS = {
    getattr(httpx, name)
    for name in dir(httpx)
    if isinstance(getattr(httpx, name), type) and issubclass(getattr(httpx, name), Exception)
}
HTTPX_NOT_SENT = {
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
}


HTTPX_WITHOUT_A_MEANING = {
    httpx.HTTPError,
    httpx.HTTPStatusError,
    httpx.CookieConflict,
    httpx.RequestError,
    httpx.TransportError,
}


class Raising(httpx.AsyncBaseTransport):
    """A transport that fails in one way."""

    def __init__(self, error):
        self.error = error

    async def handle_async_request(self, request):
        """Fail."""
        raise self.error


def _made(kind):
    if kind is httpx.HTTPStatusError:
        return kind("x", request=httpx.Request("GET", "http://h"), response=httpx.Response(200))
    if kind in {httpx.StreamConsumed, httpx.ResponseNotRead, httpx.RequestNotRead, httpx.StreamClosed}:
        return kind()
    return kind("x")


@pytest.mark.parametrize("kind", sorted(HTTPX_ERRORS, key=lambda kind: kind.__name__))
def test_every_error_of_httpx_is_an_outcome_and_only_the_certain_ones_are_not_sent(kind):
    """The list is taken from httpx itself, so a new class fails here until somebody has thought about it."""

    async def main():
        endpoint = Endpoint("http://127.0.0.1:1/v1")
        async with LlmClient(endpoint, connections=1, timeout_s=1, transport=Raising(_made(kind))) as client:
            return await client.complete(BODY, idempotency_key="a", timeout_s=1)

    sent = asyncio.run(main())
    assert isinstance(sent, NotSent) == (kind in HTTPX_NOT_SENT)
    assert sent.reason != "unexpected" or kind in HTTPX_WITHOUT_A_MEANING


AIOHTTP_NOT_SENT = {
    aiohttp.ClientConnectorError, aiohttp.ClientConnectorDNSError, aiohttp.ClientConnectorSSLError,
    aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, aiohttp.ClientProxyConnectionError,
    aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError, aiohttp.ServerFingerprintMismatch,
    aiohttp.client_exceptions.UnixClientConnectorError, aiohttp.InvalidURL,
    aiohttp.InvalidUrlClientError,
    aiohttp.NonHttpUrlClientError, aiohttp.InvalidUrlRedirectClientError,
    aiohttp.NonHttpUrlRedirectClientError,
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", sorted(_descendants(aiohttp.ClientError), key=lambda kind: (kind.__module__, kind.__name__))
)
def test_every_error_of_the_transport_is_lost_unless_there_was_no_connection(kind):
    """Whatever httpx class it is dressed as: a broken connection is not a connect timeout."""
    assert (not class_of(kind).sent) == (kind in AIOHTTP_NOT_SENT)


def test_the_transports_disguise_is_seen_through():
    """httpx-aiohttp calls a server that hung up after reading the request a connect timeout."""
    disguise = httpx.ConnectTimeout("Server disconnected")
    disguise.__cause__ = aiohttp.ServerDisconnectedError()
    assert isinstance(failure_of(disguise, 1), Lost)
    assert isinstance(failure_of(httpx.ConnectTimeout("x"), 1), NotSent)


def test_an_error_that_nobody_foresaw_counts_as_lost():
    """In doubt, it may have cost money."""
    assert failure_of(ZeroDivisionError("x"), 7) == Lost(
        "unexpected", "the request failed in a way that evrun does not know: x", 7
    )
