"""MCP servers: started or reached once a session, kept, and ended with everything they started.

The only home of the `mcp` package, which takes seconds to load: import this module when a server is wanted.
"""

import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types
from anyio.abc import TaskStatus
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from ..errors import UsageFault, leaf
from .processes import BoundedOutput, dies_with_us, keeping_output
from .secrets import ALLOWED_NAMES, ALLOWED_PREFIX, MARKER_VARIABLE, Redactor

START_S = 60.0
"""A server that a package manager has to fetch first takes long."""
KEPT_BYTES = 2000
_KEPT_NAMES = (*ALLOWED_NAMES, "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
"""A server is a program that the user chose, with a home for its caches; secrets it gets by name."""

# What the package has to say about servers that misbehave is said in the calls' errors.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False


class McpFailed(Exception):
    """A call that came to nothing, in words for the model."""


class Listed:
    """A tool as a server lists it."""

    def __init__(self, found: mcp_types.Tool) -> None:
        hints = found.annotations
        self.name = found.name
        self.description = found.description or found.title or found.name
        self.schema: dict[str, Any] = dict(found.input_schema)
        self.reads_only = bool(hints and hints.read_only_hint)
        self.idempotent = self.reads_only or bool(hints and hints.idempotent_hint)


class Result:
    """What a call gave back: texts, in their order, and structured content (null where there is none)."""

    def __init__(self, found: mcp_types.CallToolResult) -> None:
        self.text = "\n".join(_text(part) for part in found.content)
        self.structured: Any = found.structured_content
        self.is_error = bool(found.is_error)


class McpServer:
    """A server and the connection to it. Run `serve` in a task group; `tools` are there once it has started.

    A server that ends is started once more, and again only after it has answered: what always ends is not
    started for ever.
    """

    def __init__(
        self,
        name: str,
        *,
        command: list[str] | None,
        url: str | None,
        values: Mapping[str, str],
        directory: Path | None,
        marker: str,
        redactor: Redactor,
    ) -> None:
        """`values` are the variables of a command's environment, or the headers of a URL's requests."""
        self.name = name
        self.tools: list[Listed] = []
        self._command = command
        self._url = url
        self._values = dict(values)
        self._directory = directory
        self._marker = marker
        self._redactor = redactor
        self._said = BoundedOutput(KEPT_BYTES)
        self._client: Client | None = None
        self._changed = anyio.Event()
        self._lost = anyio.Event()
        self._answered = True
        self._gone: str | None = None

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the server until cancelled.

        Raises:
            UsageFault: it cannot be started or does not answer; only before `task_status.started()`.
        """
        try:
            with anyio.fail_after(START_S) as deadline:
                async with self._connection() as client:
                    self.tools = await _list_tools(client)
                    deadline.deadline = float("inf")
                    self._now(client)
                    task_status.started()
                    await self._lost.wait()
        except Exception as error:
            if self._client is None:
                raise UsageFault(
                    self._explained(error), "look at its command in the file, and try it"
                ) from error
        while self._answered:
            await self._serve_again()
        self._gone = f"the MCP server {self.name} has ended and does not come back"
        self._now(None)

    async def _serve_again(self) -> None:
        self._answered = False
        self._now(None)
        self._lost = anyio.Event()
        with suppress(Exception):
            async with self._connection() as client:
                # It has answered the handshake; each end of it is seen by a call, so this ends with those.
                self._answered = True
                self._now(client)
                await self._lost.wait()

    async def call(self, tool: str, arguments: dict[str, Any], timeout_s: float) -> Result:
        """Call a tool, once.

        Raises:
            McpFailed: it gave nothing back.
        """
        with anyio.move_on_after(timeout_s):
            client = await self._connected()
            try:
                found = await client.call_tool(tool, arguments)
            except MCPError as error:
                if error.error.code == mcp_types.CONNECTION_CLOSED:
                    self._lost.set()
                    raise McpFailed(f"the MCP server {self.name} ended during the call") from error
                self._answered = True
                raise McpFailed(f"{tool}: {error}") from error
            except Exception as error:
                if self._url is not None:
                    self._lost.set()
                raise McpFailed(f"{tool}: {type(error).__name__}: {error}") from error
            self._answered = True
            return Result(found)
        raise McpFailed(f"{tool}: not done within {timeout_s:g} s")

    async def _connected(self) -> Client:
        while self._client is None or self._lost.is_set():
            if self._gone is not None:
                raise McpFailed(self._gone)
            await self._changed.wait()
        return self._client

    def _now(self, client: Client | None) -> None:
        self._client = client
        self._changed.set()
        self._changed = anyio.Event()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Client]:
        with keeping_output(self._said) as said:
            async with Client(self._transport(said), mode="auto") as client:
                yield client

    @asynccontextmanager
    async def _transport(self, said: int) -> AsyncIterator[Any]:
        """The streams to the server; `_lost` is set when it hangs up."""
        async with self._streams(said) as (read, write), anyio.create_task_group() as group:
            passed_on, handed_over = anyio.create_memory_object_stream[Any](0)

            async def pass_on() -> None:
                async with passed_on:
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        async for message in read:
                            await passed_on.send(message)
                self._lost.set()

            group.start_soon(pass_on)
            yield handed_over, write
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def _streams(self, said: int) -> AsyncIterator[Any]:
        if self._url is not None:
            async with (
                create_mcp_http_client(headers=self._values) as http,
                streamable_http_client(self._url, http_client=http) as streams,
            ):
                yield streams
            return
        assert self._command is not None
        program, *arguments = [*dies_with_us(), *self._command]
        server = StdioServerParameters(
            command=program, args=arguments, env=self._environment(), cwd=self._directory
        )
        with os.fdopen(os.dup(said), "w") as errors:
            async with stdio_client(server, errlog=errors) as streams:
                yield streams

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT_NAMES or name.startswith(ALLOWED_PREFIX)
        }
        return {**kept, **self._values, MARKER_VARIABLE: self._marker}

    def _explained(self, error: BaseException) -> str:
        cause = leaf(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(cause, TimeoutError):
            what = f"it did not answer within {START_S:g} s"
        elif isinstance(cause, MCPError) and self._url is None:
            what = f"it ended before it had answered ({cause})"
        else:
            what = f"{type(cause).__name__}: {cause}"
        head, tail, _ = self._said.parts()
        said = " ".join((head + tail).decode("utf-8", "replace").split())[-500:]
        text = (
            f"the MCP server {self.name} could not be started: {what}{f'; it said: {said}' if said else ''}"
        )
        return self._redactor.clean_text(text)


async def _list_tools(client: Client) -> list[Listed]:
    found: list[Listed] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [Listed(each) for each in page.tools]
        cursor = page.next_cursor
        if not cursor:
            return found


def _text(part: Any) -> str:
    """A part of a result as text: what is no text is named."""
    match part:
        case mcp_types.TextContent():
            return part.text
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as resource):
            return resource.text
        case mcp_types.ResourceLink():
            return f"[{part.name}]({part.uri})"
        case _:
            return f"[{getattr(part, 'mime_type', None) or part.type}: left out]"
