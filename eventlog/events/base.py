"""What all events share: a frozen struct, a type name, a schema version, and where it stands in the log."""

from typing import ClassVar, NamedTuple

import msgspec


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A fact in the past tense.

    On disk an event is the msgpack array ``[type, schema_version, data]``; `data` is the array of the fields
    in the order of their declaration. A new field goes to the end, with a default, and raises `VERSION`.
    """

    VERSION: ClassVar[int] = 1


class Recorded(NamedTuple):
    """An event and its coordinates in the log.

    `sequence` is dense from 1; `time_ns` is the commit time of its frame (UTC, nanoseconds, non-decreasing);
    `session` is the number of the process incarnation that wrote it.
    """

    sequence: int
    time_ns: int
    session: int
    event: Event
