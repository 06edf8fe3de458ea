"""Rates, and what so many tokens cost at them. Pure.

All amounts are exact decimals in nano-USD: 1 USD per million tokens is 1,000 nano-USD per token. A call's
cost is computed exactly and rounded up once.
"""

from decimal import ROUND_CEILING, Context, Decimal

import msgspec

from eventlog.events import Usage

# Wide enough for any count of tokens times any price that is accepted: nothing is rounded on the way.
EXACT = Context(prec=120)


class Rate(msgspec.Struct, frozen=True):
    """Nano-USD per token: `base`, or that of the last step whose start the call's input tokens exceed."""

    base: Decimal
    steps: tuple[tuple[int, Decimal], ...] = ()

    def at(self, input_tokens: int) -> Decimal:
        """The rate for all tokens of a call with so many input tokens."""
        rate = self.base
        for start, price in self.steps:
            if input_tokens > start:
                rate = price
        return rate

    @property
    def dearest(self) -> Decimal:
        """The highest rate that a call can meet."""
        return max([self.base, *(price for _, price in self.steps)])

    @property
    def cheapest(self) -> Decimal:
        """The lowest rate that a call can meet."""
        return min([self.base, *(price for _, price in self.steps)])


class Price(msgspec.Struct, frozen=True):
    """The price of a model: where it is from (with its version), and rates in nano-USD.

    `cached` null: cached input costs what other input does. `reasoning` null: reasoning costs what other
    output does. `cache_write` is the dearest of the rates for writing a cache; no usage reports it, but a
    bound must cover it. `request` is a fee for each call.
    """

    source: str
    input: Rate
    output: Rate
    cached: Rate | None = None
    reasoning: Rate | None = None
    cache_write: Rate | None = None
    request: Decimal = Decimal(0)

    @property
    def dearest_input(self) -> Decimal:
        """The most that one token of a request can cost."""
        return max(rate.dearest for rate in (self.input, self.cached, self.cache_write) if rate is not None)

    @property
    def dearest_output(self) -> Decimal:
        """The most that one token of an answer can cost."""
        return max(rate.dearest for rate in (self.output, self.reasoning) if rate is not None)

    @property
    def cheapest_input(self) -> Decimal:
        """The least that one token of a request can cost."""
        return min(rate.cheapest for rate in (self.input, self.cached) if rate is not None)

    @property
    def cheapest_output(self) -> Decimal:
        """The least that one token of an answer can cost."""
        return min(rate.cheapest for rate in (self.output, self.reasoning) if rate is not None)


FREE = Price("local: free", Rate(Decimal(0)), Rate(Decimal(0)))


def cost_nano_usd(price: Price, usage: Usage) -> int:
    """What a call cost, rounded up to a whole nano-USD. Counts that were not reported cost nothing."""
    given = usage.input_tokens or 0
    cached = min(usage.cached_input_tokens or 0, given)
    output = usage.output_tokens or 0
    total = EXACT.add(price.request, times(price.input.at(given), given - cached))
    total = EXACT.add(total, times((price.cached or price.input).at(given), cached))
    if price.reasoning is not None:
        thought = min(usage.reasoning_tokens or 0, output)
        total = EXACT.add(total, times(price.reasoning.at(given), thought))
        output -= thought
    return round_up(EXACT.add(total, times(price.output.at(given), output)))


def bound_nano_usd(price: Price, input_tokens: int, output_tokens: int) -> int:
    """The most that a call of at most so many tokens can cost, rounded up."""
    tokens = EXACT.add(times(price.dearest_input, input_tokens), times(price.dearest_output, output_tokens))
    return round_up(EXACT.add(price.request, tokens))


def round_up(nano: Decimal) -> int:
    """The next whole nano-USD."""
    return int(nano.to_integral_value(ROUND_CEILING, EXACT))


def times(rate: Decimal, count: int) -> Decimal:
    """Exactly so many times a rate."""
    return EXACT.multiply(rate, Decimal(count))
