"""How this process's memory is managed, for a run whose state is many small objects in a few large tables."""

import ctypes
import gc
from contextlib import suppress

_M_MMAP_THRESHOLD = -3  # glibc's malloc.h
# More than the 256 KiB that asyncio asks for at each read, which would be mapped and unmapped each time.
_LARGE_BYTES = 288 * 1024


def suit_many_small_objects() -> None:
    """Tune the garbage collector and the C library's allocator, for the rest of the process.

    The state of a run holds no cycles, so the collector need not walk it all the time. And glibc by default
    keeps ever larger blocks in its heap once one was freed: then each table that a growing dict leaves
    behind stays as a hole. With a fixed threshold large blocks go back to the system (docs/decisions/0014).
    Where there is no glibc, only the first is done.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
