"""Functions that are not ours, run beside the loop in threads that nobody has to wait for."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """What `work` gives back or raises. Who stops waiting leaves the thread to itself.

    A thread cannot be stopped; but a daemon does not keep the process alive, as those of a pool would.
    Must be awaited on an asyncio loop.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[], None]) -> None:
        if not done.done():
            set_it()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to whoever waits
            outcome = _raiser(done, error)
        else:
            outcome = lambda: done.set_result(found)  # noqa: E731 - a pair of two lines
        # The loop may be gone by then, and nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, outcome)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True, name="evrun tool").start()
    return await done


def _raiser(done: asyncio.Future[T], error: BaseException) -> Callable[[], None]:
    # A future cannot carry a StopIteration, and a SystemExit in a tool ends the call and not the run.
    known = error if isinstance(error, Exception) and not isinstance(error, StopIteration) else None
    return lambda: done.set_exception(known or RuntimeError(f"{type(error).__name__}: {error}"))
