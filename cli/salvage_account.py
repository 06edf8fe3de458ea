"""What a salvage found, counted while it is written out as lines of JSON."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eventlog.errors import EventError
from eventlog.events import BudgetReserved, BudgetSpent, Event, Recorded, decode_event
from eventlog.storage import Gap, Record, Salvaged
from projections import EventLister, rfc3339, usd

GAPS_LISTED = 1000
"""A damaged disk may leave any number of gaps; `events.jsonl` has them all."""


class Account:
    """The counts. `missing` events are known to be missing; `unknown` says that there may be more."""

    def __init__(self) -> None:
        self.found = 0
        self.proofs = {"chain": 0, "stretch": 0, "checksums": 0, "body": 0}
        self.missing = 0
        self.unknown = False
        self.gaps: list[Gap] = []
        self.gaps_total = 0
        self._reserved = 0
        self._settled = 0
        self._settled_nano_usd = 0
        self._unpriced = 0
        self._undecoded = 0
        self._lister = EventLister()

    @property
    def complete(self) -> bool:
        """Whether every event is there and proven."""
        return not self.gaps_total and self.found == self.proofs["chain"]

    def lines(self, found: Iterable[Salvaged | Gap], copy: Callable[[Salvaged], None]) -> Iterator[str]:
        """Each event and each gap as a line; what is proven goes to `copy` as well."""
        for item in found:
            if isinstance(item, Gap):
                self._count_gap(item)
                yield json.dumps({"gap": gap_shape(item)}) + "\n"
                continue
            if item.proven:
                copy(item)
            self.found += len(item.records)
            self.proofs[item.proof] += len(item.records)
            for record in item.records:
                shape = self._shape(record, proven=item.proven)
                yield json.dumps({**shape, "proven": item.proven, "proof": item.proof}) + "\n"

    def unproven_shape(self) -> dict[str, Any]:
        """What is behind the first gap, and what was paid there."""
        return {
            "events": self.found - self.proofs["chain"],
            "calls_reserved": self._reserved,
            "calls_settled": self._settled,
            "calls_unpriced": self._unpriced,
            "settled_usd": usd(self._settled_nano_usd),
            "undecoded": self._undecoded,
        }

    def _count_gap(self, gap: Gap) -> None:
        self.gaps_total += 1
        if len(self.gaps) < GAPS_LISTED:
            self.gaps.append(gap)
        if gap.missing is None:
            self.unknown = True
        else:
            self.missing += gap.missing

    def _shape(self, record: Record, *, proven: bool) -> dict[str, Any]:
        """As `evrun events --json` prints it; bytes that are no event that we know are kept as they are."""
        try:
            event = decode_event(record.payload)
        except EventError as error:
            self._undecoded += 1
            return undecoded_shape(record, str(error))
        if not proven:
            self._count_money(event)
        return self._lister.apply(Recorded(record.sequence, record.time_ns, record.epoch, event))

    def _count_money(self, event: Event) -> None:
        if isinstance(event, BudgetReserved):
            self._reserved += 1
        elif isinstance(event, BudgetSpent):
            self._settled += 1
            self._unpriced += event.cost_nano_usd is None
            self._settled_nano_usd += event.cost_nano_usd or 0


def gap_shape(gap: Gap) -> dict[str, Any]:
    """A gap as JSON has it."""
    return {**gap._asdict(), "missing": gap.missing}


def undecoded_shape(record: Record, why: str) -> dict[str, Any]:
    """An event that this evrun cannot read, with its bytes."""
    data = {"undecoded": record.payload.hex(), "why": why}
    return {
        "seq": record.sequence,
        "time": rfc3339(record.time_ns),
        "session": record.epoch,
        "type": None,
        "unit": None,
        "data": data,
    }
