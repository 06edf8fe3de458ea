"""A Hermes output directory, read through once: what it says, and what in it cannot be read."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from eventlog.events import InputDigest
from projections import imported_prompt

from ..errors import UsageFault
from .reading import (
    Found,
    Unread,
    damaged_index,
    digest,
    metadata,
    natural,
    outcome_of,
    read_object,
    text_digests,
)

TRAJECTORIES = "trajectories.jsonl"
CHECKPOINT = "checkpoint.json"
STATISTICS = "statistics.json"
_BATCH = re.compile(r"batch_(0|[1-9][0-9]{0,8})\.jsonl")


class Survey(msgspec.Struct):
    """What was found: `found` is in the order of batches and lines, one for each prompt's outcome.

    `done` are the indices that the checkpoint calls completed; `damaged` those of lines that could not be
    read, whose prompts are not done whatever the checkpoint says. `models` are by first use.
    """

    directory: Path
    sources: list[InputDigest] = []
    found: list[Found] = []
    unread: list[Unread] = []
    notes: list[str] = []
    models: dict[str, None] = {}
    done: set[int] = set()
    damaged: set[int] = set()
    copies: int = 0

    @property
    def lost(self) -> list[int]:
        """Completed indices of which no row is there, and no damaged line that may have been it."""
        return sorted(
            self.done - self.damaged - {item.index for item in self.found if item.index is not None}
        )


def survey(directory: Path) -> Survey:
    """Read a directory.

    Raises:
        UsageFault: it is none, or it holds no file of Hermes.
    """
    names = _names(directory)
    batches = sorted((int(match[1]), name) for name in names if (match := _BATCH.fullmatch(name)))
    if not batches and TRAJECTORIES not in names:
        there = ", ".join(names[:5]) or "nothing"
        raise UsageFault(
            f"{directory}: expected batch_<n>.jsonl or {TRAJECTORIES}, found {there}",
            hint="give the directory that a Hermes run wrote, for example data/my_first_run",
        )
    what = Survey(directory)
    seen = _Seen(what)
    for number, name in batches:
        seen.read(name, number)
    if TRAJECTORIES in names:
        seen.read(TRAJECTORIES, None)
    if CHECKPOINT in names:
        _read_checkpoint(what)
    if STATISTICS in names:
        what.notes.append(f"{STATISTICS} is not read: the numbers are counted again from the rows")
    return what


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        raise UsageFault(
            f"{directory}: {error.strerror}", hint="give a directory that can be read"
        ) from error


class _Seen:
    """Reads files into a survey, each outcome once."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._digests: set[bytes] = set()
        self._by_key: dict[tuple[int, int, bytes], int] = {}

    def read(self, name: str, batch: int | None) -> None:
        """Read a file: batch files first, then the file that they were merged into."""
        path = self._survey.directory / name
        hasher, offset = hashlib.sha256(), 0
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    hasher.update(line)
                    self._line(name, batch, number, offset, line)
                    offset += len(line)
        except OSError as error:
            raise UsageFault(f"{path}: {error.strerror}", hint="give a directory that can be read") from error
        self._survey.sources.append(InputDigest(name, hasher.hexdigest(), offset, str(path.resolve())))

    def _line(self, name: str, batch: int | None, number: int, offset: int, line: bytes) -> None:
        if not line.strip():
            return
        whole = digest(line.rstrip(b"\r\n"))
        if whole in self._digests:
            # trajectories.jsonl repeats every line of the batch files.
            self._survey.copies += batch is not None
            return
        try:
            row = read_object(line)
            outcome, reason = outcome_of(row)
        except ValueError as error:
            torn = "" if line.endswith(b"\n") else "the file ends in half a line: "
            self._survey.unread.append(Unread(name, number, f"{torn}{error}"))
            index = damaged_index(line)
            if index is not None:
                self._survey.damaged.add(index)
            return
        self._digests.add(whole)
        exact, trimmed = text_digests(imported_prompt(row) or "")
        there = natural(metadata(row).get("batch_num")) if batch is None else batch
        index, source = natural(row.get("prompt_index")), len(self._survey.sources)
        place = (source, number, offset, len(line))
        self._take(name, Found(*place, whole, index, there, outcome, reason, exact, trimmed), row)

    def _take(self, name: str, item: Found, row: dict[str, Any]) -> None:
        """One outcome for each prompt: the first trajectory, else the first of what there is."""
        found, before = self._survey.found, self._by_key.get(item.key)
        model = metadata(row).get("model")
        if isinstance(model, str) and model:
            self._survey.models.setdefault(model)
        if before is None:
            self._by_key[item.key] = len(found)
            found.append(item)
        elif item.outcome == "kept" and found[before].outcome != "kept":
            found[before] = item
        elif item.outcome == "kept":
            first = found[before]
            where = f"{self._name(first.source, name)}, line {first.line}"
            what = f"another trajectory of the same prompt (index {item.index}) was taken: {where}"
            self._survey.unread.append(Unread(name, item.line, what))

    def _name(self, source: int, current: str) -> str:
        sources = self._survey.sources
        return sources[source].name if source < len(sources) else current


def _read_checkpoint(what: Survey) -> None:
    """Which indices were completed; the rest of the file says nothing that the rows do not."""
    try:
        value = json.loads((what.directory / CHECKPOINT).read_bytes())
        done = value["completed_prompts"]
        indices = [natural(item) for item in done]
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"expected an object with `completed_prompts`, a list of numbers: {error}"
        what.unread.append(Unread(CHECKPOINT, None, why))
        return
    what.done.update(index for index in indices if index is not None)
    strange = sum(index is None for index in indices)
    if strange:
        why = f"`completed_prompts` holds {strange} entries that are no index"
        what.unread.append(Unread(CHECKPOINT, None, why))


def lines_again(what: Survey) -> Iterator[tuple[Found, str, bytes]]:
    """Each outcome with the name of its file and its line, as it was when it was surveyed.

    Raises:
        UsageFault: a file changed meanwhile.
    """
    opened: IO[bytes] | None = None
    current = -1
    try:
        for item in sorted(what.found, key=lambda found: (found.source, found.offset)):
            source = what.sources[item.source]
            if item.source != current or opened is None:
                if opened is not None:
                    opened.close()
                opened, current = (what.directory / source.name).open("rb"), item.source
            opened.seek(item.offset)
            line = opened.read(item.length).rstrip(b"\r\n")
            if digest(line) != item.digest:
                raise UsageFault(
                    f"{what.directory / source.name} changed while it was read",
                    hint="wait until nobody works on that run, then import it",
                )
            yield item, source.name, line
    finally:
        if opened is not None:
            opened.close()
