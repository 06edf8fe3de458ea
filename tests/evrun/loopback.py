"""Asking real loopback servers: one request, and servers of one coroutine."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

from evrun.effects.llm import Endpoint, LlmClient

KEY = "sk-very-secret-0123456789"
BODY = json.dumps({"model": "test-model", "messages": [{"role": "user", "content": "two and two"}]}).encode()
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def post(base_url, *, timeout_s=5.0, body=BODY, connections=4, **endpoint):
    """The outcome of one request."""
    async with LlmClient(Endpoint(base_url, **endpoint), connections=connections, timeout_s=5) as client:
        return await client.complete(body, idempotency_key="key-1", timeout_s=timeout_s)


@asynccontextmanager
async def serving(handle, **options):
    """A server of one coroutine (reader, writer); yields its address and the list of what came in."""
    came = []

    async def connected(reader, writer):
        try:
            await handle(reader, writer, came)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, **options)
    port = server.sockets[0].getsockname()[1]
    scheme = "https" if "ssl" in options else "http"
    try:
        yield f"{scheme}://127.0.0.1:{port}/v1", came
    finally:
        server.close()


async def read_request(reader, came):
    """Read one whole request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    came.append(head + await reader.readexactly(length))


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
