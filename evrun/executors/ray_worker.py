"""A worker as an actor of Ray: what Ray calls. It imports no Ray; only `ray_cluster` does."""

import asyncio
from contextlib import suppress

import anyio

from .worker import Worker


class RayWorker:
    """One worker. Ray runs all of its methods on one event loop."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._life: asyncio.Task[None] | None = None

    async def open(self, opening: bytes) -> str | None:
        """Get ready for sessions; null, or why that cannot be."""
        ready = anyio.Event()
        try:
            self._worker = Worker(opening)
        except ValueError as error:
            return f"it does not understand its driver: {error}"
        self._life = asyncio.create_task(self._worker.run(ready))
        opened = asyncio.create_task(ready.wait())
        await asyncio.wait({self._life, opened}, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        ended = self._life.exception() if self._life.done() else None
        return None if ended is None else str(ended) or repr(ended)

    async def hear(self) -> list[bytes]:
        """What the driver is told."""
        assert self._worker is not None, "it was opened"
        return await self._worker.hear()

    async def say(self, messages: list[bytes]) -> None:
        """What the driver says."""
        assert self._worker is not None, "it was opened"
        self._worker.take(messages)

    async def close(self) -> None:
        """Give up all that was opened."""
        if self._worker is not None and self._life is not None:
            self._worker.close()
            with suppress(Exception):
                await self._life
