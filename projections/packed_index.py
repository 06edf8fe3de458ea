"""Keys of many things in few bytes, and the place of each: a digest of 16 bytes and two small numbers."""

from array import array
from collections.abc import Mapping
from itertools import chain, repeat
from struct import Struct
from typing import Final

from .packed_column import Column

CONTENT_BYTES: Final = 16
_FEWEST_SLOTS: Final = 16
_head: Final = Struct("=I").unpack_from
# Odd numbers, so that keys that differ in one number alone are spread as widely as digests are.
_SPREAD_OCCURRENCES: Final = 0x9E3779B1
_SPREAD_SAMPLES: Final = 0x85EBCA6B


class PackedIndex:
    """Gives keys their ordinals, dense from 0 in the order in which they came, and finds them again.

    A key takes 16 bytes, 6 to 12 in the table of slots, and what its numbers need where they are not 1. A
    slot holds an ordinal plus one, or 0; a key is looked for from the slot that its bytes say to the next
    free one. Nothing is ever taken out.
    """

    __slots__ = ("_contents", "_mask", "_occurrences", "_room", "_samples", "_slots")

    def __init__(self) -> None:
        self._slots: array[int]
        self._contents = bytearray()
        self._occurrences = Column(absent=1)
        self._samples = Column(absent=1)
        self._clear_slots(_FEWEST_SLOTS)

    def __len__(self) -> int:
        return len(self._contents) // CONTENT_BYTES

    def find(self, content: bytes, occurrence: int, sample: int) -> int | None:
        """The ordinal of a key; null if it was not added."""
        if len(content) != CONTENT_BYTES:
            return None
        known = self._slots[self._slot_of(content, occurrence, sample)]
        return known - 1 if known else None

    def add(self, content: bytes, occurrence: int, sample: int) -> int:
        """The ordinal of a key, which is the next one if it is new: then it is what `len` was before.

        Raises:
            ValueError: the content is not 16 bytes.
            OverflowError: a number is negative or has more than 64 bits.
        """
        if len(content) != CONTENT_BYTES:
            raise ValueError(
                f"a content id of {CONTENT_BYTES} bytes was expected, found {len(content)} bytes"
            )
        slot = self._slot_of(content, occurrence, sample)
        if known := self._slots[slot]:
            return known - 1
        ordinal = len(self._contents) // CONTENT_BYTES
        self._occurrences.put(ordinal, occurrence)
        self._samples.put(ordinal, sample)
        self._contents += content
        self._slots[slot] = ordinal + 1
        if ordinal >= self._room:
            self._grow()
        return ordinal

    def content(self, ordinal: int) -> bytes:
        """The content of the key with an ordinal, which there must be."""
        start = ordinal * CONTENT_BYTES
        return bytes(self._contents[start : start + CONTENT_BYTES])

    def key(self, ordinal: int) -> tuple[bytes, int, int]:
        """The key with an ordinal, which there must be: content, occurrence, sample."""
        return self.content(ordinal), self._occurrences.get(ordinal), self._samples.get(ordinal)

    def sample(self, ordinal: int) -> int:
        """The second number of the key with an ordinal, which there must be."""
        return self._samples.get(ordinal)

    def parts(self) -> dict[str, bytes]:
        """All of it, as named bytes."""
        return {
            "contents": bytes(self._contents),
            "occurrences": self._occurrences.part(),
            "samples": self._samples.part(),
        }

    @classmethod
    def of_parts(cls, parts: Mapping[str, bytes | memoryview]) -> "PackedIndex":
        """The index that `parts` are all of.

        Raises:
            KeyError, ValueError: they are of none.
        """
        index = cls()
        contents = parts["contents"]
        if len(contents) % CONTENT_BYTES:
            raise ValueError(
                f"content ids of {CONTENT_BYTES} bytes were expected, found {len(contents)} bytes"
            )
        index._contents = bytearray(contents)
        index._occurrences = Column.of_part(parts["occurrences"], absent=1)
        index._samples = Column.of_part(parts["samples"], absent=1)
        slots = _FEWEST_SLOTS
        while len(index) * 3 > slots * 2:
            slots *= 2
        index._clear_slots(slots)
        index._fill_slots()
        return index

    def _slot_of(self, content: bytes, occurrence: int, sample: int) -> int:
        """The slot that a key is in, or else the free one that it belongs into."""
        slots, mask, contents = self._slots, self._mask, self._contents
        head: int = _head(content)[0]
        slot = head + occurrence * _SPREAD_OCCURRENCES + sample * _SPREAD_SAMPLES & mask
        while following := slots[slot]:
            end = following * CONTENT_BYTES
            if (
                contents.startswith(content, end - CONTENT_BYTES)
                and self._samples.get(following - 1) == sample
                and self._occurrences.get(following - 1) == occurrence
            ):
                break
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        # What was there is let go first: two tables at once would be the peak of a run's memory.
        slots = 2 * len(self._slots)
        self._slots = array("I")
        self._clear_slots(slots)
        self._fill_slots()

    def _clear_slots(self, slots: int) -> None:
        self._slots = array("I", bytes(4 * slots))
        self._mask = slots - 1
        # Two thirds full at most.
        self._room = slots * 2 // 3 - 1

    def _fill_slots(self) -> None:
        slots, mask = self._slots, self._mask
        # All keys at once, without a look at each content: this is most of what adding costs.
        with memoryview(self._contents).cast("I") as words:
            heads = words[:: CONTENT_BYTES // words.itemsize]
            occurrences, samples = (
                chain(self._occurrences.cells, repeat(1)),
                chain(self._samples.cells, repeat(1)),
            )
            for number, (head, occurrence, sample) in enumerate(
                zip(heads, occurrences, samples, strict=False), 1
            ):
                slot = head + occurrence * _SPREAD_OCCURRENCES + sample * _SPREAD_SAMPLES & mask
                while slots[slot]:
                    slot = (slot + 1) & mask
                slots[slot] = number
            heads.release()
