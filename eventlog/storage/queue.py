"""What waits to be written: filled by any thread or loop, emptied by the writer's thread."""

import threading
from _thread import allocate_lock
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
        self._idle = False  # the writer waits for the bell, or is about to
        self._promised: object = None  # the loop that will call `wake`; another one does not rely on it
        self._waiting_for_room = 0
        self._refusal = ""  # why nothing more is taken; empty while all is well
        self._closing = False
        self.make_locks()

    def make_locks(self) -> None:
        """Make the locks, again in the child of a fork: there nobody is left to release the old ones."""
        self._mutex = threading.Lock()
        self._room = threading.Condition(self._mutex)  # there is room again
        # A bare lock, held but for the moment of ringing: one append rings it once, and a Condition's
        # bookkeeping costs more than the frame.
        self._bell = allocate_lock()
        self._bell.acquire()

    def put(self, ticket: Ticket) -> None:
        """Queue a ticket, once there is room, and wake the writer.

        Raises:
            LogClosed: nothing more is taken.
        """
        with self._mutex:
            if self._tickets:
                self._wait_for_room(ticket.size_bytes)
            if self._refusal:
                raise LogClosed(self._refusal)
            self._tickets.append(ticket)
            self._bytes += ticket.size_bytes
            if self._idle:
                self._ring()

    def put_soon(self, ticket: Ticket, loop: object) -> bool:
        """Queue a ticket at once, without waking the writer; true: `loop` has to call `wake` soon.

        What a loop queues before it comes to that call shares one frame and one sync.

        Raises:
            LogClosed: nothing more is taken.
        """
        with self._mutex:
            if self._refusal:
                raise LogClosed(self._refusal)
            self._tickets.append(ticket)
            self._bytes += ticket.size_bytes
            if not self._idle or self._promised is loop:
                return False
            self._promised = loop
            return True

    def wake(self) -> None:
        """There is something to write."""
        with self._mutex:
            self._promised = None
            if self._idle:
                self._ring()

    def _ring(self) -> None:
        """Wake the writer, once; the mutex is held."""
        self._idle = False
        self._bell.release()

    def _wait_for_room(self, size_bytes: int) -> None:
        while self._tickets and self._bytes + size_bytes > self._room_bytes and not self._refusal:
            self._waiting_for_room += 1
            try:
                self._room.wait()
            finally:
                self._waiting_for_room -= 1

    def gather(self, patience_s: float) -> list[Ticket] | None:
        """Wait for work and take all that waits, up to the size of a group.

        Returns an empty list when `patience_s` have passed without work, None when it is time to end.
        """
        while True:
            with self._mutex:
                if self._tickets:
                    return self._take()
                if self._closing:
                    return None
                self._idle = True
            if not self._hears_bell(patience_s):
                return []

    def _hears_bell(self, patience_s: float) -> bool:
        """Wait for the bell. A bell that nobody rang in time is left as it was."""
        if self._bell.acquire(timeout=patience_s):
            return True
        with self._mutex:
            rung = not self._idle  # in the moment between giving up and getting the mutex
            self._idle = False
            if rung:
                self._bell.acquire()
            return rung or bool(self._tickets)

    def _take(self) -> list[Ticket]:
        """What waits, or a group of it; the mutex is held."""
        if self._waiting_for_room:
            self._room.notify_all()
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
            if self._idle:
                self._ring()
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
