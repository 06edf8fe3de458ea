"""Hypothesis strategies for logs: what to append, what a disk does wrong, what happens to the files.

The one module here that needs Hypothesis: `pip install evrun[testing]`.
"""

import errno

from hypothesis import strategies as st

from ..storage.format import FRAME_MAGIC, SEGMENT_MAGIC
from .damage import CopyFile, Cut, Damage, DropFile, FillSector, FlipBit, SwapSectors, Where, file_sizes
from .disk import SECTOR_BYTES
from .faults import Fault

_CALLS = ("open", "pread", "pwrite", "fdatasync", "fsync", "allocate", "truncate", "rename", "sync_directory")
_ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


def payloads(max_bytes: int = 2_000) -> st.SearchStrategy[bytes]:
    """One event: any bytes, also none, bytes that look like the log's own, and whole sectors."""
    whole = st.integers(0, max_bytes).map(lambda size: b"\xa5" * size)
    lookalike = st.sampled_from((FRAME_MAGIC, SEGMENT_MAGIC, bytes(SECTOR_BYTES), FRAME_MAGIC * 128))
    return st.one_of(st.binary(max_size=min(64, max_bytes)), whole, lookalike.map(lambda it: it[:max_bytes]))


def commits(max_events: int = 4, max_bytes: int = 2_000) -> st.SearchStrategy[list[bytes]]:
    """The events of one commit: at least one."""
    return st.lists(payloads(max_bytes), min_size=1, max_size=max_events)


def faults(path: str = "") -> st.SearchStrategy[Fault]:
    """One thing that a disk does wrong: give it to `disk.faults.order`."""
    fails = st.builds(
        Fault,
        call=st.sampled_from(_CALLS),
        error=st.sampled_from(_ERRORS),
        at_most=st.sampled_from((0, 5, SECTOR_BYTES)),
        path=st.just(path),
        skip=st.integers(0, 12),
        times=st.one_of(st.integers(1, 3), st.none()),
        sync=st.sampled_from(("kept", "reverted", "dirty")),
    )
    shortens = st.builds(
        Fault,
        call=st.sampled_from(("pread", "pwrite")),
        error=st.none(),
        at_most=st.sampled_from((1, 300, SECTOR_BYTES)),
        path=st.just(path),
        skip=st.integers(0, 12),
        times=st.integers(1, 20),
        sync=st.just("dirty"),
    )
    return st.one_of(fails, shortens)


def damages(where: Where) -> st.SearchStrategy[Damage]:
    """One thing that may happen to the files of this log: `damage.apply(copy)`."""
    sizes = file_sizes(where)
    names = sorted(sizes)
    file, other = st.sampled_from(names), st.sampled_from([*names, f"{1:020d}-{99:08d}.evl"])
    whole: list[st.SearchStrategy[Damage]] = [st.builds(DropFile, file), st.builds(CopyFile, file, other)]
    return st.one_of(*whole, *(_damages_of(name, size) for name, size in sizes.items() if size))


def _damages_of(name: str, size: int) -> st.SearchStrategy[Damage]:
    file, at, sector = st.just(name), st.integers(0, size - 1), st.integers(0, (size - 1) // SECTOR_BYTES)
    ways: list[st.SearchStrategy[Damage]] = [
        st.builds(FlipBit, file, at, st.integers(0, 7)),
        st.builds(Cut, file, at),
        st.builds(FillSector, file, sector, st.sampled_from((bytes(SECTOR_BYTES), b"\xff" * SECTOR_BYTES))),
    ]
    if size >= 2 * SECTOR_BYTES:
        whole = st.integers(0, size // SECTOR_BYTES - 1)
        ways.append(st.builds(SwapSectors, file, whole, whole))
    return st.one_of(ways)
