"""The model endpoint: one request, one outcome; never a retry. The only home of httpx.

The transport is httpx-aiohttp's, without httpx's client over it: the client costs half of a request's time,
and follows redirects, keeps cookies and reads the environment unless told not to (docs/decisions/0020).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
import msgspec
from httpx_aiohttp import AiohttpTransport

from ..errors import RunFailed, UsageFault
from .clock import monotonic
from .llm_endpoint import Endpoint
from .llm_failures import failure_of
from .llm_outcomes import Answered, Lost, NotSent
from .llm_stream import from_stream

__all__ = ["Answered", "Endpoint", "LlmClient", "Lost", "NotSent"]

LARGEST_BODY = 64 << 20
"""Bytes that an answer may have; more is read by nobody."""
LONGEST_CONNECT_S = 30.0
CONNECT_SHARE = 0.75
"""A connection may take so much of a request's time: what strikes later can only strike after sending."""
IDLE_S = 4.0
"""Servers commonly drop an idle connection after 5 s. Dropping it first avoids sending into one that is just
closing, which would leave a call in doubt for nothing."""
LARGE_REQUEST = 1 << 20
CHUNK = 256 << 10
LONGEST_MESSAGE = 500

_KEPT_HEADERS = frozenset(
    b"retry-after retry-after-ms x-should-retry content-type content-encoding location x-request-id "
    b"request-id x-amzn-requestid apim-request-id x-generation-id cf-ray".split()
)
_KEPT_PREFIXES = (b"x-ratelimit-", b"ratelimit", b"anthropic-ratelimit-")


class LlmClient:
    """Sends requests to one endpoint.

    `connections` bounds what is in flight; `timeout_s` is the deadline of `models`. With `stream` the bodies
    ask for their answers piece by piece: what comes is put together again. `transport` stands in for the real
    one in tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connections: int,
        timeout_s: float,
        stream: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._connections = connections
        self._timeout_s = timeout_s
        self._stream = stream
        self._url = httpx.URL(endpoint.url(endpoint.path))
        self._headers = _request_headers(endpoint, self._url, stream=stream)
        self._given = transport
        self._transport: httpx.AsyncBaseTransport | None = None

    async def __aenter__(self) -> Self:
        self._transport = self._given or _transport(self._endpoint, self._connections)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def complete(
        self, body: bytes, *, idempotency_key: str, timeout_s: float, path: str | None = None
    ) -> Answered | NotSent | Lost:
        """POST one request for an answer, once; to another path than the dialect's where one is given.

        Every outcome is a value; only a cancellation is raised. The whole exchange, from waiting for a
        connection to the last byte, takes at most `timeout_s`, also where the answer is streamed.
        """
        url = self._url if path is None else httpx.URL(self._endpoint.url(path))
        request = _post(url, self._headers, body, _timeouts(timeout_s))
        request.headers["idempotency-key"] = idempotency_key
        return await self._exchange(request, timeout_s, stream=self._stream and path is None)

    async def models(self) -> list[str]:
        """The names of the models that the endpoint lists.

        Raises:
            RunFailed: the endpoint could not be asked, or its answer is no list of models.
        """
        url = httpx.URL(self._endpoint.url("models"))
        request = httpx.Request("GET", url, headers=self._headers, extensions=_timeouts(self._timeout_s))
        sent = await self._exchange(request, self._timeout_s)
        if not isinstance(sent, Answered):
            raise RunFailed(f"{url}: {sent.message}", "is the endpoint running, and the address right?")
        if sent.status != httpx.codes.OK:
            said = self._clean(sent.body[:200].decode("utf-8", "replace"))
            hint = "look at the key and the address, or name the model with --model"
            raise RunFailed(f"{url} answered {sent.status}: {said}", hint)
        names = _model_names(sent.body)
        if names is None:
            raise RunFailed(f"{url}: the answer is no list of models", "name the model with --model")
        return names

    async def _exchange(
        self, request: httpx.Request, timeout_s: float, *, stream: bool = False
    ) -> Answered | NotSent | Lost:
        transport = self._transport
        assert transport is not None, "LlmClient is used inside `async with`"
        started = monotonic()
        pieces: list[bytes] = []
        response: httpx.Response | None = None
        failure: Exception | None = None
        try:
            async with asyncio.timeout(timeout_s):
                response = await transport.handle_async_request(request)
                headers = _kept(response.headers.raw)
                whole = await _read(response, pieces, encoded="content-encoding" in headers)
        except Exception as error:  # noqa: BLE001  # an unknown error may have cost money: it is an outcome too
            failure = error
        if failure is not None:
            lost = self._failed(failure, started)
            if not stream or response is None or isinstance(lost, NotSent):
                return lost
            return self._assembled(response, pieces, started, lost)
        if not whole:
            return Lost("too_large", f"the answer is larger than {LARGEST_BODY} bytes", _ms_since(started))
        assert response is not None
        if stream:
            return self._assembled(response, pieces, started, None)
        return Answered(response.status_code, b"".join(pieces), headers, _ms_since(started))

    def _failed(self, error: Exception, started: float) -> NotSent | Lost:
        failure = failure_of(error, _ms_since(started))
        return msgspec.structs.replace(failure, message=self._clean(failure.message))

    def _assembled(
        self, response: httpx.Response, pieces: list[bytes], started: float, lost: Lost | None
    ) -> Answered | Lost:
        """A stream as one answer, from all of its pieces or from those that came before it was lost."""
        headers, body = _kept(response.headers.raw), b"".join(pieces)
        try:
            made = from_stream(Answered(response.status_code, body, headers, _ms_since(started)), lost)
        except Exception as error:  # noqa: BLE001  # as above: whatever is odd about it, it was sent
            made = lost or Lost("decoding", f"the stream cannot be read: {error}", _ms_since(started))
        if isinstance(made, Answered):
            return made
        return msgspec.structs.replace(made, message=self._clean(made.message))

    def _clean(self, message: str) -> str:
        """A message for the log: short, and without the key, should a server or a library repeat it."""
        for name, secret in self._endpoint.secrets().items():
            message = message.replace(secret, f"<{name}>")
        return message[:LONGEST_MESSAGE]


def _request_headers(endpoint: Endpoint, url: httpx.URL, *, stream: bool) -> httpx.Headers:
    """The headers of every request, encoded once."""
    ours = {
        "host": url.netloc.decode("ascii"),
        "accept": "text/event-stream, application/json" if stream else "application/json",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "user-agent": "evrun",
    }
    given = {name.lower(): value for name, value in endpoint.checked_headers().items()}
    return httpx.Headers({**ours, **given}, encoding="ascii")


def _transport(endpoint: Endpoint, connections: int) -> AiohttpTransport:
    url = endpoint.url("")
    proxy = None if endpoint.is_loopback else _proxy_of(url)
    secure = url.startswith("https:") or (proxy or "").startswith("https:")
    # A context without certificates costs nothing to make, and trusts nobody.
    context = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=connections, keepalive_timeout=IDLE_S, ssl=context)
        # trust_env stays off: aiohttp would look for passwords in ~/.netrc too.
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )

    return AiohttpTransport(verify=context, client=session, proxy=httpx.Proxy(proxy) if proxy else None)


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment asks for (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, unless NO_PROXY)."""
    parsed = httpx.URL(url)
    if proxy_bypass(parsed.netloc.decode("ascii")):
        return None
    proxies = getproxies()
    proxy = proxies.get(parsed.scheme) or proxies.get("all")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise UsageFault(
            f"the environment asks for the proxy {httpx.URL(proxy).scheme}://, expected http:// or https://",
            f"set NO_PROXY={parsed.host} to go without one",
        )
    return proxy


