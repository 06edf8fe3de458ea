"""Tool calls of an attempt: each recorded before it runs and when it has ended."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from eventlog.events import Event, ToolFinished, ToolStarted
from projections import Attempt, ToolCall, tool_succeeded

from ..effects.clock import monotonic
from ..effects.containers import Containers, NoContainer
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor
from ..journal import Journal
from ..tools import Tool, Toolbox, ToolContext, parse_arguments, run_tool
from .brief import Brief
from .briefs import image_of
from .decide import RunTools


class Ready(msgspec.Struct, frozen=True):
    """A tool call that can run."""

    position: int
    tool: Tool
    arguments: dict[str, object]
    text: str


class Rejected(msgspec.Struct, frozen=True):
    """A tool call that goes back to the model as an error, without running."""

    position: int
    problem: str


class OwnCall(msgspec.Struct, frozen=True):
    """A tool call of an own agent's code: its number in the attempt, and the digest of its arguments."""

    number: int
    name: str
    arguments: dict[str, Any]
    digest: bytes


def prepare(call: ToolCall, position: int, brief: Brief, toolbox: Toolbox) -> Ready | Rejected:
    """Look at a tool call before anything happens: is there such a tool here, and do the arguments fit?"""
    offered = [tool["name"] for tool in brief.tools]
    tool = toolbox.find(call.name) if call.name in offered else None
    if tool is None:
        return Rejected(position, f"unknown tool {call.name!r}; available: {', '.join(offered) or 'none'}")
    arguments = parse_arguments(call.arguments, tool)
    if isinstance(arguments, str):
        return Rejected(position, arguments)
    return Ready(position, tool, arguments, call.arguments)


def attempt_directory(work: Path, unit: str, attempt: int) -> Path:
    """The private directory of an attempt, named after its unit."""
    name = unit.removeprefix("prompt:").replace("#", "-").replace(".", "-")
    return work / f"{name}-a{attempt}"


class ToolPlace(NamedTuple):
    """Where tools work and how their processes are known: what all attempts of a session have in common."""

    work: Path
    marker: str
    redactor: Redactor
    containers: Containers


class ToolRunner:
    """Runs the tool calls of attempts, each attempt in its own directory under the work directory."""

    def __init__(self, journal: Journal, toolbox: Toolbox, place: ToolPlace) -> None:
        self._journal = journal
        self._toolbox = toolbox
        self._work = place.work
        self._marker = place.marker
        self._redactor = place.redactor
        self._containers = place.containers

    def directory(self, unit: str, attempt: int) -> Path:
        """Where an attempt's tools work."""
        return attempt_directory(self._work, unit, attempt)

    def definitions(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """What models are told of the tools of these toolsets."""
        return [tool for tools in self._toolbox.definitions(names).values() for tool in tools]

    def safe_to_repeat(self, name: str) -> bool:
        """Whether a tool that was started and not seen to finish may simply be run again."""
        return self._toolbox.safe_to_repeat(name)

    async def refusal(self, row: dict[str, Any]) -> NoContainer | None:
        """Why the commands of a row cannot run where it wants them to; null: they can, its image is there."""
        if image_of(row) is None and row.get("cwd") is None:
            return None
        place = await self._containers.place(image_of(row), row.get("cwd"))
        return place if isinstance(place, NoContainer) else None

    async def run(self, attempt: Attempt, step: RunTools, brief: Brief, timeout_s: float) -> None:
        """Run the calls of one turn: together where each of them is safe, else one after the other."""
        calls = attempt.answers()[step.turn - 1].tool_calls
        prepared = [prepare(calls[position], position, brief, self._toolbox) for position in step.positions]
        for call in prepared:
            if isinstance(call, Rejected):
                await self._reject(attempt, step.turn, call)
        ready = [call for call in prepared if isinstance(call, Ready)]
        if len(ready) > 1 and all(call.tool.concurrent for call in ready):
            async with anyio.create_task_group() as group:
                for call in ready:
                    group.start_soon(self._one, attempt, step.turn, call, brief, timeout_s)
        else:
            for call in ready:
                await self._one(attempt, step.turn, call, brief, timeout_s)

    async def _one(self, attempt: Attempt, turn: int, call: Ready, brief: Brief, timeout_s: float) -> None:
        digest = hashlib.sha256(call.text.encode("utf-8", "surrogatepass")).digest()[:16]
        await self._journal.record(
            ToolStarted(attempt.unit, attempt.attempt, turn, call.position, call.tool.name, digest)
        )
        await self._act(attempt, turn, call, brief, timeout_s)

    async def _act(self, attempt: Attempt, turn: int, call: Ready, brief: Brief, timeout_s: float) -> str:
        began = monotonic()
        try:
            context = await self._context(attempt, brief, timeout_s)
        except OSError as error:
            content = msgspec.json.encode({"error": f"no working directory: {error.strerror}"}).decode()
        else:
            content = await run_tool(call.tool, call.arguments, context)
        took_ms = round((monotonic() - began) * 1000)
        return await self._finish(attempt, turn, call.position, content, took_ms)

    async def call(
        self,
        attempt: Attempt,
        own: OwnCall,
        brief: Brief,
        timeout_s: float,
        first: tuple[Event, ...],
    ) -> str:
        """Run a tool for an own agent's code and give back its result.

        `first` is recorded in one commit with its beginning.
        """
        text = msgspec.json.encode(own.arguments).decode()
        ready = prepare(ToolCall("", own.name, text), own.number, brief, self._toolbox)
        if isinstance(ready, Rejected):
            return msgspec.json.encode({"error": ready.problem}).decode()
        await self._journal.record(
            *first, ToolStarted(attempt.unit, attempt.attempt, 0, own.number, own.name, own.digest)
        )
        return await self._act(attempt, 0, ready, brief, timeout_s)

    async def _reject(self, attempt: Attempt, turn: int, call: Rejected) -> None:
        content = msgspec.json.encode({"error": call.problem}).decode()
        await self._finish(attempt, turn, call.position, content, 0)

    async def _finish(self, attempt: Attempt, turn: int, position: int, content: str, took_ms: int) -> str:
        clean = self._redactor.clean(content.encode("utf-8", "surrogatepass"))
        # Judged as it is recorded, so that a replay would judge it alike.
        success = tool_succeeded(clean.decode("utf-8", "replace"))
        await self._journal.record(
            ToolFinished(attempt.unit, attempt.attempt, turn, position, clean, success, took_ms)
        )
        return clean.decode("utf-8", "surrogatepass")

    async def end(self, attempt: Attempt) -> None:
        """Nothing that an attempt's tools started may outlive it, even what left its process group."""
        if attempt.own is not None or any(turn.started for turn in attempt.turns):
            marker = f"{self._marker}/{self.directory(attempt.unit, attempt.attempt).name}"
            await anyio.to_thread.run_sync(kill_orphans, marker)
            await self._containers.end(marker)

    async def _context(self, attempt: Attempt, brief: Brief, timeout_s: float) -> ToolContext:
        directory = self.directory(attempt.unit, attempt.attempt)
        for made in (self._work, directory):
            made.mkdir(mode=0o700, exist_ok=True)
        container = await self._containers.place(image_of(brief.row), brief.row.get("cwd"))
        assert not isinstance(container, NoContainer), "a row without its container is not worked on"
        return ToolContext(
            workdir=directory,
            marker=f"{self._marker}/{directory.name}",
            timeout_s=timeout_s,
            redactor=self._redactor,
            container=container,
        )
