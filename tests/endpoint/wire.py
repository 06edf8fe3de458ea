"""HTTP/1.1 with keep-alive, by hand: fast enough that the client under test is what a benchmark measures."""

import asyncio
from typing import NamedTuple, Protocol

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
LARGEST_HEAD = 64 * 1024


class Head(NamedTuple):
    """A request's first line and its headers (names in lower case)."""

    method: str
    path: str
    headers: dict[str, str]


class Handler(Protocol):
    """What a connection hands its requests to."""

    def opened(self, connection: "Connection") -> None:
        """A client connected."""

    def request(self, connection: "Connection", head: Head, body: bytes) -> None:
        """A whole request came; the connection waits for `respond`, `close` or `reset`."""

    def closed(self, connection: "Connection") -> None:
        """The client left, or was closed."""


def response_bytes(status: int, headers: dict[str, str], body: bytes, *, length: int | None = None) -> bytes:
    """A response as bytes; `length` overrides the truth in Content-Length."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"content-length: {len(body) if length is None else length}\r\n\r\n")
    return "\r\n".join(lines).encode() + body


class Connection(asyncio.Protocol):
    """One client connection; its requests are answered one after the other."""

    def __init__(self, handler: Handler, number: int) -> None:
        self.handler = handler
        self.number = number
        self.buffer = bytearray()
        self.head: Head | None = None
        self.need = 0
        self.busy = False
        self.pending: object | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.handler.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.handler.closed(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came: a part of a request, one, or several."""
        self.buffer += data
        if not self.busy:
            self._next()

    def respond(self, data: bytes) -> None:
        """Write a whole response and go on with the next request."""
        self.transport.write(data)
        self.busy = False
        if self.buffer:
            asyncio.get_running_loop().call_soon(self._next)

    def cut(self, data: bytes) -> None:
        """Write some bytes, then close."""
        self.transport.write(data)
        self.transport.close()

    def reset(self) -> None:
        """Close with a TCP reset."""
        self.transport.abort()

    def _next(self) -> None:
        if self.head is None and not self._read_head():
            return
        if len(self.buffer) < self.need or self.head is None:
            return
        body = bytes(self.buffer[: self.need])
        del self.buffer[: self.need]
        head, self.head = self.head, None
        self.busy = True
        self.handler.request(self, head, body)

    def _read_head(self) -> bool:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > LARGEST_HEAD:
                self.cut(response_bytes(431, {}, b""))
            return False
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        del self.buffer[: end + 4]
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        method, path, _ = first.split(" ", 2)
        self.need = int(headers.get("content-length", "0"))
        self.head = Head(method, path, headers)
        if headers.get("expect") == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True
