"""What one attempt has asked and not yet got: calls that outlive the connection they came by."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from .endpoint_asked import Asked, Handler, Reply

_FIRST_ERROR = 400


class Call:
    """One question on its way to its answer; `hung_up` tells whether the program still listens."""

    def __init__(self, asked: Asked, task: asyncio.Task[Reply], hung_up: Callable[[], bool]) -> None:
        self.asked = asked
        self.hung_up = hung_up
        self._task = task

    @property
    def cancelled(self) -> bool:
        """Whether it was ended before its answer came."""
        return self._task.cancelled()

    @property
    def failed(self) -> bool:
        """Whether its end is no answer that a program could use."""
        if not self._task.done():
            return False
        return (
            self.cancelled or self._task.exception() is not None or self._task.result().status >= _FIRST_ERROR
        )

    async def reply(self) -> Reply:
        """Its answer, as often as one asks; a waiter that is cancelled leaves it alone."""
        return await asyncio.shield(self._task)

    def cancel(self) -> asyncio.Task[Reply]:
        """End it; the task is there to be waited for."""
        self._task.cancel()
        return self._task


class OpenAttempt:
    """The calls of one token; none may be begun once it has `ended`."""

    def __init__(self, handler: Handler) -> None:
        self.ended = False
        self._handler = handler
        self._calls: dict[tuple[str, bytes], list[Call]] = defaultdict(list)

    def ask(self, asked: Asked, hung_up: Callable[[], bool]) -> Call:
        """A call for this question: one that was left by a program that hung up, or else a new one."""
        calls = self._calls[asked.path, asked.body]
        calls[:] = [call for call in calls if not (call.failed and call.hung_up())]
        for call in calls:
            if call.hung_up():
                call.hung_up = hung_up
                return call
        calls.append(Call(asked, asyncio.create_task(self._handled(asked)), hung_up))
        return calls[-1]

    def forget(self, call: Call) -> None:
        """Its answer was taken."""
        calls = self._calls[call.asked.path, call.asked.body]
        if call in calls:
            calls.remove(call)
        if not calls:
            del self._calls[call.asked.path, call.asked.body]

    async def end(self) -> None:
        """Cancel every call that is still open, and wait until each has ended."""
        self.ended = True
        current = asyncio.current_task()
        tasks = [call.cancel() for calls in self._calls.values() for call in calls]
        self._calls.clear()
        await asyncio.gather(*(task for task in tasks if task is not current), return_exceptions=True)

    async def _handled(self, asked: Asked) -> Reply:
        return await self._handler(asked)
