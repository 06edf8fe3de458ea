"""How a run is told to end: by a signal, a provider that refuses everybody, a quota."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import anyio

from eventlog.errors import AppendError

from ..errors import EvrunError, leaf


class Ending(NamedTuple):
    """Why a run ends early: its state ("interrupted", "paused", "failed"), exit code, and one line."""

    state: str
    exit_code: int
    reason: str


class Control:
    """The one switch that all workers watch. The first reason counts."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.ending: Ending | None = None

    @property
    def stopping(self) -> bool:
        """True once nothing new may be started."""
        return self.ending is not None

    def stop(self, ending: Ending) -> None:
        """Start nothing new; calls in flight finish."""
        if self.ending is None:
            self.ending = ending
            self._event.set()

    def fail(self, exit_code: int, reason: str) -> None:
        """It could not go on: that counts more than how it was told to end."""
        self.ending = Ending("failed", exit_code, reason)
        self._event.set()

    def fail_by(self, error: BaseException) -> None:
        """An error that evrun knows ends the run; anything else is a fault of evrun, to be seen whole."""
        known = leaf(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(known, AppendError):
            self.fail(1, f"the log cannot be written: {known}")
        elif isinstance(known, EvrunError):
            hint = f"; {known.hint}" if known.hint else ""
            self.fail(known.exit_code, f"{known}{hint}")
        else:
            raise error

    def reopen(self) -> Ending:
        """For what is still to be done after a stop: nothing is stopping any more. Gives why it was.

        Only once all that was going on has ended.
        """
        ending = self.ending
        assert ending is not None, "only what was told to end can be opened again"
        self._event, self.ending = anyio.Event(), None
        return ending

    async def sleep(self, seconds: float) -> None:
        """Sleep, or return early when the run is told to end."""
        with anyio.move_on_after(seconds):
            await self._event.wait()

    async def stopped(self) -> None:
        """Return when the run is told to end."""
        await self._event.wait()


class Switch:
    """Tells a run in another thread to end as Ctrl-C would: calls in flight finish, nothing new starts."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], None] = lambda: None

    def connect(self, stop: Callable[[], None]) -> None:
        """What is called on the loop that runs now."""
        self._loop, self._stop = asyncio.get_running_loop(), stop

    def turn(self) -> None:
        """Tell it to end; from any thread. Nothing happens where it has not begun, or has ended."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop)
