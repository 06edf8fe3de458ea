"""The nodes of a Ray cluster, and workers on them. The only home of Ray.

Each worker is an actor. The driver waits at it for what it has to say, all of it at once, and brings it all
that there is to say at once: so one round of Ray's carries as many messages as have come up meanwhile.
"""

import logging
import os
import re
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Self

import anyio
from anyio import to_thread

from ..effects.foreign import in_daemon_thread
from ..errors import UsageFault
from .base import Place
from .line import LineBroken
from .ray_worker import RayWorker

OPEN_S = 120.0
"""So long a node may take to make a process, and that to open what sessions need."""
CONNECT_S = 90.0
END_S = 10.0
PROBE_S = 5.0
_SHOWN = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CLIENT = "ray://"


def check_ray(address: str | None) -> None:
    """Refuse what can be seen without asking anybody.

    Raises:
        UsageFault: Ray is not installed, or the address is one of Ray's client, which is no node.
    """
    if find_spec("ray") is None:
        raise UsageFault("--executor ray: Ray is not installed", hint="pip install 'evrun[ray]'")
    if address is not None and address.startswith(CLIENT):
        raise UsageFault(
            f"--ray-address {address}: evrun has to run on a node of the cluster, not behind Ray's client",
            hint="start it on a node, with --ray-address auto",
        )


class RayCluster:
    """A cluster that this process is connected to, until `close`."""

    def __init__(self, ray: Any, *, own: bool) -> None:
        self._ray = ray
        self._own = own
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(RayWorker)

    @classmethod
    async def connect(cls, address: str | None) -> Self:
        """Connect to the cluster at an address; without one to what Ray finds, or a new one on this machine.

        Raises:
            UsageFault: there is none.
        """
        check_ray(address)
        # Ray would tell its makers of each cluster that it starts.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        _probe(address)
        try:
            with anyio.fail_after(CONNECT_S):
                return await in_daemon_thread(lambda: cls._connected(address))
        except TimeoutError as error:
            raise UsageFault(
                f"{_option(address)}: what is there did not answer as a cluster within {CONNECT_S:g} s",
                hint="expected HOST:PORT of a cluster's head (its GCS), or auto",
            ) from error

    @classmethod
    def _connected(cls, address: str | None) -> Self:
        import ray  # noqa: PLC0415 (it takes a second, and is an extra)

        if ray.is_initialized():
            return cls(ray, own=False)
        try:
            # Not on the main thread: there it would take SIGTERM for itself.
            ray.init(
                address=address,
                include_dashboard=None if address else False,
                configure_logging=True,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except Exception as error:
            raise UsageFault(
                f"{_option(address)}: no cluster could be reached: {_short(error)}",
                hint="`ray status` says whether one runs; without --ray-address one is started here",
            ) from error
        return cls(ray, own=True)

    async def places(self) -> list[Place]:
        """The nodes that are alive."""
        nodes = await to_thread.run_sync(self._ray.nodes)
        return [
            Place(node["NodeID"], node["NodeManagerAddress"], int(node["Resources"].get("CPU", 0)))
            for node in nodes
            if node["Alive"]
        ]

    async def open(self, place: Place, worker: int, opening: bytes) -> "RayLine":
        """A worker on a node.

        Raises:
            LineBroken: it could not be made, or not opened.
        """
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(place.node, soft=False)
        actor = self._actor.options(scheduling_strategy=strategy).remote()
        line = RayLine(self._ray, actor, f"worker {worker} on {place.name}")
        try:
            with anyio.fail_after(OPEN_S):
                # The key is in it: an argument of a call stays in memory, one of a constructor would not.
                problem = await line.call("open", opening)
        except TimeoutError as error:
            line.cut()
            raise LineBroken(f"it was not ready within {OPEN_S:g} s: are its CPUs taken?") from error
        except BaseException:
            line.cut()
            raise
        if problem is not None:
            line.cut()
            raise LineBroken(problem)
        return line

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._own:
            self._ray.shutdown()


class RayLine:
    """The line to one actor."""

    def __init__(self, ray: Any, actor: Any, name: str) -> None:
        self.name = name
        self._ray = ray
        self._actor = actor

    async def call(self, method: str, *given: Any) -> Any:
        """What a method of the actor gives back.

        Raises:
            LineBroken: the actor is gone, or cannot be reached.
        """
        try:
            return await getattr(self._actor, method).remote(*given)
        except self._ray.exceptions.RayError as error:
            raise LineBroken(_short(error)) from error

    async def hear(self) -> list[bytes]:
        """As `Line.hear`."""
        heard: list[bytes] = await self.call("hear")
        return heard

    async def say(self, messages: list[bytes]) -> None:
        """As `Line.say`."""
        await self.call("say", messages)

    async def end(self) -> None:
        """As `Line.end`."""
        with suppress(LineBroken), anyio.move_on_after(END_S):
            await self.call("close")
        self.cut()

    def cut(self) -> None:
        """As `Line.cut`."""
        with suppress(Exception):
            self._ray.kill(self._actor)


def _probe(address: str | None) -> None:
    """Ray tries for minutes where nobody listens.

    Raises:
        UsageFault: nobody does.
    """
    host, colon, port = (address or "").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_S).close()
    except (OSError, ValueError) as error:
        raise UsageFault(
            f"--ray-address {address}: nobody listens there: {error}",
            hint="expected HOST:PORT of a cluster's head, or auto",
        ) from error


def _option(address: str | None) -> str:
    return f"--ray-address {address}" if address else "--executor ray"


def _short(error: BaseException) -> str:
    return " ".join(_COLOURS.sub("", str(error)).split())[:_SHOWN] or type(error).__name__
