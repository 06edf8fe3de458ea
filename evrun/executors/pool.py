"""All workers of a run: as many as the nodes hold, new ones for lost ones, and who works on what."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from ..batch.control import Control
from ..effects.clock import monotonic
from ..effects.limiter import Limiter
from ..errors import RunFailed
from .base import Cluster, Lost, Place
from .desk import Desk
from .line import LineBroken
from .losses import Losses
from .post import Post
from .waiting import Waiting

PER_WORKER = 16
"""A node gets another worker for each so many sessions, as far as its CPUs go."""
LOOK_S = 2.0
"""So often the nodes are looked at: some come, some go."""
GIVE_UP_S = 30.0
"""So long a run waits for a node when it has none left, or for a cluster that does not answer."""
SILENT = "the cluster does not answer: its head, or the way to it, is gone"
TRIES = 3
"""A node on which so many workers did not open gets no more."""


class Pool:
    """Workers, and the sessions they work on. `opening` makes what a worker of this number is told first."""

    def __init__(
        self,
        cluster: Cluster,
        opening: Callable[[int], bytes],
        concurrency: int,
        *,
        control: Control,
        limiter: Limiter,
        note: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._opening = opening
        self._concurrency = concurrency
        self._control = control
        self._limiter = limiter
        self._note = note
        self._desks: list[Desk] = []
        self._alone: set[Desk] = set()
        self._losses = Losses()
        self._at: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._problem = "no node of the cluster has a CPU to give"
        self._starting = 0
        self._last = 0
        self._since = self._answered = monotonic()
        self._waiting = Waiting(note)
        self._dead: str | None = None
        self._changed = anyio.Event()

    async def run(self, post: Post, work: bytes) -> bytes:
        """Have a session worked on by the worker that has the least to do.

        One that is suspected of ending its workers has its worker for itself.

        Raises:
            Lost: its worker is gone; what was open is in doubt, durably.
            GivenUp: the same, and it is not to be handed over again.
            EvrunError, AppendError: the run cannot go on.
        """
        unit = post.attempt.unit
        try:
            if self._losses.suspect(unit):
                return await self._work_alone(post, work)
            desk = await self._desk()
            return await desk.work_on(post, work)
        except Lost as lost:
            # With a cluster that is gone the unit has nothing to do.
            if self._dead is None:
                self._losses.count(unit, lost)
            raise
        finally:
            self._wake()

    async def _work_alone(self, post: Post, work: bytes) -> bytes:
        while True:
            desk = await self._desk(full=True)
            self._alone.add(desk)
            try:
                # What it works on already it brings to its end.
                while desk.load and desk.broken is None and self._dead is None:
                    await self._changed.wait()
                if desk.broken is None and self._dead is None:
                    return await desk.work_on(post, work)
            finally:
                self._alone.remove(desk)
                self._wake()

    async def keep(self) -> None:
        """Have as many workers as there should be, for as long as this is not cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                await self._look(group)
                await anyio.sleep(LOOK_S)

    def end(self) -> None:
        """Nothing more is to be worked on."""
        for desk in self._desks:
            desk.end()

    async def _desk(self, *, full: bool = False) -> Desk:
        """The worker that has the least to do; where `full`, also one that has enough to do."""
        while True:
            if self._dead is not None:
                raise RunFailed(self._dead, "the run goes on where it stands when there are nodes again")
            # One that is broken is here until the last of its sessions is told: it must not get them back.
            desk = min(self._shared(), key=lambda one: one.load, default=None)
            if desk is not None and (full or desk.load < self._most()):
                return desk
            await self._changed.wait()

    def _most(self) -> int:
        """How many sessions a worker has at most, so that those that are being opened get their share."""
        return -(-self._concurrency // (len(self._shared()) + self._starting))

    def _whole(self) -> list[Desk]:
        return [desk for desk in self._desks if desk.broken is None]

    def _shared(self) -> list[Desk]:
        """Those that work for anybody."""
        return [desk for desk in self._whole() if desk not in self._alone]

    async def _look(self, group: anyio.abc.TaskGroup) -> None:
        places = await self._cluster.places()
        if places is not None:
            self._answered = monotonic()
        usable = [place for place in places or () if self._failed[place.node] < TRIES]
        for place, wanted in shares(usable, self._concurrency):
            for _ in range(wanted - self._at[place.node]):
                self._last += 1
                self._at[place.node] += 1
                self._starting += 1
                group.start_soon(self._serve, place, self._last)
        if not self._control.stopping:
            self._waiting.look(self._waits_for(places))
        self._see_whether_dead(usable=bool(usable) or not places)

    def _see_whether_dead(self, *, usable: bool) -> None:
        work = bool(self._desks or self._starting)
        if work:
            self._since = monotonic()
        if monotonic() - self._answered > GIVE_UP_S:
            self._problem = SILENT
            for desk in self._whole():
                desk.give_up(SILENT)
        elif work or (usable and monotonic() - self._since <= GIVE_UP_S):
            return
        self._dead = f"no worker is left on the cluster: {self._problem}"
        self._wake()

    def _waits_for(self, places: Sequence[Place] | None) -> str | None:
        """What keeps sessions from being worked on, for people; null: nothing does."""
        if places is None:
            return SILENT
        if self._whole():
            return None
        if not places:
            return "the cluster has no node"
        nodes = "1 node" if len(places) == 1 else f"{len(places)} nodes"
        return f"{nodes}, none with a free CPU so far"

    async def _serve(self, place: Place, worker: int) -> None:
        """Open a worker and serve it until it is gone."""
        try:
            line = await self._cluster.open(place, worker, self._opening(worker))
        except LineBroken as error:
            self._gone(place, f"a worker on {place.name} could not be opened: {error}")
            self._failed[place.node] += 1
            return
        finally:
            self._starting -= 1
            self._wake()
        desk = Desk(line, worker, self._control, self._limiter, self._note)
        self._desks.append(desk)
        self._wake()
        try:
            await desk.serve()
        finally:
            self._desks.remove(desk)
            self._ended(place, desk)

    def _ended(self, place: Place, desk: Desk) -> None:
        if desk.lost:
            self._gone(place, f"{desk.name} was lost: {desk.broken}")

    def _gone(self, place: Place, problem: str) -> None:
        self._at[place.node] -= 1
        self._problem = problem
        if not self._control.stopping:
            self._note(problem)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def shares(places: Sequence[Place], concurrency: int) -> list[tuple[Place, int]]:
    """How many workers each node should have.

    As many as there are sessions for, each node at least one if there are enough sessions, none more than it
    has CPUs; the larger the node, the more.
    """
    rooms = [place for place in places if place.cpus > 0]
    wanted = min(concurrency, max(len(rooms), -(-concurrency // PER_WORKER)), sum(p.cpus for p in rooms))
    found: Counter[str] = Counter()
    for _ in range(wanted):
        free = [place for place in rooms if found[place.node] < place.cpus]
        found[min(free, key=lambda place: (found[place.node] / place.cpus, place.node)).node] += 1
    return [(place, found[place.node]) for place in rooms]


@asynccontextmanager
async def open_pool(pool: Pool) -> AsyncIterator[Pool]:
    """A pool at work, as long as the context; its workers are ended afterwards."""
    async with anyio.create_task_group() as group:
        group.start_soon(pool.keep)
        try:
            yield pool
        finally:
            pool.end()
            group.cancel_scope.cancel()
