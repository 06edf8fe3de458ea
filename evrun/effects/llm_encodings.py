"""An answer's body without its content encoding, in pieces of a bounded size however well it was packed."""

import zlib
from collections.abc import AsyncIterator, Iterable, Iterator

import aiohttp

from .llm_failures import Undecodable

PIECE = 256 << 10
MOST_LAYERS = 4
_GZIP, _ZLIB, _BARE = 31, 15, -15  # as zlib names them: the bits of its window, and what is around the data
_PACKINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}
_PLAIN = frozenset({"", "identity"})


async def decoded(response: aiohttp.ClientResponse, most: int) -> AsyncIterator[bytes]:
    """An answer's body as it comes; encodings that nobody knows stay as they are.

    `most` bounds what is unpacked only to be unpacked again.

    Raises:
        Undecodable: it is not what its header says. What aiohttp raises.
    """
    values = response.headers.getall("content-encoding")
    named = [name.strip().lower() for value in values for name in value.split(",")]
    names = [name for name in named if name not in _PLAIN]
    if len(names) > MOST_LAYERS:
        raise Undecodable(f"packed {len(names)} times")
    layers = [_Layer(_PACKINGS[name], most) for name in reversed(names) if name in _PACKINGS]
    if names and not layers:
        from .llm_httpx import decoded as decoded_by_httpx  # noqa: PLC0415 (see there)

        async for piece in decoded_by_httpx(response, names[0]):
            yield piece
        return
    async for raw in response.content.iter_any():
        pieces: Iterable[bytes] = (raw,)
        for layer in layers:
            pieces = layer.undone(pieces)
        for piece in pieces:
            yield piece


class _Layer:
    """One encoding, undone."""

    def __init__(self, bits: int, most: int) -> None:
        self._bits = bits
        self._inner = zlib.decompressobj(bits)
        self._begun = False
        self._left = most

    def undone(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield from self._unpacked(piece)

    def _unpacked(self, rest: bytes) -> Iterator[bytes]:
        inner = self._inner
        while True:
            if inner.eof:
                # gzip may be many one after another; what else follows the end is no part of the answer.
                if self._bits != _GZIP or not rest.startswith(b"\x1f"):
                    return
                self._inner = zlib.decompressobj(self._bits)
            piece = self._next(rest)
            inner = self._inner
            if piece:
                yield piece
                self._left -= len(piece)
                if self._left < 0:
                    raise Undecodable("too much is packed in it")
            rest = inner.unused_data if inner.eof else inner.unconsumed_tail
            if not rest and (inner.eof or len(piece) < PIECE):
                return

    def _next(self, packed: bytes) -> bytes:
        try:
            piece = self._inner.decompress(packed, PIECE)
        except zlib.error as error:
            if self._bits != _ZLIB or self._begun:
                raise Undecodable(str(error)) from error
            # Some servers send "deflate" without what should be around it.
            self._bits, self._inner = _BARE, zlib.decompressobj(_BARE)
            return self._next(packed)
        self._begun = True
        return piece
