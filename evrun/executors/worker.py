"""A worker: works on the sessions that its driver hands it, and records nothing by itself."""

import os
import traceback

import anyio
import msgspec
from anyio import to_thread

from ..batch.control import Ending
from ..effects.clock import CallIds
from ..effects.orphans import kill_orphans
from ..errors import EvrunError, leaf
from ..versions import versions
from .hosting import Bench, Host, Opening, marker_of, open_host, settings_of
from .link import Common, Link, WorkerControl
from .wire import Begin, Cancel, Ended, Message, Note, Stop, from_driver, to_bytes
from .worker_place import WorkerPlace, clear_dead
from .worker_state import WorkerState

MUST_AGREE = ("evrun", "genai-prices")
"""Other versions of these would decide otherwise than the driver does."""
LONGEST_TRACE = 4000


class OtherVersions(EvrunError):
    """This worker's programs are not the driver's."""


class Worker:
    """One worker. `run` is its life; `take` is what the driver says, `hear` what the driver is told."""

    def __init__(self, opening: bytes) -> None:
        self._opening = msgspec.msgpack.decode(opening, type=Opening)
        self._place = WorkerPlace(marker_of(self._opening))
        self._outbox: list[bytes] = []
        self._written = anyio.Event()
        self._inbox: list[bytes] = []
        self._came = anyio.Event()
        self._closing = False
        self._links: dict[int, tuple[Link, anyio.CancelScope]] = {}
        control = WorkerControl(self.say)
        ids = CallIds(self._opening.epoch, self._opening.worker)
        self._common = Common(self._opening.epoch, ids, WorkerState(), control, self.say)

    async def run(self, ready: anyio.Event) -> None:
        """Open what sessions need, work on those that come, and give it up when it is told to close.

        Raises:
            OtherVersions: this worker must not work for that driver.
            EvrunError: something that sessions need is not here.
        """
        check_versions(self._opening.versions)
        with self._place:
            bench = Bench(
                self._opening,
                settings_of(self._opening),
                {**os.environ, **self._opening.secrets},
                self._place.path,
                lambda text: self.say(Note(text)),
            )
            await to_thread.run_sync(self._end_old)
            async with open_host(bench) as host:
                ready.set()
                await self._serve(host)

    def say(self, message: Message) -> None:
        """Have a message carried to the driver."""
        self._outbox.append(to_bytes(message))
        self._written.set()

    async def hear(self) -> list[bytes]:
        """What is to be carried to the driver; waits until there is something."""
        await self._written.wait()
        self._written = anyio.Event()
        said, self._outbox = self._outbox, []
        return said

    def take(self, messages: list[bytes]) -> None:
        """What the driver says."""
        self._inbox += messages
        self._came.set()

    def close(self) -> None:
        """Nothing more comes."""
        self._closing = True
        self._came.set()

    def _end_old(self) -> None:
        """End what workers of earlier sessions of this run have left on this node."""
        opening = self._opening
        kill_orphans(opening.marker, spare=f"{opening.marker}/s{opening.epoch}n")
        clear_dead(opening.marker)

    async def _serve(self, host: Host) -> None:
        async with anyio.create_task_group() as group:
            while not self._closing:
                await self._came.wait()
                self._came = anyio.Event()
                messages, self._inbox = self._inbox, []
                for data in messages:
                    self._heard(host, group, data)
            group.cancel_scope.cancel()

    def _heard(self, host: Host, group: anyio.abc.TaskGroup, data: bytes) -> None:
        message = from_driver(data)
        match message:
            case Begin():
                link = Link(message.session, self._common, any_success=message.any_success)
                scope = anyio.CancelScope()
                self._links[message.session] = link, scope
                self._common.state.begin(message.attempt)
                group.start_soon(self._work_on, host, link, scope, message)
            case Stop():
                self._common.control.heard(Ending(message.state, message.exit_code, message.reason))
            case Cancel():
                known = self._links.get(message.session)
                if known is not None:
                    known[1].cancel()
            case _:
                known = self._links.get(message.session)
                if known is not None:
                    known[0].heard(message)

    async def _work_on(self, host: Host, link: Link, scope: anyio.CancelScope, begin: Begin) -> None:
        result, problem = b"", None
        try:
            self._place.make()
            with scope:
                result = await host.run(link, begin.attempt.unit, begin.work)
        except Exception as error:  # noqa: BLE001 (whatever it is, the driver has to know)
            problem = _told(error)
        del self._links[link.session]
        self._common.state.attempts.close(begin.attempt.unit)
        self.say(Ended(link.session, result, problem))


def check_versions(wanted: dict[str, str]) -> None:
    """Refuse to work for a driver of other versions.

    Raises:
        OtherVersions: with what was found and expected.
    """
    here = versions()
    for name in MUST_AGREE:
        if here[name] != wanted[name]:
            raise OtherVersions(
                f"it has {name} {here[name]}, and the driver has {wanted[name]}",
                "install the same on all nodes",
            )


def _told(error: Exception) -> str:
    known = leaf(error) if isinstance(error, BaseExceptionGroup) else error
    if isinstance(known, EvrunError):
        return str(known)
    return "".join(traceback.format_exception(known))[-LONGEST_TRACE:]
