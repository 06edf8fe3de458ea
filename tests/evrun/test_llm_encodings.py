"""Packed answers: unpacked whole, and never further than an answer may be large."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
import zstandard

from evrun.effects import llm
from evrun.effects.llm import Answered, Lost
from tests.evrun.loopback import post, read_request, serving

TEXT = b'{"a": "' + b"xyz" * 100_000 + b'"}'


def _bare(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


async def _answered(encoding, packed):
    """The outcome of a request whose answer comes in three pieces."""

    async def handle(reader, writer, came):
        await read_request(reader, came)
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(packed)}\r\n\r\n"
        writer.write(head.encode())
        third = len(packed) // 3
        for piece in (packed[:third], packed[third : 2 * third], packed[2 * third :]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async with serving(handle) as (base_url, _):
        return await post(base_url, timeout_s=30)


PACKED = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "gzip under its old name": ("X-GZIP", gzip.compress(TEXT)),
    "gzip twice": ("gzip, gzip", gzip.compress(gzip.compress(TEXT))),
    "gzip in several parts": ("gzip", gzip.compress(TEXT[:7]) + gzip.compress(TEXT[7:])),
    "gzip and something after it": ("gzip", gzip.compress(TEXT) + b"junk"),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate as some servers have it": ("deflate", _bare(TEXT)),
    "deflate, then gzip": ("deflate, gzip", gzip.compress(zlib.compress(TEXT))),
    "zstd, which nobody asked for": ("zstd", zstandard.compress(TEXT)),
    "identity": ("identity", TEXT),
    "what nobody knows": ("utf-8", TEXT),
}


@pytest.mark.parametrize("row", PACKED.values(), ids=PACKED.keys())
def test_a_packed_answer_is_unpacked_whole(row):
    """However it was packed."""
    sent = asyncio.run(_answered(*row))
    assert isinstance(sent, Answered), sent
    assert sent.body == TEXT


def test_an_answer_without_a_body_is_one_whatever_its_encoding_says():
    """Refusals often come so."""
    assert asyncio.run(_answered("gzip", b"")).body == b""


def _zeros(megabytes):
    packer = zlib.compressobj(wbits=31)
    first, more = (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + more * megabytes


BOMBS = {
    "gzip": ("gzip", _zeros(256)),
    "gzip twice": ("gzip, gzip", gzip.compress(_zeros(256))),
    "zstd": ("zstd", zstandard.compress(bytes(256 << 20))),
}


@pytest.mark.parametrize("row", BOMBS.values(), ids=BOMBS.keys())
def test_a_small_answer_that_would_unpack_to_a_huge_one_takes_no_memory(row, monkeypatch):
    """It is left when it has become too large, not when all of it is there."""
    monkeypatch.setattr(llm, "LARGEST_BODY", 1 << 20)
    tracemalloc.start()
    try:
        sent = asyncio.run(_answered(*row))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(sent, Lost)
    assert sent.reason == "too_large", sent
    assert most < 40 << 20


def test_what_is_unpacked_only_to_be_unpacked_again_is_bounded_too(monkeypatch):
    """Nothing may come of a gigabyte of empty parts but the time that they take."""
    monkeypatch.setattr(llm, "LARGEST_BODY", 1 << 20)
    sent = asyncio.run(_answered("gzip, gzip", gzip.compress(gzip.compress(b"") * 100_000)))
    assert isinstance(sent, Lost)
    assert sent.reason == "decoding"


def test_an_answer_packed_many_times_is_not_unpacked():
    """Nobody does that in good faith."""
    sent = asyncio.run(_answered(", ".join(["gzip"] * 5), gzip.compress(TEXT)))
    assert isinstance(sent, Lost)
    assert (sent.reason, "packed 5 times" in sent.message) == ("decoding", True)
