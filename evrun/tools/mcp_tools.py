"""The tools of MCP servers, as toolsets: one a server, named after it."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from ..effects.secrets import Redactor
from ..errors import UsageFault, leaf
from .base import Tool, ToolContext, Toolset
from .mcp_config import Server
from .shown import as_result

if TYPE_CHECKING:
    from ..effects.mcp_client import Listed, McpServer

LONGEST_NAME = 64
TIMEOUT_S = 120.0
"""So long one call may take."""
_NO_LETTER = re.compile(r"[^A-Za-z0-9_-]")


@asynccontextmanager
async def open_servers(
    servers: Mapping[str, Server], taken: Iterable[str], *, marker: str, redactor: Redactor
) -> AsyncIterator[list[Toolset]]:
    """Start these servers, and give their tools; they are ended when the context is left.

    `taken` are names of other tools: one of a server that is among them, or that two servers have, is
    offered with its server's name before it.

    Raises:
        UsageFault: the `mcp` package is not there, or a server does not start.
    """
    if not servers:
        yield []
        return
    client = _client_module()
    opened = [_server(client, name, server, marker, redactor) for name, server in servers.items()]
    try:
        async with anyio.create_task_group() as group:
            await _started(group, opened)
            yield _toolsets(opened, taken)
            group.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        raise leaf(error) from error


async def _started(group: TaskGroup, servers: list["McpServer"]) -> None:
    """Start all of them at once, and wait for each: one that is cancelled while it starts could be left over.

    Raises:
        UsageFault: one of them did not start.
    """
    faults: list[UsageFault] = []

    async def start(server: "McpServer") -> None:
        try:
            await group.start(server.serve)
        except UsageFault as fault:
            faults.append(fault)

    async with anyio.create_task_group() as starting:
        for server in servers:
            starting.start_soon(start, server)
    if faults:
        raise faults[0]


def _client_module() -> Any:
    try:
        from ..effects import mcp_client  # noqa: PLC0415 (an extra, and slow to load)
    except ModuleNotFoundError as error:
        raise UsageFault(
            f"--mcp-config needs the mcp package: {error}", hint="pip install 'evrun[mcp]'"
        ) from error
    return mcp_client


def _server(client: Any, name: str, server: Server, marker: str, redactor: Redactor) -> "McpServer":
    command = None if server.command is None else [server.command, *server.args]
    found: McpServer = client.McpServer(
        name,
        command=command,
        url=server.url,
        values=server.env if command is not None else server.headers,
        directory=None if server.cwd is None else Path(server.cwd).expanduser(),
        marker=f"{marker}/mcp-{name}",
        redactor=redactor,
    )
    return found


def _toolsets(servers: list["McpServer"], taken: Iterable[str]) -> list[Toolset]:
    plain = {server.name: [_plain(tool.name) for tool in server.tools] for server in servers}
    count = Counter([*taken, *(name for names in plain.values() for name in names)])
    found = []
    for server in servers:
        tools = []
        for listed, name in zip(server.tools, plain[server.name], strict=True):
            offered = name if count[name] == 1 else f"{server.name}_{name}"[:LONGEST_NAME]
            tools.append(_tool(server, listed, offered))
        found.append(Toolset(server.name, tuple(tools)))
    return found


def _plain(name: str) -> str:
    """A tool's name in the letters that every endpoint takes."""
    return _NO_LETTER.sub("_", name)[:LONGEST_NAME] or "tool"


def _tool(server: "McpServer", listed: "Listed", name: str) -> Tool:
    schema = {"type": "object", "properties": {}, **listed.schema}
    return Tool(
        name,
        listed.description,
        schema,
        partial(_call, server, listed.name),
        safe_to_repeat=listed.idempotent,
        concurrent=listed.reads_only,
        fit=partial(_fit, name, schema),
    )


def _fit(name: str, schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any] | str:
    """The server checks its arguments itself; what is plainly missing need not go there."""
    missing = [each for each in schema.get("required", []) if each not in given]
    return f"{name} needs the argument{'s'[: len(missing) > 1]} {', '.join(missing)}" if missing else given


async def _call(
    server: "McpServer", tool: str, arguments: dict[str, Any], context: ToolContext
) -> dict[str, Any]:
    """Call a tool: structured content as it is, else `{"result": text, "error": null}`."""
    failed = _client_module().McpFailed
    try:
        found = await server.call(tool, arguments, min(TIMEOUT_S, context.timeout_s))
    except failed as error:
        return {"error": str(error)}
    if found.is_error:
        return {"error": found.text or "the tool says that it failed, and not why"}
    value = found.text if found.structured is None else found.structured
    return as_result(value, context.redactor)