def _timeouts(timeout_s: float) -> dict[str, Any]:
    connect = min(LONGEST_CONNECT_S, timeout_s * CONNECT_SHARE)
    return {"timeout": {"connect": connect, "pool": connect, "read": None, "write": None}}


def _post(url: httpx.URL, headers: httpx.Headers, body: bytes, extensions: dict[str, Any]) -> httpx.Request:
    if len(body) <= LARGE_REQUEST:
        request = httpx.Request("POST", url, headers=headers, content=body, extensions=extensions)
    else:
        # aiohttp warns when it is handed this much in one piece.
        request = httpx.Request("POST", url, headers=headers, stream=_InPieces(body), extensions=extensions)
        request.headers["content-length"] = str(len(body))
    # Else httpx tries out encodings at each look at a header.
    request.headers.encoding = "ascii"
    return request


class _InPieces(httpx.AsyncByteStream):
    """A large body, a piece at a time."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), CHUNK):
            yield self._body[start : start + CHUNK]


async def _read(response: httpx.Response, pieces: list[bytes], *, encoded: bool) -> bool:
    """Read the body into `pieces`; false when it is too large."""
    size = 0
    try:
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        async for piece in response.aiter_bytes() if encoded else stream:
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_BODY:
                return False
    finally:
        await response.aclose()
    return True


def _kept(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers that say something about waiting, limits and identity."""
    kept: dict[str, str] = {}
    for name, value in raw:
        lower = name.lower()
        if lower in _KEPT_HEADERS or lower.startswith(_KEPT_PREFIXES):
            kept[lower.decode("ascii", "replace")] = value.decode("latin-1")
    return kept


def _model_names(body: bytes) -> list[str] | None:
    """Names in the lists of OpenAI (`data`, `id`), Ollama (`models`, `name`) and bare arrays."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    listed = value.get("data", value.get("models")) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        return None
    names = [item.get("id") or item.get("name") if isinstance(item, dict) else item for item in listed]
    return [name for name in names if isinstance(name, str)]


def _ms_since(started: float) -> int:
    return round((monotonic() - started) * 1000)
