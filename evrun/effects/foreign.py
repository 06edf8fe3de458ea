"""Functions that are not ours, run so that nobody has to wait for one that never returns."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

STUBBORN_S = 1.0
"""So long a task may take to end after it was cancelled."""


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """What `work` gives back or raises, in a thread beside the loop.

    A thread cannot be stopped, so who stops waiting leaves it to itself; as a daemon it does not keep the
    process alive, as those of a pool would. Must be awaited on an asyncio loop.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(found: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(_harmless(error))
        else:
            done.set_result(found)  # type: ignore[arg-type]  # null only where that is the result

    def run() -> None:
        found, error = None, None
        try:
            found = work()
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it belongs to whoever waits
            error = raised
        # The loop may be gone by then, and nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True, name="evrun tool").start()
    return await done


async def in_a_task(work: Callable[[], Awaitable[T]]) -> T:
    """What an async function gives back or raises. It is cancelled when who waits is, and not waited for.

    One that does not let itself be cancelled is closed after a while, so that it cannot keep the loop. Must
    be awaited on an asyncio loop.
    """
    begun: list[Coroutine[Any, Any, Any]] = []

    async def run() -> T:
        try:
            made = work()
            if isinstance(made, Coroutine):
                begun.append(made)
            return await made
        except (SystemExit, KeyboardInterrupt) as error:
            raise _harmless(error) from error

    task = asyncio.ensure_future(run())
    try:
        await asyncio.wait({task})
    finally:
        task.add_done_callback(_seen)
        task.cancel()
        if not task.done():
            asyncio.get_running_loop().call_later(STUBBORN_S, _close, task, begun)
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


def _close(task: asyncio.Task[T], begun: list[Coroutine[Any, Any, Any]]) -> None:
    """End a task that has swallowed its cancellation: what it awaits is closed under it."""
    if not task.done():
        for coroutine in begun:
            with suppress(Exception):
                coroutine.close()
        task.cancel()


def _harmless(error: BaseException) -> Exception:
    """An error that ends a call and not the run; a future could not carry a StopIteration either."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _seen(task: asyncio.Task[T]) -> None:
    """Nobody has to be told of an error for which nobody waits."""
    if not task.cancelled():
        task.exception()
