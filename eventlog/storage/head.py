"""HEAD: two small slots that say, one after the other, what was durable. Evidence, never authority."""

from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from ..errors import LogUnsupported
from .format import (
    HEAD_FIELDS,
    HEAD_MAGIC,
    HEAD_SLOT_BYTES,
    HEAD_SLOTS,
    HEAD_VERSION,
    U64,
)


class Head(NamedTuple):
    """A durable position that a writer noted after its fdatasync had returned."""

    log_id: bytes
    epoch: int
    number: int
    offset_bytes: int
    sequence: int
    chain: bytes


def pack_slot(head: Head) -> bytes:
    """One slot's bytes."""
    fields = HEAD_FIELDS.pack(
        HEAD_MAGIC,
        HEAD_VERSION,
        0,
        head.epoch,
        head.log_id,
        head.number,
        head.offset_bytes,
        head.sequence,
        head.chain,
    )
    return fields + U64.pack(xxh3_64_intdigest(fields))


def parse_slot(data: bytes) -> Head | None:
    """The position in a slot, or None: an empty or torn slot is a legal crash image and promises nothing.

    Raises:
        LogUnsupported: the slot is whole and of a version this program does not know.
    """
    if len(data) < HEAD_SLOT_BYTES or not data.startswith(HEAD_MAGIC):
        return None
    fields = data[: HEAD_FIELDS.size]
    if U64.unpack_from(data, HEAD_FIELDS.size)[0] != xxh3_64_intdigest(fields):
        return None
    _, version, _, epoch, log_id, number, offset, sequence, chain = HEAD_FIELDS.unpack(fields)
    if version != HEAD_VERSION:
        raise LogUnsupported(
            f"HEAD is of version {version}; this program knows {HEAD_VERSION}. Upgrade evrun."
        )
    return Head(log_id, epoch, number, offset, sequence, chain)


def parse_head(data: bytes) -> list[tuple[int, Head]]:
    """The valid slots of HEAD as (slot, position), the largest sequence last."""
    found = []
    for slot, offset in enumerate(HEAD_SLOTS):
        head = parse_slot(data[offset : offset + HEAD_SLOT_BYTES])
        if head is not None:
            found.append((slot, head))
    return sorted(found, key=lambda item: (item[1].sequence, item[1].epoch))
