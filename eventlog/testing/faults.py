"""Faults to order in advance: the n-th call of a kind fails, or takes and gives less than was asked for."""

import errno
from dataclasses import dataclass, field, replace
from typing import Literal

from .disk import FailedSync

FaultyCall = Literal[
    "open",
    "pread",
    "pwrite",
    "fdatasync",
    "fsync",
    "allocate",
    "truncate",
    "rename",
    "unlink",
    "names",
    "make_directory",
    "sync_directory",
]


@dataclass
class Fault:
    """One order.

    It passes over `skip` matching calls and then strikes `times` of them (None: all that follow).
    `error` is an errno, or None for a call that succeeds but moves at most `at_most` bytes. `path` is a part
    of the path the call is about; "" means any. A failing write first puts `at_most` bytes on the disk.
    """

    call: FaultyCall
    error: int | None
    at_most: int
    path: str
    skip: int
    times: int | None
    sync: FailedSync

    def strikes(self, call: str, path: str) -> bool:
        """Count this call if it matches, and tell whether the fault hits it."""
        if call != self.call or self.path not in path or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class Faults:
    """The faults of one simulated process; orders stand until they are used up or cleared."""

    orders: list[Fault] = field(default_factory=list)

    def fail(
        self,
        call: FaultyCall,
        *,
        error: int = errno.EIO,
        nth: int = 1,
        times: int | None = 1,
        path: str = "",
        written_bytes: int = 0,
        sync: FailedSync = "kept",
    ) -> None:
        """Let the `nth` matching call from now on fail with `error`, and `times` in all (None: for good).

        `written_bytes` is what a failing pwrite leaves on the disk all the same; `sync` is what a failing
        sync does to the pages it did not write.
        """
        self.orders.append(Fault(call, error, written_bytes, path, nth - 1, times, sync))

    def shorten(
        self,
        call: Literal["pread", "pwrite"],
        *,
        at_most: int,
        nth: int = 1,
        times: int | None = None,
        path: str = "",
    ) -> None:
        """Let matching calls from the `nth` on move at most `at_most` bytes (never none) and succeed."""
        self.orders.append(Fault(call, None, at_most, path, nth - 1, times, "dirty"))

    def order(self, fault: Fault) -> None:
        """Order this fault; the same one can be ordered again, its count begins anew."""
        self.orders.append(replace(fault))

    def clear(self) -> None:
        """Withdraw all orders."""
        self.orders.clear()

    def strike(self, call: FaultyCall, path: str) -> Fault | None:
        """Count the call and return the first fault that hits it."""
        hits = [order for order in self.orders if order.strikes(call, path)]
        return hits[0] if hits else None
