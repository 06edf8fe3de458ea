"""A session for whoever has no loop, or one that runs already (a notebook): in a thread of its own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..batch import Switch

T = TypeVar("T")


def finish(session: Callable[[Switch], Awaitable[T]]) -> T:
    """Do a session and give what it gives; an interrupt turns its switch, which ends it in order."""
    switch = Switch()
    done: dict[str, Any] = {}
    finished = threading.Event()

    async def whole() -> T:
        return await session(switch)

    def work() -> None:
        try:
            done["result"] = asyncio.run(whole())
        except BaseException as error:  # noqa: BLE001 (raised again by whoever waits)
            done["error"] = error
        finally:
            finished.set()

    threading.Thread(target=work, name="evrun").start()
    while not finished.is_set():
        # Not the thread is waited for: an interrupt in `join` would make it look ended.
        try:
            finished.wait(0.2)
        except KeyboardInterrupt:
            switch.turn()
    if "error" in done:
        raise done["error"]
    result: T = done["result"]
    return result
