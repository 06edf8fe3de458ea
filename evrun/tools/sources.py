"""Where a run's toolsets come from, and how they are opened for a session.

Looking at the sources (the user's files are run, the file of MCP servers is read) refuses all that can be
refused before anything is written; starting the servers comes after.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from ..effects.secrets import Redactor, find_secrets
from ..errors import UsageFault
from .base import Toolset
from .distributions import percents, split_by_availability
from .mcp_config import Server, Servers, read_servers, server_names
from .mcp_tools import open_servers
from .own import load_tools
from .toolbox import BUILT_IN, Toolbox, check_toolset
from .web import web_toolset


class Sources(msgspec.Struct, frozen=True):
    """What a run's settings say about tools. `asked` null means: drawn from `distribution`."""

    asked: Sequence[str] | None
    distribution: str
    tools: Sequence[str]
    mcp_config: str | None
    web_allow: Sequence[str] | None

    @property
    def only_built_in(self) -> bool:
        """Whether evrun alone knows all of it."""
        return not self.tools and self.mcp_config is None

    def own_names(self) -> list[str]:
        """The toolsets of the user's own files."""
        return [Path(path).stem for path in self.tools]


class Prepared(msgspec.Struct, frozen=True):
    """Sources that were looked at: all toolsets but those of MCP servers, which are still to be started."""

    sources: Sources
    toolsets: list[Toolset]
    servers: dict[str, Server]
    secrets: dict[str, str]
    unused: list[str]


def check_sources(sources: Sources) -> None:
    """Refuse what can be seen in the settings alone.

    Raises:
        UsageFault: an unknown toolset or distribution, one name twice, an allow-list that is none.
    """
    percents(sources.distribution)
    web_toolset(sources.web_allow)
    names = [*BUILT_IN, *sources.own_names()]
    _refuse_doubled(names)
    if sources.mcp_config is None:
        for name in sources.asked or []:
            check_toolset(name, names)


def prepare(sources: Sources, environment: Mapping[str, str]) -> Prepared:
    """Look at all sources; nothing is started.

    Raises:
        UsageFault: whatever is wrong with them.
    """
    config = None if sources.mcp_config is None else Path(sources.mcp_config)
    named = [] if config is None else server_names(config)
    known = [*BUILT_IN, *sources.own_names(), *named]
    _refuse_doubled(known)
    for name in sources.asked or []:
        check_toolset(name, known)
    wanted = None if sources.asked is None else set(sources.asked)
    own = [load_tools(Path(path)) for path in sources.tools if wanted is None or Path(path).stem in wanted]
    built_in = [web_toolset(sources.web_allow) if name == "web" else each for name, each in BUILT_IN.items()]
    # Seen now, because two of them cannot be told apart by a model.
    Toolbox([*built_in, *own])
    servers = Servers({}, {}) if config is None else read_servers(config, environment, wanted)
    unused = [] if wanted is None else [name for name in known[len(BUILT_IN) :] if name not in wanted]
    return Prepared(sources, [*built_in, *own], servers.servers, servers.secrets, unused)


def _refuse_doubled(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageFault(
                f"there are two toolsets of the name {name}",
                hint="rename the file of --tools, or the server in the file of --mcp-config",
            )


@asynccontextmanager
async def open_toolbox(
    prepared: Prepared, environment: Mapping[str, str], *, marker: str
) -> AsyncIterator[Toolbox]:
    """The toolsets of a session; MCP servers live as long as the context. `marker` names their processes.

    Raises:
        UsageFault: a server does not start, or a tool's name is there twice.
    """
    taken = [tool.name for toolset in prepared.toolsets for tool in toolset.tools]
    redactor = Redactor(find_secrets(environment) | prepared.secrets)
    async with open_servers(prepared.servers, taken, marker=marker, redactor=redactor) as further:
        yield Toolbox([*prepared.toolsets, *further], prepared.secrets)


def chosen_toolsets(sources: Sources, available: Iterable[str]) -> list[str]:
    """The toolsets that attempts may get.

    Those asked for, or what there is of the distribution and, with it, the user's own and MCP servers that it
    does not speak of: they were asked for by their options.
    """
    if sources.asked is not None:
        return list(sources.asked)
    available = list(available)
    drawn, _ = split_by_availability(sources.distribution, available)
    return [*drawn, *always_given(sources.distribution, available)]


def left_out(distribution: str, available: Iterable[str]) -> list[str]:
    """The toolsets of a distribution that are not there: to be reported once, never drawn."""
    return split_by_availability(distribution, list(available))[1]


def always_given(distribution: str, available: Iterable[str]) -> list[str]:
    """The toolsets that every attempt gets whatever is drawn: those that no distribution speaks of."""
    table = percents(distribution)
    return [name for name in available if name not in BUILT_IN and name not in table]
