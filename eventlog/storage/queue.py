"""What waits to be written: filled by any thread or loop, emptied by the writer's thread."""

import threading
from collections import deque

from ..errors import LogClosed
from .tickets import Ticket


class CommitQueue:
    """Tickets in the order in which they will be numbered.

    `group_bytes` bounds what one frame takes; a larger commit goes alone. While more than `room_bytes` wait,
    `put` with `block` waits too.
    """

    def __init__(self, *, group_bytes: int, room_bytes: int) -> None:
        self._group_bytes = group_bytes
        self._room_bytes = room_bytes
        self._tickets: deque[Ticket] = deque()
        self._bytes = 0
        self._idle = False
        self._promised: object = None  # the loop that will call `wake`; another one does not rely on it
        self._refusal = ""  # why nothing more is taken; empty while all is well
        self._closing = False
        self.make_locks()

    def make_locks(self) -> None:
        """Make the locks, again in the child of a fork: there nobody is left to release the old ones."""
        self._mutex = threading.Lock()
        self._work = threading.Condition(self._mutex)  # there is something to write, or it is time to end
        self._room = threading.Condition(self._mutex)  # there is room again

    def put(self, ticket: Ticket) -> None:
        """Queue a ticket, once there is room, and wake the writer.

        Raises:
            LogClosed: nothing more is taken.
        """
        with self._mutex:
            self._wait_for_room(ticket.size_bytes)
            self._add(ticket)
            self._wake()

    def put_soon(self, ticket: Ticket, loop: object) -> bool:
        """Queue a ticket at once, without waking the writer; true: `loop` has to call `wake` soon.

        What a loop queues before it comes to that call shares one frame and one sync.

        Raises:
            LogClosed: nothing more is taken.
        """
        with self._mutex:
            self._add(ticket)
            if not self._idle or self._promised is loop:
                return False
            self._promised = loop
            return True

    def wake(self) -> None:
        """There is something to write."""
        with self._mutex:
            self._promised = None
            self._wake()

    def _add(self, ticket: Ticket) -> None:
        if self._refusal:
            raise LogClosed(self._refusal)
        self._tickets.append(ticket)
        self._bytes += ticket.size_bytes

    def _wake(self) -> None:
        if self._idle:
            self._idle = False
            self._work.notify()

    def _wait_for_room(self, size_bytes: int) -> None:
        while self._tickets and self._bytes + size_bytes > self._room_bytes and not self._refusal:
            self._room.wait()

    def gather(self, patience_s: float) -> list[Ticket] | None:
        """Wait for work and take all that waits, up to the size of a group.

        Returns an empty list when `patience_s` have passed without work, None when it is time to end.
        """
        with self._mutex:
            while not self._tickets:
                if self._closing:
                    return None
                self._idle = True
                in_time = self._work.wait(patience_s)
                self._idle = False
                if not in_time and not self._tickets:
                    return []
            group = self._take()
            self._room.notify_all()
            return group

    def _take(self) -> list[Ticket]:
        if self._bytes <= self._group_bytes:
            group = list(self._tickets)
            self._tickets.clear()
            self._bytes = 0
            return group
        group = [self._tickets.popleft()]
        size = group[0].size_bytes
        while self._tickets and size + self._tickets[0].size_bytes <= self._group_bytes:
            group.append(self._tickets.popleft())
            size += group[-1].size_bytes
        self._bytes -= size
        return group

    def close(self, refusal: str) -> None:
        """Take nothing more; what waits is still handed out, then `gather` says that it is time to end."""
        with self._mutex:
            self._refusal = self._refusal or refusal
            self._closing = True
            self._work.notify_all()
            self._room.notify_all()

    def empty(self, refusal: str) -> list[Ticket]:
        """Take nothing more, and hand over what waits, which will never be written."""
        with self._mutex:
            self._refusal = refusal
            waiting = list(self._tickets)
            self._tickets.clear()
            self._bytes = 0
            self._room.notify_all()
            return waiting
