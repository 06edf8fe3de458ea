"""One line of a Hermes batch file: what it says of one prompt, or why it says nothing. Pure."""

import hashlib
import json
import re
from typing import Any, NamedTuple

import msgspec

from projections import imported_prompt

TOMBSTONE_REASON = "discarded"
FAILURE_CLASS = "hermes_failed"
LARGEST_LINE_BYTES = 250 << 20
"""A row is part of one commit of the log, which holds at most 256 MiB."""
_INDEX = re.compile(rb'\s*\{\s*"prompt_index"\s*:\s*([0-9]{1,15})\b')


class Unread(NamedTuple):
    """Something that is in the directory and not in the run: the file, its line from 1 if any, and why."""

    file: str
    line: int | None
    what: str

    @property
    def said(self) -> str:
        """All of it on one line."""
        return f"{self.file}{'' if self.line is None else f', line {self.line}'}: {self.what}"


class Found(msgspec.Struct, gc=False):
    """What a line says of one prompt, in few bytes: the line itself is read again when it is needed.

    `source` numbers the files that were read, `line` counts from 1; `offset` and `length` are the line's
    place in bytes, `digest` stands for it. `index` and `batch` are Hermes's own numbers where it gives them.
    `exact` and `trimmed` stand for the prompt's text as it is and without white space around it.
    """

    source: int
    line: int
    offset: int
    length: int
    digest: bytes
    index: int | None
    batch: int | None
    outcome: str
    reason: str | None
    exact: bytes
    trimmed: bytes

    @property
    def key(self) -> tuple[int, int, bytes]:
        """Two lines with the same key are about the same prompt; one without an index has its own."""
        return (-1, self.index, self.trimmed) if self.index is not None else (self.source, self.line, b"")


def digest(data: bytes) -> bytes:
    """Sixteen bytes that stand for any number of them."""
    return hashlib.sha256(data).digest()[:16]


def text_digests(text: str) -> tuple[bytes, bytes]:
    """What stands for a text, and for the text without white space around it."""
    return digest(text.encode("utf-8", "surrogatepass")), digest(
        text.strip().encode("utf-8", "surrogatepass")
    )


def read_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line, read as Python's own reader does, which wrote it.

    Raises:
        ValueError: why it is none.
    """
    if len(line) > LARGEST_LINE_BYTES:
        raise ValueError(f"too large: {len(line)} bytes, at most {LARGEST_LINE_BYTES} fit into the log")
    value = _read(line)
    if not isinstance(value, dict):
        raise ValueError(f"not an object: found {type(value).__name__}")  # noqa: TRY004 (one error for all)
    return value


def _read(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"bad UTF-8 at byte {error.start} of the line") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"bad JSON: {error}") from error


def outcome_of(row: dict[str, Any]) -> tuple[str, str | None]:
    """How the prompt of a row ended, and the reason.

    Raises:
        ValueError: the row does not say which prompt it is about.
    """
    turns = row.get("conversations")
    if row.get("failed") is True:
        outcome: tuple[str, str | None] = "failed", FAILURE_CLASS
    elif "discarded" in row and not turns:
        reason = row["discarded"]
        outcome = "discarded", reason if isinstance(reason, str) and reason else TOMBSTONE_REASON
    else:
        _check_turns(turns)
        outcome = "kept", None
    if imported_prompt(row) is None:
        raise ValueError("no prompt: expected a human turn (or `prompt`, where there are no turns)")
    return outcome


def _check_turns(turns: object) -> None:
    if not isinstance(turns, list) or not turns:
        raise ValueError("no trajectory: expected `conversations`, a list of turns")
    for place, turn in enumerate(turns, 1):
        whole = isinstance(turn, dict) and isinstance(turn.get("from"), str)
        if not whole or not isinstance(turn.get("value"), str):
            raise ValueError(f"turn {place} of `conversations`: expected an object with `from` and `value`")


def natural(value: object) -> int | None:
    """A whole number from 0, or null."""
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def metadata(row: dict[str, Any]) -> dict[str, Any]:
    """A row's `metadata`, empty where it has none."""
    found = row.get("metadata")
    return found if isinstance(found, dict) else {}


def damaged_index(line: bytes) -> int | None:
    """The `prompt_index` that a damaged line begins with, if it does."""
    match = _INDEX.match(line[:200])
    return int(match[1]) if match else None
