"""What rows are known by, in few bytes: a run may have a million of them.

A prompt is known by its content, never by its place: a digest of its exact text with `image` and `cwd` (and
of the other fields that a template names), and an occurrence number for repeats. All here is pure.
"""

import hashlib
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from projections import PackedIndex, prompt_text, unit_name

PLAIN = "{prompt}"
_ROW = 0
"""In the place of a sample's number, where a whole row is meant."""


class Identity(NamedTuple):
    """What a row is known by: its 16-byte content id and which of its equals it is, from 1."""

    content: bytes
    occurrence: int


def content_id(row: dict[str, Any], template: str = PLAIN) -> bytes:
    """Sixteen bytes that stand for a row's exact prompt text, image and working directory."""
    prompt = row.get("prompt")
    # What most rows are, said at once; `prompt_text` says the same of them.
    text = prompt if template == PLAIN and type(prompt) is str else prompt_text(row, template)
    image = row.get("image")
    image = row.get("docker_image") if image is None else image
    return hashlib.sha256(_part(text) + _part(image) + _part(row.get("cwd"))).digest()[:16]


def _part(value: object) -> bytes:
    """A part of an identity. The length in front keeps ("ab", "c") and ("a", "bc") apart."""
    if value is None:
        return b"-1:"
    data = str(value).encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(data), data)


class Identities:
    """The identities of rows, in their order and by content; each is there once."""

    def __init__(self) -> None:
        self._index = PackedIndex()
        # At the place of each content's first row: how many rows have it.
        self._equals = array("I")

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Identity]:
        return map(self.identity, range(len(self._index)))

    def identity(self, place: int) -> Identity:
        """The identity of the row at a place, from 0."""
        content, occurrence, _ = self._index.key(place)
        return Identity(content, occurrence)

    def content(self, place: int) -> bytes:
        """The content id of the row at a place."""
        return self._index.content(place)

    def place_of(self, content: bytes, occurrence: int) -> int | None:
        """Where a row stands; null where it is not there."""
        return self._index.find(content, occurrence, _ROW)

    def add(self, content: bytes) -> int:
        """One more row, with this content; which of its equals it is."""
        first = self._index.add(content, 1, _ROW)
        if first == len(self._equals):
            self._equals.append(1)
            return 1
        occurrence = self._equals[first] + 1
        self._equals[first] = occurrence
        self._index.add(content, occurrence, _ROW)
        self._equals.append(1)
        return occurrence


class Identifier:
    """Gives rows their identities, counting repeats."""

    def __init__(self, template: str = PLAIN) -> None:
        self._template = template
        self.identities = Identities()

    def identify(self, row: dict[str, Any]) -> Identity:
        """The identity of the next row."""
        content = content_id(row, self._template)
        return Identity(content, self.identities.add(content))


class UnitNames:
    """Names of units in the order in which they came, in some 40 bytes each."""

    def __init__(self) -> None:
        self._index = PackedIndex()

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[str]:
        return (unit_name(*self._index.key(place)) for place in range(len(self._index)))

    def add(self, content: bytes, occurrence: int, sample: int = _ROW) -> None:
        """One more unit, or, without a sample, a whole row; one that is there already changes nothing."""
        self._index.add(content, occurrence, sample)
