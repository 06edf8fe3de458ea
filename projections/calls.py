"""One call's money while it is not settled, and sums over many calls."""

from typing import NamedTuple

import msgspec

from eventlog.events import Usage

from .conversation import NO_USAGE, add_usage
from .money import usd


class Sums(msgspec.Struct, gc=False):
    """Sums over calls, in nano-USD and tokens.

    `calls` are those that cost something or may have: settled + in doubt + reserved. `unpriced` counts those
    of them whose cost (or, unsettled, whose bound) is not known, so that it is in no sum. `usage` is what
    settled calls reported, null where none did; it is kept for all calls and for each model. Of calls that a
    person settled only the money is known: `corrected_tokens` is the most that they can have used.
    """

    settled_nano_usd: int = 0
    in_doubt_nano_usd: int = 0
    reserved_nano_usd: int = 0
    in_doubt_unbounded: int = 0
    reserved_unbounded: int = 0
    calls: int = 0
    settled_calls: int = 0
    unpriced: int = 0
    in_doubt_tokens: int = 0
    reserved_tokens: int = 0
    corrected_tokens: int = 0
    usage: Usage = NO_USAGE

    @property
    def settled_tokens(self) -> int:
        """Input and output tokens of settled calls, as far as they were reported."""
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)

    def reserve(self, call: "Call") -> None:
        """A call was reserved."""
        self.calls += 1
        self.reserved_tokens += call.bound_tokens
        if call.bound_nano_usd is None:
            self.unpriced += 1
            self.reserved_unbounded += 1
        else:
            self.reserved_nano_usd += call.bound_nano_usd

    def unreserve(self, call: "Call") -> None:
        """A call is reserved no more; it still counts among `calls`."""
        self.reserved_tokens -= call.bound_tokens
        if call.bound_nano_usd is None:
            self.unpriced -= 1
            self.reserved_unbounded -= 1
        else:
            self.reserved_nano_usd -= call.bound_nano_usd

    def doubt(self, call: "Call") -> None:
        """A call that is counted among `calls` went in doubt."""
        self.in_doubt_tokens += call.bound_tokens
        if call.bound_nano_usd is None:
            self.unpriced += 1
            self.in_doubt_unbounded += 1
        else:
            self.in_doubt_nano_usd += call.bound_nano_usd

    def undoubt(self, call: "Call") -> None:
        """A call is in doubt no more; it still counts among `calls`."""
        self.in_doubt_tokens -= call.bound_tokens
        if call.bound_nano_usd is None:
            self.unpriced -= 1
            self.in_doubt_unbounded -= 1
        else:
            self.in_doubt_nano_usd -= call.bound_nano_usd

    def settle(self, cost_nano_usd: int | None) -> None:
        """A call that is counted among `calls` was settled."""
        self.settled_calls += 1
        if cost_nano_usd is None:
            self.unpriced += 1
        else:
            self.settled_nano_usd += cost_nano_usd

    def in_doubt_usd(self, *, live: bool) -> str | None:
        """The most that calls in doubt can have cost, reserved ones too where no process holds the run.

        Null where one of them has no bound: nobody can say then.
        """
        if self.in_doubt_unbounded or (self.reserved_unbounded and not live):
            return None
        return usd(self.in_doubt_nano_usd + (0 if live else self.reserved_nano_usd))

    def reserved_usd(self, *, live: bool) -> str | None:
        """The most that calls under way can cost; null where one of them has no bound."""
        if not live:
            return usd(0)
        return None if self.reserved_unbounded else usd(self.reserved_nano_usd)

    def use(self, usage: Usage) -> None:
        """A settled call used tokens."""
        self.usage = add_usage(self.usage, usage)


Groups = tuple[Sums, Sums, Sums, Sums]
"""The sums that a call counts in: of all calls, its session's, its model's, its role's."""


class Call(msgspec.Struct, gc=False):
    """A call that was reserved: whose it is, when it was reserved, and the most it can cost.

    `request` is the digest of its body; `bound_nano_usd` is null where no price is known; `bound_tokens` is
    the bound of input and output together, as far as known, `bound_output_tokens` that of the output alone.
    `groups` are the sums that it counts in. `doubt` says why it is in doubt, `request_id` is the provider's
    if one was seen.
    """

    name: str
    unit: str
    attempt: int
    role: str
    model: str
    session: int
    reserved_ns: int
    request: bytes
    bound_nano_usd: int | None
    bound_tokens: int
    groups: Groups
    bound_output_tokens: int | None = None
    doubt: str | None = None
    request_id: str | None = None


class OverBound(NamedTuple):
    """A call that was settled above its bound, in money or in tokens: by the event of this sequence."""

    call: Call
    sequence: int
    usage: Usage
    cost_nano_usd: int | None

    @property
    def excess_nano_usd(self) -> int:
        """How much more it cost; 0 where only tokens are over, or no price is known."""
        bound = self.call.bound_nano_usd
        return 0 if bound is None else max((self.cost_nano_usd or 0) - bound, 0)

    @property
    def excess_tokens(self) -> int:
        """How many tokens more it took than were allowed for, input and output each for itself."""
        output = self.call.bound_output_tokens
        given = max((self.usage.input_tokens or 0) - (self.call.bound_tokens - (output or 0)), 0)
        return given + (0 if output is None else max((self.usage.output_tokens or 0) - output, 0))

    @property
    def is_over(self) -> bool:
        """Whether it took more than was set aside for it at all."""
        return self.excess_nano_usd > 0 or self.excess_tokens > 0
