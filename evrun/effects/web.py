"""Fetching for a model: one GET, bounded in time, size and redirects, to checked addresses alone.

The connection goes to an address that was checked, not to a name: a name could stand for another address by
the time it is looked up again. No proxy, no cookies, no credentials.
"""

import socket
import ssl
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import anyio
import httpx

from .foreign import in_daemon_thread

LARGEST_BODY = 5 << 20
MOST_REDIRECTS = 5
MOST_ADDRESSES = 3
"""So many addresses of a host are tried."""
CONNECT_S = 10.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_DECODED = frozenset({"", "identity", "gzip", "deflate"})
_PORTS = {"http": 80, "https": 443}
_ACCEPTED = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"


class FetchRefused(ValueError):
    """A fetch that may not be made, or came to nothing; the text is for the model."""


class Fetched(NamedTuple):
    """An answer: where it came from in the end, its status, its type as the server says, and its bytes.

    `cut` says that there were more than `LARGEST_BODY`.
    """

    url: str
    status: int
    content_type: str
    body: bytes
    cut: bool


class Rules(NamedTuple):
    """Why a host and port may not be asked, or null; and the same for an address that a host stands for."""

    of_host: Callable[[str, int], str | None]
    of_address: Callable[[str, int, str], str | None]


async def fetch(url: str, rules: Rules, *, agent: str, timeout_s: float) -> Fetched:
    """GET a page, and follow its redirects, each of them checked like the first.

    Raises:
        FetchRefused: with what was wrong.
    """
    try:
        with anyio.fail_after(timeout_s):
            async with httpx.AsyncHTTPTransport(verify=_tls()) as transport:
                return await _follow(transport, _checked(url), rules, agent)
    except TimeoutError:
        raise FetchRefused(f"{url}: not done within {timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
        raise FetchRefused(f"{url}: {type(error).__name__}: {error}") from None


async def _follow(transport: httpx.AsyncHTTPTransport, url: httpx.URL, rules: Rules, agent: str) -> Fetched:
    for _ in range(MOST_REDIRECTS + 1):
        response = await _get(transport, url, rules, agent)
        try:
            target = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not target:
                body, cut = await _read(response)
                return Fetched(
                    str(url), response.status_code, response.headers.get("content-type", ""), body, cut
                )
        finally:
            await response.aclose()
        url = _checked(str(url.join(target)))
    raise FetchRefused(f"{url}: more than {MOST_REDIRECTS} redirects")


def _checked(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url.strip())
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise FetchRefused(f"{url[:200]} is no URL: {error}") from None
    if found.scheme not in _PORTS or not found.host:
        raise FetchRefused(f"{url[:200]}: expected an address that begins with https:// or http://")
    if found.userinfo:
        raise FetchRefused("the URL has a user name in it; only pages that need none can be fetched")
    return found.copy_with(fragment=None)


async def _get(
    transport: httpx.AsyncHTTPTransport, url: httpx.URL, rules: Rules, agent: str
) -> httpx.Response:
    host, port = url.host, url.port or _PORTS[url.scheme]
    refusal = rules.of_host(host, port)
    if refusal is not None:
        raise FetchRefused(refusal)
    problem: Exception | None = None
    for address in (await _addresses(host, port, rules))[:MOST_ADDRESSES]:
        request = httpx.Request(
            "GET",
            url.copy_with(host=address),
            headers={
                "host": url.netloc.decode("ascii"),
                "user-agent": agent,
                "accept": _ACCEPTED,
                "accept-encoding": "gzip, deflate",
            },
            extensions={"sni_hostname": host, "timeout": {"connect": CONNECT_S}},
        )
        try:
            return await transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            problem = error
    raise FetchRefused(f"{host}:{port}: no connection: {problem}")


async def _addresses(host: str, port: int, rules: Rules) -> list[str]:
    """The addresses of a host, all of which may be asked: one that may not be makes the host suspect."""
    try:
        # Its own thread, because a name server that does not answer holds one for long.
        found = await in_daemon_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        raise FetchRefused(f"{host}: no such host ({getattr(error, 'strerror', None) or error})") from None
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    for address in addresses:
        refusal = rules.of_address(host, port, address)
        if refusal is not None:
            raise FetchRefused(refusal)
    return addresses


async def _read(response: httpx.Response) -> tuple[bytes, bool]:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _DECODED:
        raise FetchRefused(f"the page comes as {encoding}, which was not asked for")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LARGEST_BODY:
            return bytes(body[:LARGEST_BODY]), True
    return bytes(body), False


@cache
def _tls() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than many a fetch."""
    return httpx.create_ssl_context()
