"""SIGINT, SIGTERM and SIGHUP: the first asks a run to end, the second ends the process at once."""

import os
import signal
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus


async def watch_signals(
    on_first: Callable[[int], None],
    before_leaving: Callable[[], None],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Call `on_first` with the number of the first signal; leave at once on the second.

    To be started with `TaskGroup.start`, so that no signal comes too early.

    The log needs no goodbye: what was acknowledged is durable, and the next session goes on from there.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        first = True
        async for number in signals:
            if not first:
                before_leaving()
                os._exit(128 + number)
            first = False
            on_first(number)
