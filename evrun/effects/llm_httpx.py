"""What httpx does for the model endpoint: encodings that nobody asked for, and which servers to trust.

Apart, because most runs against this machine need neither, and loading it takes as long as many requests.
"""

import os
import ssl
from collections.abc import AsyncIterator

import aiohttp
import httpx

from ..errors import UsageFault
from .llm_failures import Undecodable

MORSEL = 512
"""httpx unpacks all that it is given at once: of so many bytes zstd makes 16 MB at the most."""


def trusting_context() -> ssl.SSLContext:
    """Whom to trust on the net: the authorities that certifi lists, or SSL_CERT_FILE and SSL_CERT_DIR.

    Raises:
        UsageFault: those cannot be read.
    """
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        given = [f"{n}={os.environ[n]}" for n in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(n)]
        raise UsageFault(
            f"no certificates can be read ({', '.join(given) or 'certifi'}): {error}",
            "name a file of certificates in PEM, or unset the variable",
        ) from error


async def decoded(response: aiohttp.ClientResponse, encoding: str) -> AsyncIterator[bytes]:
    """An answer's body without this encoding, as it comes; as it is where httpx does not know it.

    Raises:
        Undecodable: it is not what its header says. What aiohttp raises.
    """
    headers = {"content-encoding": encoding}
    answer = httpx.Response(response.status, headers=headers, stream=_Raw(response.content))
    try:
        async for piece in answer.aiter_bytes():
            yield piece
    except httpx.DecodingError as error:
        raise Undecodable(str(error)) from error


class _Raw(httpx.AsyncByteStream):
    """The body as it came."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._content.iter_any():
            for start in range(0, len(piece), MORSEL):
                yield piece[start : start + MORSEL]
