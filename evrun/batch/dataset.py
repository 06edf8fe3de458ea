"""Datasets: lines in, rows or precise complaints out. Reading is streaming; no row is kept."""

import codecs
import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import msgspec
import zstandard

from projections import prompt_text

from ..errors import DatasetFault, UsageFault

JSONL_ENDINGS = (".jsonl", ".ndjson", ".json")
DEEPEST = 200
"""So deep a row's arrays and objects may nest."""
ZST_BLOCK_BYTES = 4096
"""So little is unpacked at once, because a few bytes can stand for very many."""
ZST_WINDOW_BYTES = 1 << 31


LARGEST_ROW_BYTES = 250 << 20
"""A row is part of one commit of the log, which holds at most 256 MiB."""


class Row(NamedTuple):
    """One usable row: its line number from 1, its JSON object, and that object's bytes as they were."""

    line: int
    value: dict[str, Any]
    raw: bytes


class BadLine(NamedTuple):
    """One line that cannot be used: its number from 1 and what was found."""

    line: int
    found: str


def read_dataset(path: Path) -> Iterator[Row | BadLine]:
    """The rows of a JSONL file (plain, .gz or .zst), blank lines left out.

    Raises:
        UsageFault: no such file, or a form that evrun does not read.
    """
    with _opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if number == 1 and line.startswith(codecs.BOM_UTF8):
                line = line[len(codecs.BOM_UTF8) :]  # noqa: PLW2901 (the mark belongs to the file, not to the row)
            text = line.strip(b" \t\r\n")
            if text:
                yield _row(number, text)


def refuse_bad_lines(bad: list[BadLine], path: Path) -> None:
    """Say all that is wrong with a dataset at once.

    Raises:
        DatasetFault: there is at least one bad line.
    """
    if bad:
        listing = "\n".join(f"line {line}: {found}" for line, found in bad)
        raise DatasetFault(
            f"{path}: lines that cannot be used: {len(bad)}; nothing was run\n{listing}",
            lines=list(bad),
            hint="mend these lines, or leave them out with --skip-bad-rows",
        )


def _row(number: int, text: bytes) -> Row | BadLine:
    if len(text) > LARGEST_ROW_BYTES:
        return BadLine(number, f"too large: {len(text)} bytes, at most {LARGEST_ROW_BYTES} fit into the log")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        return BadLine(number, f"bad UTF-8 at byte {error.start} of the line")
    try:
        value = _json(text)
    except RecursionError:
        return BadLine(number, f"nested too deeply; found {_shown(text)}")
    except ValueError as error:
        return BadLine(number, f"bad JSON: {error}; found {_shown(text)}")
    complaint = _too_deep(value, text) or _complaint(value)
    return BadLine(number, complaint) if complaint else Row(number, value, text)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # A lone surrogate written as an escape is legal JSON that only the standard library takes; what is
        # no JSON at all gets its message from here too.
        return json.loads(text.decode("utf-8-sig"), parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _too_deep(value: Any, text: bytes) -> str | None:
    """How deep JSON may nest depends on where it is read; so a row is refused long before one fails."""
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return None
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        items = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return None
    return f"nested more than {DEEPEST} deep; found {_shown(text)}"


def _complaint(value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"not an object: found {_kind(value)}"
    if "prompt" in value:
        return _prompt_complaint(value["prompt"])
    turns = value.get("messages")
    turns = value.get("conversations") if turns is None else turns
    if turns is None:
        fields = ", ".join(sorted(value)).encode("utf-8", "replace")
        return f'no "prompt" (found the fields {_shown(fields) if fields else "none"})'
    return _turns_complaint(value, turns)


def _prompt_complaint(prompt: Any) -> str | None:
    if not isinstance(prompt, str):
        return f"prompt is not a string: found {_kind(prompt)}"
    return None if prompt.strip() else "blank prompt"


def _turns_complaint(value: dict[str, Any], turns: Any) -> str | None:
    if not isinstance(turns, list) or not turns:
        return f"messages is not a list of turns: found {_kind(turns)}"
    try:
        text = prompt_text(value)
    except ValueError as error:
        return str(error)
    return None if text.strip() else "blank prompt"


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    name = names.get(type(value), "an array" if isinstance(value, list) else "an object")
    return name if value is None else f"{name} {_shown(json.dumps(value).encode())}"


def _shown(text: bytes, limit: int = 60) -> str:
    cut = text[:limit].decode("utf-8", "replace")
    return repr(cut + "…" if len(text) > limit else cut)


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[bytes]]:
    name = path.name.lower()
    plain = name.removesuffix(".gz").removesuffix(".zst")
    if not plain.endswith(JSONL_ENDINGS):
        raise UsageFault(
            f"dataset {path}: expected .jsonl, .jsonl.gz or .jsonl.zst, found {path.suffix or 'no ending'}",
            hint="write one JSON object with a prompt on each line",
        )
    if path.exists() and not path.is_file():
        # A pipe could be read once only, and a dataset is read twice.
        raise UsageFault(
            f"dataset {path}: expected a regular file", hint="give - to read from standard input"
        )
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
        raise UsageFault(
            f"dataset {path}: {_reason(error)}", hint="give the path of a readable JSONL file"
        ) from error


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
            yield b"".join(parts)
            parts = [piece]
    yield b"".join(parts)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return getattr(error, "strerror", None) or str(error)


def spool_stdin(directory: Path) -> Path:
    """Standard input as a file, because a dataset is read twice: once to check it, once to plan it."""
    target = directory / "stdin.jsonl"
    with target.open("wb") as out:
        while block := sys.stdin.buffer.read(1 << 20):
            out.write(block)
    return target
