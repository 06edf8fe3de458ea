"""LMDB in the fault table: a memory-mapped B-tree that copies pages on write, and has no checksums."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import unpack_from

import lmdb
import lmdb.verify

from benchmarks._stores import Append, Extent, Sizes, Store

FILE = "data.mdb"
PAGE_BYTES = 4096
PAGE_HEADER_BYTES = 16
NODE_HEADER_BYTES = 8
IS_BRANCH, IS_LEAF = 1, 2
MAIN_ROOT, TRANSACTION = 128, 144  # in a meta page, behind the page header


class Lmdb(Store):
    """The default: a sync of the data, then of the meta page, in every transaction."""

    name = "LMDB"
    family = "lmdb"
    beside = ("lock.mdb",)
    # LMDB relies on a meta page being written whole, so an interrupted commit is one before that write.
    head_bytes = 2 * PAGE_BYTES

    def version(self) -> str:
        """Of the library and the binding."""
        return f"LMDB {'.'.join(map(str, lmdb.version()))} (lmdb {lmdb.__version__})"

    def appender(self, directory: Path) -> Append:
        """A write transaction each."""
        environment = _open(directory)

        def append(number: int, payload: bytes) -> None:
            with environment.begin(write=True) as transaction:
                transaction.put(number.to_bytes(8, "big"), payload)

        return append

    def extents(self, directory: Path, payloads: Sequence[bytes], sizes: Sizes) -> list[Extent]:
        """The node of each record, in a page that the newest root reaches."""
        del sizes
        data = (directory / FILE).read_bytes()
        newest = max((0, PAGE_BYTES), key=lambda meta: unpack_from("<Q", data, meta + TRANSACTION)[0])
        nodes = dict(_nodes(data, unpack_from("<Q", data, newest + MAIN_ROOT)[0]))
        return [nodes[number] for number in range(1, len(payloads) + 1)]

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """All keys in order, by a cursor, in an environment that may be written to."""
        with _open(directory).begin() as transaction, transaction.cursor() as cursor:
            return [(int.from_bytes(key, "big"), bytes(value)) for key, value in cursor]

    def check(self, directory: Path) -> str:
        """The structural verifier that comes with the binding."""
        try:
            problems = lmdb.verify.verify(str(directory))
        except lmdb.verify.VerifyError as error:
            return str(error)
        return "; ".join(problems)[:200] or "ok"


def _nodes(data: bytes, page: int) -> Iterator[tuple[int, Extent]]:
    """Every record below a page of the tree, with the place of its node."""
    base = page * PAGE_BYTES
    flags, lower = unpack_from("<HH", data, base + 10)
    for offset in unpack_from(f"<{(lower - PAGE_HEADER_BYTES) // 2}H", data, base + PAGE_HEADER_BYTES):
        node = base + offset
        low, high, node_flags, key_bytes = unpack_from("<HHHH", data, node)
        if flags & IS_BRANCH:
            yield from _nodes(data, low | high << 16 | node_flags << 32)
        elif flags & IS_LEAF:
            key = node + NODE_HEADER_BYTES
            end = key + key_bytes + (low | high << 16)
            number = int.from_bytes(data[key : key + key_bytes], "big")
            yield number, Extent(FILE, node, end, base + PAGE_BYTES)


def _open(directory: Path) -> lmdb.Environment:
    return lmdb.open(str(directory), map_size=64 * 1024 * 1024)
