"""What a learner reaches over HTTP on loopback: the run's tools, and evrun's recording endpoint for models.

::

    GET  TOOL_URL/tools         [{"name", "description", "source", "input_schema", "output_schema"}, …]
    POST TOOL_URL/call/NAME     an object of arguments -> {"result": …} or {"error": "…"}

The address has a token in it that is good for one call of the learner. A tool goes on when whoever asked
hangs up; only the end of the call ends it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
from aiohttp import web

from eventlog.errors import AppendError

from ..agents import AgentCalls
from ..agents.endpoint import RecordingEndpoint, environment_for, new_token
from ..effects import random_bytes
from ..errors import EvrunError
from .authoring import ToolError
from .learner_tools import Diverged, LearnerTools, RunEnding

LARGEST_BODY = 64 * 1024 * 1024
_HOST = "127.0.0.1"
_LAST_WORDS_S = 1.0


class Desk:
    """The tools of one call of the learner. `stopped` is set when it must not go on."""

    def __init__(self, tools: LearnerTools) -> None:
        self.in_flight = 0
        self.refused = False
        self.broken: Exception | None = None
        self.diverged: str | None = None
        self.stopped = anyio.Event()
        self._tools = tools
        self._tasks: set[asyncio.Task[dict[str, Any]]] = set()

    def describe(self) -> list[dict[str, Any]]:
        """The tools that there are."""
        return self._tools.describe()

    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool says, as it goes to the learner."""
        task = asyncio.create_task(self._invoked(name, arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End what is still at work, and wait for it."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _invoked(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.in_flight += 1
        try:
            return {"result": await self._tools.invoke(name, arguments)}
        except ToolError as error:
            return {"error": str(error)}
        except RunEnding as error:
            self.refused = True
            return {"error": f"the run is ending{f': {error}' if str(error) else ''}"}
        except Diverged as error:
            self.diverged = str(error)
        except (AppendError, EvrunError) as error:
            self.broken = error
        except Exception as error:  # noqa: BLE001 (a fault of ours is told, as any other)
            self.broken = error
        finally:
            self.in_flight -= 1
        self.stopped.set()
        await anyio.sleep_forever()
        raise AssertionError


class Given(NamedTuple):
    """Where a learner asks: the tools' address, and the variables for a client of its own."""

    desk: Desk
    tool_url: str
    environment: dict[str, str]


class Doors:
    """The two endpoints; `models` are what a learner's own client can ask, none where there is no model.

    The token for models is the same in all calls, so that a client that was made once can be kept; it is good
    while a call is going on.
    """

    def __init__(self, models: list[str]) -> None:
        self._models = models
        self._desks: dict[str, Desk] = {}
        self._runner: web.AppRunner | None = None
        self._url = ""
        self._recording: RecordingEndpoint | None = None
        self._token = new_token()

    async def open(self) -> dict[str, str]:
        """Open the ports, if they are not; the variables by which a learner's own client finds its model."""
        if self._runner is None:
            application = web.Application(client_max_size=LARGEST_BODY)
            application.router.add_get("/{token}/tools", self._list)
            application.router.add_post("/{token}/call/{name}", self._call)
            runner = web.AppRunner(
                application, access_log=None, handler_cancellation=False, shutdown_timeout=_LAST_WORDS_S
            )
            await runner.setup()
            self._runner = runner
            await web.TCPSite(runner, _HOST, 0).start()
            self._url = f"http://{_HOST}:{runner.addresses[0][1]}"
        if not self._models:
            return {}
        if self._recording is None:
            self._recording = await RecordingEndpoint(self._models, _unheard).__aenter__()
        return environment_for(self._recording, self._token, self._models[0])

    @asynccontextmanager
    async def admitted(self, tools: LearnerTools, ask: AgentCalls | None) -> AsyncIterator[Given]:
        """Let a learner in, for one call."""
        environment = await self.open()
        token, desk = random_bytes(24).hex(), Desk(tools)
        self._desks[token] = desk
        if ask is not None and self._recording is not None:
            self._recording.admit(ask.ask, self._token)
        try:
            yield Given(desk, f"{self._url}/{token}", environment)
        finally:
            with anyio.CancelScope(shield=True):
                del self._desks[token]
                await desk.close()
                if self._recording is not None:
                    await self._recording.dismiss(self._token)

    async def close(self) -> None:
        """Close the ports."""
        if self._recording is not None:
            await self._recording.__aexit__(None, None, None)
        if self._runner is not None:
            await self._runner.cleanup()
        self._recording, self._runner = None, None

    def _desk(self, request: web.Request) -> Desk:
        desk = self._desks.get(request.match_info["token"])
        if desk is None:
            raise web.HTTPNotFound(text='{"error": "there is nothing here"}', content_type="application/json")
        return desk

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response(self._desk(request).describe())

    async def _call(self, request: web.Request) -> web.Response:
        desk = self._desk(request)
        name = request.match_info["name"]
        known = [str(one["name"]) for one in desk.describe()]
        if name not in known:
            return _error(f"there is no tool {name}; there is {', '.join(known)}", 404)
        try:
            body = await request.read()
            arguments = json.loads(body or b"{}")
        except ValueError as error:
            return _error(f"{name}: its arguments are no JSON: {error}", 400)
        except web.HTTPRequestEntityTooLarge:
            return _error(f"{name}: its arguments have more than {LARGEST_BODY} bytes", 413)
        if not isinstance(arguments, dict):
            return _error(f"{name}: its arguments have to be a JSON object", 400)
        try:
            return web.json_response(await desk.ask(name, arguments))
        except asyncio.CancelledError:
            return _error("the call that this was for has ended", 410)


def _error(message: str, status: int) -> web.Response:
    return web.json_response({"error": message}, status=status)


def _unheard(_: str) -> None:
    """A learner's bad request is its own business: it is told."""
