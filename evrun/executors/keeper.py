"""One thread that lives from the beginning of something to its end, and alone deals with it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


class Keeper:
    """Does one thing after the other. As a daemon it keeps no process alive, whatever it hangs in.

    Linux ends processes that ask for it with the thread that started them, not with its process: what starts
    such processes has to do that on a thread that stays.
    """

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, daemon=True, name=name)
        self._thread.start()

    async def ask(self, work: Callable[[], T], seconds: float) -> T:
        """What `work` gives back or raises. Must be awaited on an asyncio loop.

        Raises:
            TimeoutError: it took longer; nobody waits any more, and what has not begun is left out.
        """
        asked: Future[T] = Future()
        self._work.put(lambda: _answer(asked, work))
        with anyio.fail_after(seconds):
            return await asyncio.wrap_future(asked)

    def tell(self, work: Callable[[], Any]) -> None:
        """Have something done that nobody waits for, and whose errors nobody wants."""
        self._work.put(work)

    def end(self, work: Callable[[], Any], seconds: float) -> bool:
        """Do this last. Whether all was done within the time."""
        self.tell(work)
        self._work.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _live(self) -> None:
        while (work := self._work.get()) is not None:
            with suppress(Exception):
                work()


def _answer(asked: "Future[T]", work: Callable[[], T]) -> None:
    if not asked.set_running_or_notify_cancel():
        return
    try:
        asked.set_result(work())
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to whoever asked
        asked.set_exception(error)
