"""Every error of the libraries that send and read has its outcome."""

import aiohttp
import pytest

from evrun.effects.llm import Lost
from evrun.effects.llm_failures import class_of, failure_of


def _descendants(kind):
    return {kind} | {deeper for child in kind.__subclasses__() for deeper in _descendants(child)}


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
    """The list is taken from aiohttp, so a new class fails here until somebody has thought about it."""
    assert (not class_of(kind).sent) == (kind in AIOHTTP_NOT_SENT)


def test_an_error_that_nobody_foresaw_counts_as_lost():
    """In doubt, it may have cost money."""
    assert failure_of(ZeroDivisionError("x"), 7) == Lost(
        "unexpected", "the request failed in a way that evrun does not know: x", 7
    )
