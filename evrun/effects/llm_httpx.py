"""What httpx does for the model endpoint: it undoes content encodings, and knows which servers to trust.

Apart, because most runs against this machine need neither, and loading it takes as long as many requests.
"""

import ssl
from collections.abc import AsyncIterator

import aiohttp
import httpx

from .llm_failures import Undecodable


def trusting_context() -> ssl.SSLContext:
    """Whom to trust on the net: the authorities that certifi lists, or SSL_CERT_FILE and SSL_CERT_DIR."""
    return httpx.create_ssl_context()


async def decoded(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """An answer's body without its content encoding, as it comes.

    Raises:
        Undecodable: it is not what its header says. What aiohttp raises.
    """
    stream = _Raw(response.content)
    answer = httpx.Response(response.status, headers=list(response.raw_headers), stream=stream)
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
            yield piece
