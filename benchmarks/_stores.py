"""What the fault table asks of a store. Each store is used as its own documents say for durable appends."""

import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

Append = Callable[[int, bytes], None]
Sizes = Sequence[dict[str, int]]

CHECK_NONE = "no check"
CHECK_OK = "ok"


class Extent(NamedTuple):
    """Where an acknowledged record lies; cut at `boundary`, the records before are whole."""

    file: str
    start: int
    end: int
    boundary: int


class Store:
    """One store, in one way of using it.

    Stores of one `family` write the same files and get the same images; they differ in how they reopen them.
    """

    name = ""
    family = ""
    # Files that are not record data: a fault or a torn tail is never placed there.
    beside: tuple[str, ...] = ()
    # Data before this offset is never part of a torn tail (a store may rely on whole sectors there).
    head_bytes = 0

    def version(self) -> str:
        """The version of the store itself, for the table's head. Imports what the store needs."""
        raise NotImplementedError

    def appender(self, directory: Path) -> Append:
        """Make the store; what is given back appends record `number` and returns once it is durable."""
        raise NotImplementedError

    def settle(self, append: Append) -> Append:
        """What happens between the last acknowledged append and the copy of the files."""
        return append

    def extents(self, directory: Path, payloads: Sequence[bytes], sizes: Sizes) -> list[Extent]:
        """Where each record lies. `sizes` are the files' sizes before the first append and after each."""
        raise NotImplementedError

    def prepare(self, directory: Path) -> None:
        """What happened to the files beside the fault."""

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """Open for writing, as after a crash, and read all records. Any exception is a refusal."""
        raise NotImplementedError

    def check(self, directory: Path) -> str:
        """What the store's own integrity check says: "ok", a complaint, or that there is none."""
        del directory
        return CHECK_NONE


def find_once(data: bytes, needle: bytes, what: str) -> int:
    """Where `needle` is, which must be there exactly once."""
    at = data.find(needle)
    if at < 0 or data.find(needle, at + 1) >= 0:
        raise RuntimeError(f"{what} is not there exactly once, so no fault can be placed in it.")
    return at


def payload(number: int) -> bytes:
    """A record of about 300 bytes, like a small chat event; no two are alike, and none compresses well."""
    noise = b"".join(hashlib.sha256(b"%d %d" % (number, part)).hexdigest().encode() for part in range(4))
    return json.dumps({"event": number, "role": "assistant", "text": noise.decode()}).encode()


def file_sizes(directory: Path) -> dict[str, int]:
    """The size of every file in a directory."""
    with os.scandir(directory) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}


@functools.cache
def payloads(count: int) -> tuple[bytes, ...]:
    """The first `count` records."""
    return tuple(payload(number) for number in range(1, count + 1))
