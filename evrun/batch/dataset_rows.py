"""From a line or a table's cells to a usable row, or to what is wrong with it."""

import json
from typing import Any, NamedTuple

import msgspec

from projections import is_batch_line, prompt_text, row_messages

from .dataset_lines import BatchLines
from .dataset_terms import Terms
from .dataset_words import kind, shown

DEEPEST = 200
"""So deep a row's arrays and objects may nest."""
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


class RowReader:
    """Makes the rows of one reading of a dataset."""

    def __init__(self, terms: Terms) -> None:
        self._template = terms.template
        self._plain = terms.plain
        self._needs_prompt = "prompt" in terms.fields
        self._batch_lines = BatchLines(terms)

    def of_text(self, number: int, text: bytes) -> Row | BadLine:
        """The row of a line of JSON."""
        if len(text) > LARGEST_ROW_BYTES:
            return _too_large(number, text)
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            return BadLine(number, f"bad UTF-8 at byte {error.start} of the line")
        try:
            value = _json(text)
        except RecursionError:
            return BadLine(number, f"nested too deeply; found {shown(text)}")
        except ValueError as error:
            return BadLine(number, f"bad JSON: {error}; found {shown(text)}")
        return self._checked(number, value, text)

    def of_cells(self, number: int, cells: dict[str, Any]) -> Row | BadLine:
        """The row of a table's cells: what JSON does not have is written as text."""
        text = msgspec.json.encode(cells, enc_hook=str)
        if len(text) > LARGEST_ROW_BYTES:
            return _too_large(number, text)
        return self._checked(number, msgspec.json.decode(text), text)

    def _checked(self, number: int, value: Any, text: bytes) -> Row | BadLine:
        complaint = _too_deep(value, text) or self._complaint(number, value)
        return BadLine(number, complaint) if complaint else Row(number, value, text)

    def _complaint(self, number: int, value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"not an object: found {kind(value)}"
        asked_plainly = self._plain and type(value.get("prompt")) is str
        if not asked_plainly and is_batch_line(value):
            return self._batch_lines.complaint(number, value)
        if self._needs_prompt:
            missing = _no_prompt(value)
            if missing is not None:
                return missing
        return None if asked_plainly else self._unaskable(value)

    def _unaskable(self, value: dict[str, Any]) -> str | None:
        try:
            row_messages(value, {"template": self._template})
            prompt_text(value, self._template)
        except ValueError as error:
            return str(error)
        return None


def _no_prompt(value: dict[str, Any]) -> str | None:
    """What is wrong with a row's prompt, or with what stands for it."""
    prompt = value.get("prompt")
    if type(prompt) is str:
        return None if prompt.strip() else "blank prompt"
    turns = value.get("messages")
    turns = value.get("conversations") if turns is None else turns
    if "prompt" in value and (prompt is not None or turns is None):
        return f"prompt is not a string: found {kind(prompt)}"
    if turns is None:
        fields = ", ".join(sorted(value)).encode("utf-8", "replace")
        return f'no "prompt" (found the fields {shown(fields) if fields else "none"})'
    if not isinstance(turns, list) or not turns:
        return f"messages is not a list of turns: found {kind(turns)}"
    return None


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
    return f"nested more than {DEEPEST} deep; found {shown(text)}"


def _too_large(number: int, text: bytes) -> BadLine:
    return BadLine(number, f"too large: {len(text)} bytes, at most {LARGEST_ROW_BYTES} fit into the log")
