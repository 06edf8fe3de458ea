"""A dictionary for a segment's blocks, trained on its own events, where that pays for its own size.

Docs/decisions/0009 has the measurements: records that share prompts and tool schemas gain, others do not.
"""

from collections.abc import Sequence

from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdError, train_dictionary

from .format import KIBIBYTE, MEBIBYTE

DICTIONARY_BYTES = 110 * KIBIBYTE
LEVEL = 9
BLOCK_PLAIN_BYTES = 64 * KIBIBYTE  # about so much goes into one block: what a random read unpacks
_SAMPLED_BYTES = 8 * MEBIBYTE
_LARGEST_SAMPLE_BYTES = 64 * KIBIBYTE
_SEGMENT_LENGTH = 200  # `k` and `d` of the trainer, found by trial
_MER_LENGTH = 8


class Samples:
    """Events spread evenly over a segment of unknown length, 8 MiB at most: every n-th, with n doubling."""

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._bytes = 0
        self._seen = 0
        self._every = 1
        self.total_bytes = 0

    def see(self, event: bytes) -> None:
        """Take an event in, or pass it by."""
        self.total_bytes += len(event)
        if self._seen % self._every == 0:
            self._events.append(event[:_LARGEST_SAMPLE_BYTES])
            self._bytes += len(self._events[-1])
            if self._bytes > _SAMPLED_BYTES:
                self._events = self._events[::2]
                self._bytes = sum(map(len, self._events))
                self._every *= 2
        self._seen += 1

    def dictionary(self) -> ZstdCompressionDict | None:
        """A dictionary that makes the segment smaller by more than its own size, or None.

        It is trained on one half of the samples and tried on the other, so that it is not judged by what it
        has seen.
        """
        trained = _train(self._events[::2])
        if trained is None:
            return None
        tried = _blocks(self._events[1::2])
        size = sum(map(len, tried))
        without = _compressed_bytes(tried, None)
        saved = (without - _compressed_bytes(tried, trained)) * self.total_bytes // max(1, size)
        return trained if saved > len(trained.as_bytes()) else None


def compressor(dictionary: ZstdCompressionDict | None) -> ZstdCompressor:
    """The compressor of all blocks of one segment."""
    return ZstdCompressor(level=LEVEL, dict_data=dictionary)


def _train(events: Sequence[bytes]) -> ZstdCompressionDict | None:
    try:
        return train_dictionary(DICTIONARY_BYTES, list(events), k=_SEGMENT_LENGTH, d=_MER_LENGTH, level=LEVEL)
    except ZstdError:
        return None  # too few events, or too much alike: nothing to learn


def _blocks(events: Sequence[bytes]) -> list[bytes]:
    joined = b"".join(events)
    return [joined[at : at + BLOCK_PLAIN_BYTES] for at in range(0, len(joined), BLOCK_PLAIN_BYTES)]


def _compressed_bytes(blocks: Sequence[bytes], dictionary: ZstdCompressionDict | None) -> int:
    tool = compressor(dictionary)
    return sum(len(tool.compress(block)) for block in blocks)
