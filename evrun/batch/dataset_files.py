"""The files that datasets are in: which form a name stands for, and lines out of packed and plain files."""

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

import zstandard

from ..errors import UsageFault

Form = Literal["jsonl", "csv", "parquet"]
ENDINGS: dict[str, Form] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
ZST_BLOCK_BYTES = 4096
"""So little is unpacked at once, because a few bytes can stand for very many."""
ZST_WINDOW_BYTES = 1 << 31
_MAGIC = {b"\x1f\x8b": "stdin.jsonl.gz", b"\x28\xb5\x2f\xfd": "stdin.jsonl.zst", b"PAR1": "stdin.parquet"}


def form_of(path: Path) -> Form:
    """The form of a dataset, by its name.

    Raises:
        UsageFault: none that evrun reads, or no regular file.
    """
    name = path.name.lower()
    form = ENDINGS.get(Path(_unpacked_name(name)).suffix)
    if form is None or (form == "parquet" and not name.endswith(".parquet")):
        raise UsageFault(
            f"dataset {path}: expected .jsonl or .csv (also .gz, .zst) or .parquet, "
            f"found {path.suffix or 'no ending'}",
            hint="write one JSON object with a prompt on each line, or a table with a column of prompts",
        )
    if path.exists() and not path.is_file():
        # A pipe could be read once only, and a dataset is read twice.
        raise UsageFault(
            f"dataset {path}: expected a regular file", hint="give - to read from standard input"
        )
    return form


@contextmanager
def opened_lines(path: Path) -> Iterator[Iterable[bytes]]:
    """The lines of a file, plain or packed.

    Raises:
        UsageFault: it cannot be read, or is damaged.
    """
    name = path.name.lower()
    try:
        if name.endswith(".zst"):
            with path.open("rb") as packed_file:
                yield _lines(_unpacked(packed_file))
        elif name.endswith(".gz"):
            with gzip.open(path, "rb") as packed:
                yield cast("IO[bytes]", packed)
        else:
            with path.open("rb") as lines:
                yield lines
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> UsageFault:
    """What to say of a dataset that cannot be read."""
    return UsageFault(f"dataset {path}: {_reason(error)}", hint="give the path of a readable dataset")


def spool_stdin(directory: Path) -> Path:
    """Standard input as a file, because a dataset is read twice: once to check it, once to plan it.

    It is JSONL, plain or packed, or parquet, by its first bytes; nothing tells a CSV from junk.
    """
    target = directory / "stdin"
    with target.open("wb") as out:
        while block := sys.stdin.buffer.read(1 << 20):
            out.write(block)
    with target.open("rb") as spooled:
        start = spooled.read(4)
    name = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "stdin.jsonl")
    named = directory / name
    named.hardlink_to(target)
    target.unlink()
    return named


def _unpacked_name(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".zst")


def _unpacked(packed: IO[bytes]) -> Iterator[bytes]:
    """What a .zst file holds, in blocks, frame after frame: some packers write several.

    Raises:
        EOFError: the file ends inside a frame. The library's own readers take that for the end.
    """
    frame = None
    while data := packed.read(ZST_BLOCK_BYTES):
        while data:
            if frame is None:
                frame = zstandard.ZstdDecompressor(max_window_size=ZST_WINDOW_BYTES).decompressobj()
            yield frame.decompress(data)
            data, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise EOFError("Compressed file ended before the end of its last frame")


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    for block in blocks:
        first, *more = block.split(b"\n")
        parts.append(first)
        for piece in more:
            parts.append(b"\n")
            yield b"".join(parts)
            parts = [piece]
    yield b"".join(parts)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return getattr(error, "strerror", None) or str(error)
