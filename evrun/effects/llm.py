"""The model endpoint: one request, one outcome; never a retry. The home of aiohttp.

Of aiohttp's session only the connections are used: no redirects, no cookies, nothing from the environment
(docs/decisions/0125).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from ..errors import RunFailed, UsageFault
from .clock import monotonic
from .llm_encodings import decoded
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
SHORTEST_PASSWORD = 4
"""A shorter password of a proxy is not looked for: it would be found in ordinary words."""
_PROXY_AUTHORIZATION = "proxy-authorization"

_KEPT_HEADERS = frozenset(
    b"retry-after retry-after-ms x-should-retry content-type content-encoding location x-request-id "
    b"request-id x-amzn-requestid apim-request-id x-generation-id cf-ray".split()
)
_KEPT_PREFIXES = (b"x-ratelimit-", b"ratelimit", b"anthropic-ratelimit-")


class LlmClient:
    """Sends requests to one endpoint.

    `connections` bounds what is in flight; `timeout_s` is the deadline of `models`. With `stream` the bodies
    ask for their answers piece by piece: what comes is put together again.
    """

    def __init__(
        self, endpoint: Endpoint, *, connections: int, timeout_s: float, stream: bool = False
    ) -> None:
        self._endpoint = endpoint
        self._connections = connections
        self._timeout_s = timeout_s
        self._stream = stream
        self._url = _address(endpoint.url(endpoint.path))
        self._headers = _request_headers(endpoint, stream=stream)
        self._proxy, secrets = ({}, {}) if endpoint.is_loopback else _proxy_of(endpoint.url(""))
        self._secrets = _Hidden(endpoint.secrets() | secrets)
        if self._url.scheme == "http":
            # Without a tunnel the proxy reads the request itself.
            self._headers.update(self._proxy.pop("proxy_headers", {}))
        self._limits = _limits(timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        secure = "https" in {self._url.scheme, self._proxy["proxy"].scheme if self._proxy else None}
        self._session = _session(self._connections, secure=secure)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def complete(
        self, body: bytes, *, idempotency_key: str, timeout_s: float, path: str | None = None
    ) -> Answered | NotSent | Lost:
        """POST one request for an answer, once; to another path than the dialect's where one is given.

        Every outcome is a value; only a cancellation is raised. The whole exchange, from waiting for a
        connection to the last byte, takes at most `timeout_s`, also where the answer is streamed.
        """
        url = self._url if path is None else _address(self._endpoint.url(path))
        asked = _Asked("POST", url, {"idempotency-key": idempotency_key}, body)
        return await self._exchange(asked, timeout_s, stream=self._stream and path is None)

    async def models(self) -> list[str]:
        """The names of the models that the endpoint lists.

        Raises:
            RunFailed: the endpoint could not be asked, or its answer is no list of models.
        """
        url = _address(self._endpoint.url("models"))
        sent = await self._exchange(_Asked("GET", url, {}, b""), self._timeout_s)
        if not isinstance(sent, Answered):
            raise RunFailed(f"{url}: {sent.message}", "is the endpoint running, and the address right?")
        if sent.status != HTTPStatus.OK:
            said = self._clean(sent.body[:200].decode("utf-8", "replace"))
            hint = "look at the key and the address, or name the model with --model"
            raise RunFailed(f"{url} answered {sent.status}: {said}", hint)
        names = _model_names(sent.body)
        if names is None:
            raise RunFailed(f"{url}: the answer is no list of models", "name the model with --model")
        return names

    async def _exchange(
        self, asked: "_Asked", timeout_s: float, *, stream: bool = False
    ) -> Answered | NotSent | Lost:
        started = monotonic()
        pieces: list[bytes] = []
        response: aiohttp.ClientResponse | None = None
        failure: Exception | None = None
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._send(asked, timeout_s)
                headers = _kept(response.raw_headers)
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
        return Answered(response.status, b"".join(pieces), headers, _ms_since(started))

    async def _send(self, asked: "_Asked", timeout_s: float) -> aiohttp.ClientResponse:
        """Send a request; returns when the answer's head is here."""
        assert self._session is not None, "LlmClient is used inside `async with`"
        if self._limits[0] != timeout_s:
            self._limits = _limits(timeout_s)
        headers = _Hidden(self._headers)
        headers.update(asked.headers)
        data: bytes | AsyncIterator[bytes] | None = asked.body or None
        if len(asked.body) > LARGE_REQUEST:
            # aiohttp warns when it is handed this much in one piece.
            headers["content-length"], data = str(len(asked.body)), _in_pieces(asked.body)
        return await self._session.request(
            asked.method,
            asked.url,
            headers=headers,
            data=data,
            timeout=self._limits[1],
            allow_redirects=False,
            **self._proxy,
        )

    def _failed(self, error: Exception, started: float) -> NotSent | Lost:
        failure = failure_of(error, _ms_since(started))
        return msgspec.structs.replace(failure, message=self._clean(failure.message))

    def _assembled(
        self, response: aiohttp.ClientResponse, pieces: list[bytes], started: float, lost: Lost | None
    ) -> Answered | Lost:
        """A stream as one answer, from all of its pieces or from those that came before it was lost."""
        headers, body = _kept(response.raw_headers), b"".join(pieces)
        try:
            made = from_stream(Answered(response.status, body, headers, _ms_since(started)), lost)
        except Exception as error:  # noqa: BLE001  # as above: whatever is odd about it, it was sent
            made = lost or Lost("decoding", f"the stream cannot be read: {error}", _ms_since(started))
        if isinstance(made, Answered):
            return made
        return msgspec.structs.replace(made, message=self._clean(made.message))

    def _clean(self, message: str) -> str:
        """A message for the log: short, and without the keys that a server or a library may repeat."""
        for name, secret in self._secrets.items():
            message = message.replace(secret, f"<{name}>")
        return message[:LONGEST_MESSAGE]


