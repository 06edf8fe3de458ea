"""A cluster whose workers are in this process: the real driver's side against the real worker's side.

Between them go bytes, as anywhere. A worker can be killed: nothing that it says is heard from then on, and
what it is told is lost.
"""

import asyncio
from collections import deque

import anyio
import msgspec

from evrun.batch import Options, Switch, run_batch
from evrun.executors import Place
from evrun.executors.hosting import Opening
from evrun.executors.line import LineBroken
from evrun.executors.worker import OtherVersions, Worker


class HereLine:
    """The line to a worker in this process."""

    def __init__(self, worker, place, number):
        self.name = f"worker {number} on {place.name}"
        self.place = place
        self.worker = worker
        self.told = []
        self.said = []
        self.further = deque()
        self.death = asyncio.Event()
        self.life = None
        self.ended = False

    async def start(self):
        """Open the worker."""
        ready = anyio.Event()
        self.life = asyncio.create_task(self.worker.run(ready))
        opened = asyncio.create_task(ready.wait())
        await asyncio.wait({self.life, opened}, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if self.life.done():
            raise LineBroken(str(self.life.exception()))

    async def hear(self):
        """What it says, and what a test makes it say beside that; its death ends the wait."""
        if self.further:
            return [self.further.popleft()]
        heard, died = asyncio.create_task(self.worker.hear()), asyncio.create_task(self.death.wait())
        try:
            await asyncio.wait({heard, died}, return_when=asyncio.FIRST_COMPLETED)
            if self.death.is_set():
                raise LineBroken("it was killed by the test")
            messages = heard.result()
            self.said += messages
            return messages
        finally:
            heard.cancel()
            died.cancel()

    async def say(self, messages):
        """Tell it."""
        if self.death.is_set():
            raise LineBroken("it was killed by the test")
        self.told += messages
        self.worker.take(messages)

    def kill(self):
        """Its machine loses its power."""
        self.death.set()

    async def end(self):
        """Let it end."""
        self.worker.close()
        await asyncio.wait({self.life})
        self.ended = True

    def cut(self):
        """Nobody hears it any more."""
        self.life.cancel()


class Here:
    """Nodes in this process. `at_open`, where given, may change what a worker is told first.

    So many workers as `together` says are there at once: none gets a session before the others are open.
    """

    def __init__(self, *cpus, at_open=lambda opening: opening, together=1):
        self.nodes = [
            Place(f"node{number}-of-the-test", "127.0.0.1", count) for number, count in enumerate(cpus)
        ]
        self.lines = []
        self.openings = []
        self.closed = False
        self._at_open = at_open
        self._together = asyncio.Barrier(together)

    async def places(self):
        """The nodes that are alive."""
        return list(self.nodes)

    async def open(self, place, worker, opening):
        """A worker on a node."""
        told = self._at_open(msgspec.msgpack.decode(opening, type=Opening))
        self.openings.append(told)
        line = HereLine(Worker(msgspec.msgpack.encode(told)), place, worker)
        await line.start()
        self.lines.append(line)
        await self._together.wait()
        return line

    def close(self):
        """The run has left."""
        self.closed = True

    def lose(self, node):
        """A node dies with all its workers."""
        self.nodes.remove(node)
        for line in self.lines:
            if line.place == node:
                line.kill()


class Told:
    """Hears what a run says."""

    def __init__(self, see=None):
        self.notes = []
        self._see = see

    def note(self, text):
        """One thing."""
        self.notes.append(text)

    def progress(self, state):
        """Nothing to show."""

    @property
    def see(self):
        """Shown each event."""
        return self._see


def batch(dataset, place, cluster=None, *, see=None, switch=None, environment=None, **given):
    """A run of this dataset under `place`; on a cluster where one is given. Its result, and what it said."""
    named = {name: given.pop(name) for name in ("resume", "caps", "run_name") if name in given}
    settings = {"model": "m", "toolsets": [], "require_reasoning": False, **given}
    settings["executor"] = "local" if cluster is None else "ray"
    options = Options(
        run_name=named.pop("run_name", "r"), output_dir=place, dataset=dataset, given=settings, **named
    )

    async def connect(_):
        return cluster

    told = Told(see)
    surroundings = {"OPENAI_API_KEY": "sk-key-of-the-test"} if environment is None else environment

    async def work():
        return await run_batch(options, surroundings, told, switch or Switch(), connect=connect)

    return anyio.run(work), told.notes


def rows(tmp_path, *prompts):
    """A dataset of these prompts."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode({"prompt": prompt}) + b"\n" for prompt in prompts))
    return path


__all__ = ["Here", "OtherVersions", "batch", "rows"]
