"""The file of `--mcp-config`: which MCP servers there are and how they are reached.

The common shape: `{"mcpServers": {NAME: {"command", "args", "env", "cwd"} | {"url", "headers"}}}`. In values
of `env` and `headers`, `$NAME` and `${NAME}` stand for variables of the environment; these values are handed
to the server and are in no record.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..effects.secrets import PLACEHOLDERS, SHORTEST_SECRET
from ..errors import UsageFault

SHAPE = '{"mcpServers": {"NAME": {"command": "…", "args": [], "env": {}}, "OTHER": {"url": "https://…"}}}'
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class Server(msgspec.Struct, frozen=True):
    """How one server is reached: a command or a URL. What else other programs write there is passed over."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False


class Servers(msgspec.Struct, frozen=True):
    """The servers of a file, by name, and the values of their environments and headers that are secret."""

    servers: dict[str, Server]
    secrets: dict[str, str]


def server_names(path: Path) -> list[str]:
    """The names of the servers of a file.

    Raises:
        UsageFault: the file cannot be read or is something else.
    """
    return list(_read(path))


def read_servers(path: Path, environment: Mapping[str, str], wanted: set[str] | None) -> Servers:
    """The servers of a file that are wanted (null: all), their variables filled in.

    Raises:
        UsageFault: with the server and what is wrong with it.
    """
    found: dict[str, Server] = {}
    secrets: dict[str, str] = {}
    for name, value in _read(path).items():
        if wanted is not None and name not in wanted:
            continue
        server = _server(path, name, value)
        if server.disabled:
            continue
        env = _filled(path, name, server.env, environment)
        headers = _filled(path, name, server.headers, environment)
        for variable, text in (env | headers).items():
            secrets |= _secrets(f"{name}_{variable}", text)
        found[name] = msgspec.structs.replace(server, env=env, headers=headers)
    return Servers(found, secrets)


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageFault(
            f"--mcp-config {path}: {error.strerror}", hint=f"expected a file of {SHAPE}"
        ) from error
    except ValueError as error:
        raise UsageFault(f"--mcp-config {path}: bad JSON: {error}", hint=f"expected {SHAPE}") from error
    servers = value.get("mcpServers") if isinstance(value, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise UsageFault(f"--mcp-config {path}: names no servers", hint=f"expected {SHAPE}")
    for name in servers:
        if not _NAME.fullmatch(name):
            raise UsageFault(
                f"--mcp-config {path}: the server {name!r} cannot be a toolset's name",
                hint="use letters, digits, '_' and '-', at most 40",
            )
    return servers


def _server(path: Path, name: str, value: object) -> Server:
    try:
        server = msgspec.convert(value, Server)
    except msgspec.ValidationError as error:
        raise UsageFault(f"--mcp-config {path}: server {name}: {error}", hint=f"expected {SHAPE}") from error
    if (server.command is None) == (server.url is None):
        raise UsageFault(
            f"--mcp-config {path}: server {name}: expected either command or url", hint=f"expected {SHAPE}"
        )
    if server.url is not None and not server.url.startswith(("http://", "https://")):
        raise UsageFault(f"--mcp-config {path}: server {name}: {server.url} is no http or https address")
    return server


def _filled(
    path: Path, server: str, values: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    def value_of(found: re.Match[str]) -> str:
        variable = found[1] or found[2]
        if variable not in environment:
            raise UsageFault(
                f"--mcp-config {path}: server {server} wants ${variable}, which is not set",
                hint=f"export {variable}=…",
            )
        return environment[variable]

    return {name: _VARIABLE.sub(value_of, text) for name, text in values.items()}


def _secrets(name: str, text: str) -> dict[str, str]:
    """What of a value nobody may see: all of it, and without the scheme that a header begins with.

    Paths and web addresses are not taken for secrets: they stand in many a result.
    """
    parts = {name: text.strip(), f"{name}_": text.strip().rpartition(" ")[2]}
    return {
        key: part
        for key, part in parts.items()
        if len(part) >= SHORTEST_SECRET
        and part.lower() not in PLACEHOLDERS
        and not part.startswith(("/", "http"))
    }
