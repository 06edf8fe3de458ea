"""Foreign errors to outcomes: did the request leave this machine or not?

One rule: an error counts as "not sent" only when its class says that there never was a connection to send on.
All else, known or not, is "lost", which may have cost money.
"""

from typing import NamedTuple

import aiohttp

from .llm_outcomes import Lost, LostReason, NotSent, NotSentReason


class Undecodable(Exception):
    """An answer's content encoding cannot be undone."""


class FailureClass(NamedTuple):
    """Whether the request may have left, why it failed, and that in words."""

    sent: bool
    reason: str
    words: str


def _not_sent(reason: NotSentReason, words: str) -> FailureClass:
    return FailureClass(sent=False, reason=reason, words=words)


def _lost(reason: LostReason, words: str) -> FailureClass:
    return FailureClass(sent=True, reason=reason, words=words)


_BROKEN = _lost("connection", "the connection broke before the whole answer was here")
_NOT_HTTP = _lost("protocol", "what came back is not HTTP as it should be")
_UNEXPECTED = _lost("unexpected", "the request failed in a way that evrun does not know")
_UNREACHABLE = _not_sent("connect", "no connection")
_TLS = _not_sent("tls", "no secure connection")
_PROXY = _not_sent("proxy", "no way through the proxy")
_ADDRESS = _not_sent("address", "no address that a request can be sent to")
_NO_CONNECTION_IN_TIME = _not_sent("connect_timeout", "no connection in time")
_NO_ANSWER_IN_TIME = _lost("timeout", "no answer in time")

# The nearest class in an error's ancestry decides.
AIOHTTP_CLASSES: dict[type[BaseException], FailureClass] = {
    aiohttp.ClientError: _UNEXPECTED,
    aiohttp.ClientResponseError: _NOT_HTTP,
    aiohttp.ClientHttpProxyError: _PROXY,
    aiohttp.ClientConnectionError: _BROKEN,
    aiohttp.ClientConnectorError: _UNREACHABLE,
    aiohttp.ClientConnectorDNSError: _not_sent("dns", "the host name has no address"),
    aiohttp.ClientProxyConnectionError: _PROXY,
    aiohttp.ClientSSLError: _TLS,
    aiohttp.ClientConnectorSSLError: _TLS,
    aiohttp.ClientConnectorCertificateError: _TLS,
    aiohttp.ServerFingerprintMismatch: _TLS,
    aiohttp.ServerTimeoutError: _NO_ANSWER_IN_TIME,
    aiohttp.ConnectionTimeoutError: _NO_CONNECTION_IN_TIME,
    aiohttp.ClientPayloadError: _BROKEN,
    aiohttp.InvalidURL: _ADDRESS,
    aiohttp.NonHttpUrlClientError: _ADDRESS,
}
_OTHERS: dict[type[BaseException], FailureClass] = {
    TimeoutError: _NO_ANSWER_IN_TIME,
    OSError: _BROKEN,
    Undecodable: _lost("decoding", "the answer's content encoding cannot be undone"),
}
_ALL = AIOHTTP_CLASSES | _OTHERS


def class_of(kind: type[BaseException]) -> FailureClass:
    """What errors of this class mean."""
    return next((_ALL[ancestor] for ancestor in kind.__mro__ if ancestor in _ALL), _UNEXPECTED)


def failure_of(error: Exception, elapsed_ms: int) -> NotSent | Lost:
    """The outcome that an error of the transport stands for."""
    found = class_of(type(error))
    message = f"{found.words}: {_detail(error)}"
    if found.sent:
        return Lost(found.reason, message, elapsed_ms)  # type: ignore[arg-type]  # made by _lost
    return NotSent(found.reason, message)  # type: ignore[arg-type]  # made by _not_sent


def _detail(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
