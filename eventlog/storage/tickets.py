"""A ticket: one submitted commit, and how whoever waits for it learns what became of it."""

import asyncio
from _thread import allocate_lock
from collections.abc import Callable, Generator

from ..errors import AppendError


class Ticket:
    """One submitted commit: wholly there or wholly absent, whatever happens.

    `first_sequence` and `time_ns` are set once it is durable. A ticket of `submit_async` is awaitable, any
    number of times, on its loop; cancelling an await never cancels the commit.
    """

    __slots__ = (
        "_done",
        "_gate",
        "_waiters",
        "error",
        "first_sequence",
        "loop",
        "on_durable",
        "payloads",
        "size_bytes",
        "time_ns",
    )

    def __init__(
        self,
        payloads: tuple[bytes, ...],
        size_bytes: int,
        loop: asyncio.AbstractEventLoop | None = None,
        on_durable: "Callable[[Ticket], None] | None" = None,
    ) -> None:
        self.payloads = payloads
        self.size_bytes = size_bytes
        self.loop = loop
        self.on_durable = on_durable
        self.first_sequence = 0
        self.time_ns = 0
        self.error: AppendError | None = None
        # A bare lock, held until the outcome is known, costs a twentieth of a threading.Event.
        self._gate = allocate_lock()
        self._gate.acquire()
        self._waiters: list[asyncio.Future[int]] | None = None
        self._done = False

    @property
    def last_sequence(self) -> int:
        """The sequence of the commit's last event; meaningful once it is durable."""
        return self.first_sequence + len(self.payloads) - 1

    def wait(self, timeout: float | None = None) -> int:
        """Wait in a thread; return the sequence of the last event.

        Raises:
            NotWritten: certainly absent; the log goes on.
            OutcomeUnknown: perhaps there; the log takes nothing more.
            LogClosed: certainly absent; the log was closed before.
            TimeoutError: `timeout` seconds have passed; the commit goes on.
        """
        if not self._gate.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError(f"The commit is not decided after {timeout} s; it goes on.")
        self._gate.release()
        return self._outcome()

    def __await__(self) -> Generator[object, None, int]:
        """Wait on the loop that submitted it; return the last event's sequence, or raise as `wait` does."""
        if self._done:
            return self._at_once()
        if self.loop is None:
            raise RuntimeError("Only a ticket of submit_async can be awaited; call wait() in a thread.")
        # A future of the ticket's own loop: asyncio itself refuses it to a task of another one.
        waiter: asyncio.Future[int] = self.loop.create_future()
        if self._waiters is None:
            self._waiters = [waiter]
        else:
            self._waiters.append(waiter)
        # The future's own iterator, so that no frame of this class stands between the task and its future.
        return waiter.__await__()

    def _at_once(self) -> Generator[object, None, int]:
        yield from ()
        return self._outcome()

    def _outcome(self) -> int:
        if self.error is not None:
            raise self._own_error(self.error)
        return self.last_sequence

    def _own_error(self, error: AppendError) -> AppendError:
        """A copy for one waiter, because an error that is raised collects its raiser's traceback."""
        copy = type(error)(*error.args)
        copy.__cause__ = error.__cause__
        return copy

    def decide(self) -> None:
        """Let waiting threads see the outcome, which was set before."""
        self._gate.release()

    def settle(self) -> None:
        """On the ticket's loop: tell the callback, then wake the awaiters."""
        self._done = True
        try:
            if self.on_durable is not None and self.error is None:
                self.on_durable(self)
        finally:
            waiters, self._waiters = self._waiters, None
            for waiter in waiters or ():
                if not waiter.done():
                    self._resolve(waiter)

    def _resolve(self, waiter: "asyncio.Future[int]") -> None:
        if self.error is None:
            waiter.set_result(self.first_sequence + len(self.payloads) - 1)
        else:
            waiter.set_exception(self._own_error(self.error))
            # Looked at once, so that asyncio has nothing to say if its task is cancelled before it wakes.
            waiter.exception()
