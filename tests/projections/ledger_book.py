"""An account kept by hand, one line a call: what the ledger says must agree with it at every moment."""

from dataclasses import dataclass, field

ENDED = ("settled", "released", "corrected")


@dataclass
class Line:
    """One call: where it stands, what it may cost at most, what it did cost. Null where nobody knows."""

    session: int
    model: str
    role: str
    bound: int | None
    most_tokens: int
    state: str = "reserved"
    cost: int | None = None
    tokens: int = 0


@dataclass
class Book:
    """All calls, and the caps."""

    lines: dict[str, Line] = field(default_factory=dict)
    caps: dict[str, int] = field(default_factory=dict)
    over: int = 0

    def named(self, *states):
        """The calls that stand so."""
        return [name for name, line in self.lines.items() if line.state in states]

    def money(self, *states, **where):
        """What calls cost that stand so, or may have cost."""
        return sum(_money(line) for line in self._lines(states, where))

    def count(self, *states, **where):
        """How many stand so."""
        return len(self._lines(states, where))

    def tokens(self):
        """The most tokens that can have been used."""
        settled = sum(line.tokens for line in self._lines(("settled",), {}))
        return settled + sum(line.most_tokens for line in self._lines(("reserved", "doubt", "corrected"), {}))

    def committed(self, cap):
        """The most that can have been taken of what a cap limits."""
        live = ("reserved", "doubt", "settled", "corrected")
        return {"usd": self.money(*live), "tokens": self.tokens(), "calls": self.count(*live)}[cap]

    def fits(self, bound, tokens):
        """Whether another call may be granted."""
        asked = {"usd": bound or 0, "tokens": tokens, "calls": 1}
        return all(self.committed(cap) + asked[cap] <= limit for cap, limit in self.caps.items())

    def _lines(self, states, where):
        return [
            line
            for line in self.lines.values()
            if line.state in states and all(getattr(line, name) == value for name, value in where.items())
        ]


def _money(line):
    amount = line.bound if line.state in {"reserved", "doubt"} else line.cost
    return amount or 0
