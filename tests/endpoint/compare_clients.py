"""HTTP clients side by side, against this endpoint: ``python -m tests.endpoint.compare_clients [REQUESTS]``.

Requests a second and CPU per request of the client's process, at 8, 64 and 256 in flight; the numbers in
docs/decisions/0020 and 0125 are from here. Needs the extra `bench`.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
import httpx
from httpx_aiohttp import HttpxAiohttpClient

from evrun.effects.llm import Answered, Endpoint, LlmClient

from .client import running_endpoint

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi " * 100}]}).encode()
HEADERS = {"authorization": "Bearer k", "content-type": "application/json", "idempotency-key": "abc"}
One = Callable[[], Awaitable[None]]
Client = Callable[[str, int], AbstractAsyncContextManager[One]]


def _httpx(kind: type[httpx.AsyncClient]) -> Client:
    @asynccontextmanager
    async def made(base_url: str, connections: int) -> AsyncIterator[One]:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        async with kind(limits=limits, trust_env=False, headers=HEADERS, timeout=60) as client:

            async def one() -> None:
                (await client.post(f"{base_url}/chat/completions", content=BODY)).raise_for_status()

            yield one

    return made


@asynccontextmanager
async def _ours(base_url: str, connections: int) -> AsyncIterator[One]:
    async with LlmClient(Endpoint(base_url, "k"), connections=connections, timeout_s=60) as client:

        async def one() -> None:
            assert isinstance(await client.complete(BODY, idempotency_key="abc", timeout_s=60), Answered)

        yield one


@asynccontextmanager
async def _aiohttp(base_url: str, connections: int) -> AsyncIterator[One]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:

        async def one() -> None:
            async with session.post(f"{base_url}/chat/completions", data=BODY, headers=HEADERS) as response:
                await response.read()

        yield one


CLIENTS: dict[str, Client] = {
    "httpx.AsyncClient": _httpx(httpx.AsyncClient),
    "the same on httpx-aiohttp": _httpx(HttpxAiohttpClient),
    "LlmClient": _ours,
    "aiohttp alone": _aiohttp,
}


async def measured(client: Client, base_url: str, connections: int, requests: int) -> tuple[float, float]:
    """Requests a second, and microseconds of CPU per request."""
    async with client(base_url, connections) as one:
        await one()

        async def worker() -> None:
            for _ in range(requests // connections):
                await one()

        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(worker() for _ in range(connections)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = requests // connections * connections
    return done / wall, cpu / done * 1e6


def main(requests: int, rounds: int = 3) -> None:
    """Print the table, medians of a few rounds in turn."""
    with running_endpoint() as endpoint:
        for connections in (8, 64, 256):
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in CLIENTS}
            for _ in range(rounds):
                for name, client in CLIENTS.items():
                    found[name].append(
                        asyncio.run(measured(client, endpoint.base_url, connections, requests))
                    )
            for name, pairs in found.items():
                rate, cpu = (statistics.median(values) for values in zip(*pairs, strict=True))
                sys.stdout.write(f"{connections:4} {name:28} {rate:7.0f}/s {cpu:6.0f} us\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2048)
