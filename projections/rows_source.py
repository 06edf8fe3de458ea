"""Dataset rows, looked up in the log when they are needed, so that no state has to hold them."""

from collections import OrderedDict
from typing import Any, NamedTuple, Protocol

from eventlog.errors import MalformedEvent
from eventlog.events import PromptsPlanned, decode_event

from .jsontext import loads_lenient
from .load import Log


class InPlan(Protocol):
    """Whose row it is: that at `position` of the event with sequence `planned`."""

    @property
    def planned(self) -> int:
        """The sequence of a `PromptsPlanned`."""

    @property
    def position(self) -> int:
        """The row's place in it, from 0."""


class _Chunk(NamedTuple):
    rows: list[bytes]
    size_bytes: int


class RowSource:
    """Gives the row of a unit. The chunks used last stay in memory, up to `cache_bytes` (one at least)."""

    def __init__(self, log: Log, cache_bytes: int = 1 << 20) -> None:
        self._log = log
        self._cache_bytes = cache_bytes
        self._chunks: OrderedDict[int, _Chunk] = OrderedDict()
        self._held_bytes = 0

    def row_of(self, unit: InPlan) -> dict[str, Any]:
        """The unit's row, as its JSON object; a new one at each call.

        Raises:
            EventLogError: the log cannot be read, or is not the one that the unit is from.
        """
        row = loads_lenient(self.bytes_of(unit))
        if type(row) is not dict:
            raise MalformedEvent(f"sequence {unit.planned}, row {unit.position}: expected a JSON object")
        return row

    def bytes_of(self, unit: InPlan) -> bytes:
        """The unit's row as it was planned, to the byte. Errors as `row_of`."""
        chunk = self._chunks.get(unit.planned)
        if chunk is None:
            chunk = self._load(unit.planned)
        else:
            self._chunks.move_to_end(unit.planned)
        return chunk.rows[unit.position]

    def _load(self, sequence: int) -> _Chunk:
        if sequence > self._log.end.sequence:
            self._log.refresh()
        event = decode_event(self._log.read_one(sequence).payload)
        if type(event) is not PromptsPlanned:
            found = type(event).__name__
            raise MalformedEvent(f"sequence {sequence}: expected PromptsPlanned, found {found}")
        rows = [row.row for row in event.rows]
        chunk = _Chunk(rows, sum(map(len, rows)))
        self._chunks[sequence] = chunk
        self._held_bytes += chunk.size_bytes
        while self._held_bytes > self._cache_bytes and len(self._chunks) > 1:
            _, dropped = self._chunks.popitem(last=False)
            self._held_bytes -= dropped.size_bytes
        return chunk
