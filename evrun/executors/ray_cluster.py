"""The nodes of a Ray cluster, and workers on them. The only home of Ray.

Each worker is an actor. The driver waits at it for what it has to say, all of it at once, and brings it all
that there is to say at once: so one round of Ray's carries as many messages as have come up meanwhile.
"""

import atexit
import logging
import os
import re
import socket
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Self

import anyio

from ..errors import UsageFault
from .base import Place
from .keeper import Keeper
from .line import LineBroken
from .ray_worker import RayWorker

OPEN_S = 120.0
"""So long a node may take to make a process, and that to open what sessions need."""
CONNECT_S = 90.0
ANSWER_S = 5.0
"""What the cluster does not answer within so long it does not answer."""
END_S = 10.0
LEAVE_S = 20.0
LAST_TRY_S = 2.0
"""The same where the cluster did not answer when it was last asked."""
PROBE_S = 5.0
SILENCE_S = "600"
"""So long Ray lets a driver live whose cluster is gone: the run ends before, and in order."""
_SHOWN = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CLIENT = "ray://"
_HERE = "--executor local works on the prompts in this process"


def check_ray(address: str | None) -> None:
    """Refuse what can be seen without asking anybody.

    Raises:
        UsageFault: Ray is not installed, or the address is one of Ray's client, which is no node.
    """
    if find_spec("ray") is None:
        raise UsageFault("--executor ray: Ray is not installed", hint="pip install 'evrun[ray]'")
    if address is None:
        return
    if not address.strip() or address == "local":
        raise UsageFault(
            f"--ray-address {address}: no cluster is named" if address.strip() else "--ray-address is empty",
            hint="expected HOST:PORT or auto; without the option a cluster is started where none is found",
        )
    if address.startswith(CLIENT):
        raise UsageFault(
            f"--ray-address {address}: evrun has to run on a node of the cluster, not behind Ray's client",
            hint="start it on a node, with --ray-address auto",
        )


class RayCluster:
    """A cluster that this process is connected to, until `close`; `own` where it was connected for this."""

    def __init__(self, ray: Any, keeper: Keeper, *, own: bool) -> None:
        self._ray = ray
        self._own = own
        self._keeper = keeper
        self._silent = False
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
        os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", SILENCE_S)
        _probe(address)
        # A cluster that is started here ends with the thread that starts it. On the main thread Ray would
        # take SIGTERM for itself.
        keeper = Keeper("evrun ray")
        try:
            ray, own = await keeper.ask(lambda: _connected(address), CONNECT_S)
        except BaseException as error:
            keeper.end(_left, 0.0)
            _leave_no_hook()
            if not isinstance(error, TimeoutError):
                raise
            raise UsageFault(
                f"{_option(address)}: what is there did not answer as a cluster within {CONNECT_S:g} s",
                hint=f"expected HOST:PORT of a cluster's head (its GCS), or auto; {_HERE}",
            ) from error
        return cls(ray, keeper, own=own)

    async def places(self) -> list[Place] | None:
        """The nodes that are alive; null where the cluster does not answer."""
        try:
            nodes = await self._keeper.ask(self._ray.nodes, ANSWER_S)
        except (TimeoutError, self._ray.exceptions.RayError):
            self._silent = True
            return None
        self._silent = False
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
        made = self._actor.options(scheduling_strategy=strategy).remote
        line: RayLine | None = None
        try:
            with anyio.fail_after(OPEN_S):
                actor = await self._keeper.ask(made, OPEN_S)
                line = RayLine(self._ray, self._keeper, actor, f"worker {worker} on {place.name}")
                # The key is in it: an argument of a call stays in memory, one of a constructor would not.
                problem = await line.call("open", opening)
        except BaseException as error:
            if line is not None:
                line.cut()
            if isinstance(error, TimeoutError):
                raise LineBroken(f"it was not ready within {OPEN_S:g} s: are its CPUs taken?") from error
            if isinstance(error, self._ray.exceptions.RayError):
                raise LineBroken(_why(error)) from error
            raise
        if problem is not None:
            line.cut()
            raise LineBroken(problem)
        return line

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        leave = self._ray.shutdown if self._own else _stay
        if not self._keeper.end(leave, LAST_TRY_S if self._silent else LEAVE_S):
            _leave_no_hook()


class RayLine:
    """The line to one actor."""

    def __init__(self, ray: Any, keeper: Keeper, actor: Any, name: str) -> None:
        self.name = name
        self._ray = ray
        self._keeper = keeper
        self._actor = actor

    async def call(self, method: str, *given: Any) -> Any:
        """What a method of the actor gives back.

        Raises:
            LineBroken: the actor is gone, or cannot be reached.
        """
        try:
            return await getattr(self._actor, method).remote(*given)
        except self._ray.exceptions.RayError as error:
            raise LineBroken(_why(error)) from error

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
        # Not here: it would wait for a cluster that is gone.
        self._keeper.tell(lambda: self._ray.kill(self._actor))


def _stay() -> None:
    """It is another's connection."""


def _left() -> None:
    import ray  # noqa: PLC0415 (as below)

    ray.shutdown()


def _leave_no_hook() -> None:
    """Where the cluster does not answer, Ray would ask it once more as this process ends, and wait for it."""
    ray = sys.modules.get("ray")
    if ray is not None and hasattr(ray, "shutdown"):
        atexit.unregister(ray.shutdown)


def _connected(address: str | None) -> tuple[Any, bool]:
    """Ray, connected, and whether that was done here.

    Raises:
        UsageFault: there is no cluster.
    """
    import ray  # noqa: PLC0415 (it takes a second, and is an extra)

    if ray.is_initialized():
        return ray, False
    try:
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
            hint=f"`ray status` says whether one runs; without --ray-address one is started here; {_HERE}",
        ) from error
    return ray, True


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
            hint=f"expected HOST:PORT of a cluster's head, or auto; {_HERE}",
        ) from error


def _option(address: str | None) -> str:
    return f"--ray-address {address}" if address else "--executor ray"


_WHYS = {
    "node has died": "its node is gone",
    "NodeDiedError": "its node is gone",
    "low on memory": "Ray ended its process, because its node ran out of memory",
    "ActorDiedError": "its process has ended",
    "WorkerCrashedError": "its process has ended",
    "ActorUnavailableError": "it cannot be reached",
}
"""What Ray says at length, by a part of it or the kind of its error: the first that fits."""


def _why(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    return next((why for part, why in _WHYS.items() if part in text), None) or _short(error)


def _short(error: BaseException) -> str:
    text = " ".join(_COLOURS.sub("", str(error)).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else text[:_SHOWN].rpartition(" ")[0] + " …"
