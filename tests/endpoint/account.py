"""The endpoint's own account: what it served and what that costs, whatever the client believes."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from .answers import Request

_encode = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, gc=False):
    """One request, as the endpoint saw it."""

    n: int
    method: str
    path: str
    status: int
    outcome: str
    auth_ok: bool
    idempotency_key: str | None
    digest: str
    prompt: str
    turn: int
    model: str
    billed: bool
    input_tokens: int
    output_tokens: int
    client: int
    seen: int


class Account:
    """Every request, in the order in which it was decided; each also one line of the file, by one write."""

    def __init__(self, path: Path | None) -> None:
        self.entries: list[Entry] = []
        self.seen: Counter[str] = Counter()
        self.number = 0
        self.connections = 0
        self.in_flight = 0
        self.max_in_flight = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._fd = None if path is None else os.open(path, flags, 0o600)

    def arrive(self, digest: str) -> tuple[int, int]:
        """The request's number, and how often this body came so far."""
        self.number += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.seen[digest] += 1
        return self.number, self.seen[digest]

    def settle(self, entry: Entry) -> None:
        """Book a request; from here on it is known, also after a kill."""
        self.in_flight -= 1
        self.entries.append(entry)
        if self._fd is not None:
            os.write(self._fd, _encode(entry) + b"\n")

    def totals(self) -> dict[str, Any]:
        """The sums, by outcome and in tokens."""
        outcomes = Counter(entry.outcome for entry in self.entries)
        billed = [entry for entry in self.entries if entry.billed]
        named = {name: outcomes.pop(name, 0) for name in ("answered", "refused", "aborted", "repeated")}
        return {
            "requests": self.number,
            **named,
            "faults": outcomes.total(),
            "billed": len(billed),
            "input_tokens": sum(entry.input_tokens for entry in billed),
            "output_tokens": sum(entry.output_tokens for entry in billed),
            "connections": self.connections,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
        }

    def as_json(self) -> bytes:
        """Totals and all requests."""
        return _encode({"totals": self.totals(), "requests": self.entries})


def entry_of(request: Request, place: tuple[int, int], **facts: Any) -> Entry:
    """An entry from a request and what became of it."""
    number, seen = place
    return Entry(
        n=number,
        seen=seen,
        digest=request.digest,
        prompt=request.prompt,
        turn=request.turn,
        model=request.model,
        input_tokens=request.input_tokens,
        **facts,
    )