class _Hidden(dict[str, str]):
    """Headers and other things that are not shown: the key is among them."""

    def __repr__(self) -> str:
        return f"<hidden {sorted(self)}>"

    def __rich_repr__(self) -> list[tuple[str, list[str]]]:
        return [("names", sorted(self))]


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A request: `headers` are those that no other request has."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes


def _request_headers(endpoint: Endpoint, *, stream: bool) -> _Hidden:
    """The headers of every request. Not those of the session, which a proxy would get to see."""
    ours = {
        "accept": "text/event-stream, application/json" if stream else "application/json",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "user-agent": "evrun",
    }
    given = {name.lower(): value for name, value in endpoint.checked_headers().items()}
    return _Hidden({**ours, **given})


def _session(connections: int, *, secure: bool) -> aiohttp.ClientSession:
    # A context without certificates costs nothing to make, and trusts nobody.
    context = _trusting_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    connector = aiohttp.TCPConnector(limit=connections, keepalive_timeout=IDLE_S, ssl=context)
    # trust_env stays off: aiohttp would look for passwords in ~/.netrc too.
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
    )


def _address(url: str) -> URL:
    """An address as it is sent.

    Raises:
        UsageFault: no request can be sent there.
    """
    try:
        parsed = URL(url)
        (parsed.raw_host or "").encode("idna")  # as it will be looked up
    except ValueError as error:
        raise UsageFault(f"no request can be sent to {url}: {error}", "look at --base-url") from error
    return parsed


def _trusting_context() -> ssl.SSLContext:
    from .llm_httpx import trusting_context  # noqa: PLC0415 (see there)

    return trusting_context()


def _proxy_of(url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The proxy that the environment asks for (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, unless NO_PROXY).

    As options of a request, and what of them no message may repeat.
    """
    parsed = URL(url)
    if proxy_bypass(parsed.raw_authority):
        return {}, {}
    proxies = getproxies()
    proxy = proxies.get(parsed.scheme) or proxies.get("all")
    if not proxy:
        return {}, {}
    scheme, mark, rest = proxy.partition("://")
    if not mark or scheme not in {"http", "https"}:
        # Only what certainly is a scheme is shown: the rest may hold a password.
        found = f"the proxy {scheme}://" if mark and scheme.isalnum() else "a proxy that is no address"
        raise UsageFault(
            f"the environment asks for {found}, expected http:// or https://",
            f"set NO_PROXY={parsed.host} to go without one",
        )
    # Taken apart by hand: passwords often hold what should have been written with a percent sign.
    userinfo, _, place = rest.rpartition("@")
    user, _, password = (unquote(part) for part in userinfo.partition(":"))
    try:
        address = URL(f"{scheme}://{place}")
        basic = aiohttp.encode_basic_auth(user, password, "utf-8")
        address.origin()  # an address without a host has none
    except ValueError as error:
        raise UsageFault(
            f"the environment asks for a proxy that cannot be used: {error}",
            f"set NO_PROXY={parsed.host} to go without one",
        ) from None
    if not userinfo:
        return {"proxy": address}, {}
    secrets = {"proxy password": password, "proxy authorization": basic.removeprefix("Basic ")}
    long = {name: secret for name, secret in secrets.items() if len(secret) >= SHORTEST_PASSWORD}
    return {"proxy": address, "proxy_headers": _Hidden({_PROXY_AUTHORIZATION: basic})}, long


def _limits(timeout_s: float) -> tuple[float, aiohttp.ClientTimeout]:
    """A request's deadline, and what aiohttp has to know of it: so long a connection may take."""
    connect = min(LONGEST_CONNECT_S, timeout_s * CONNECT_SHARE)
    return timeout_s, aiohttp.ClientTimeout(connect=connect, sock_connect=connect)


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """A large body, a piece at a time."""
    for start in range(0, len(body), CHUNK):
        yield body[start : start + CHUNK]


async def _read(response: aiohttp.ClientResponse, pieces: list[bytes], *, encoded: bool) -> bool:
    """Read the body into `pieces`; false when it is too large."""
    content, size = response.content, 0
    try:
        source = decoded(response, LARGEST_BODY) if encoded else content.iter_any()
        async for piece in source:
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_BODY:
                return False
    finally:
        # Of a body that was read to its end nothing is left to do: its connection is free already.
        if not content.at_eof():
            response.close()
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
