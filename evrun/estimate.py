"""What work that is still to do may cost, at least and at most, before any of it is done. Pure.

The lower bound: one call, the words of its messages as input tokens (tokenizers do not join words), one
output token, each at the cheapest rate. The upper bound: every turn that may come, each sent as often as
retries allow and always billed, with a context that grows by whole answers, each at the dearest rate.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from .bounds import PER_MESSAGE, request_bound
from .rates import EXACT, Price, round_up, times

RESULT_TOKENS = 16_384
"""So many tokens the tools of one turn are taken to give back at most; a command's output is cut there."""
REFUSAL_TOKENS = 512
"""The same where no tools are offered: each call of one goes back to the model as an error."""
PER_TURN = 2 * PER_MESSAGE + 128
"""What a turn adds around its texts: role markers, names and ids."""


class Outlook(NamedTuple):
    """How far one unit may still go: its next request, and what may follow.

    `certain` says whether that request is made in any case, if nothing fails; `words` are those of its
    messages. `turns` is the most answers that can come, `tries` how often each may be asked for. Results of
    tools that are not there yet add `pending` tokens to the request, and each turn adds `results` to the
    next.
    """

    body: bytes
    words: int
    certain: bool
    turns: int
    tries: int
    pending: int
    results: int


class Estimate(NamedTuple):
    """Bounds of calls, tokens and nano-USD; null where none is known.

    `once_…` bound one call of each unit, sent once; `first_…` bound the largest of these calls.
    """

    calls_lower: int = 0
    calls_upper: int = 0
    input_lower: int = 0
    input_upper: int | None = 0
    output_lower: int = 0
    output_upper: int | None = 0
    nano_lower: int | None = 0
    nano_upper: int | None = 0
    once_nano: int | None = 0
    once_tokens: int | None = 0
    first_nano: int | None = 0
    first_tokens: int | None = 0

    @property
    def tokens_lower(self) -> int:
        """Input and output together, at least."""
        return self.input_lower + self.output_lower

    @property
    def tokens_upper(self) -> int | None:
        """Input and output together, at most."""
        return _sum([self.input_upper, self.output_upper])


NOTHING = Estimate()
"""Nothing is left to ask."""


def estimate(outlook: Outlook, price: Price | None) -> Estimate:
    """The bounds of one unit."""
    if outlook.turns == 0:
        return NOTHING
    bound = request_bound(outlook.body, price)
    first_input = None if bound.media else bound.input_tokens + outlook.pending
    output = bound.output_tokens
    calls = outlook.turns * outlook.tries
    given = _input_upper(outlook, first_input, output)
    answered = None if output is None else calls * output
    first_nano, first_tokens = _dearest(price, 1, first_input, output), _sum([first_input, output])
    lower = _at_least(outlook, price) if outlook.certain else NOTHING
    return lower._replace(
        calls_upper=calls,
        input_upper=given,
        output_upper=answered,
        nano_lower=None if price is None else lower.nano_lower,
        nano_upper=_dearest(price, calls, given, answered),
        once_nano=first_nano,
        once_tokens=first_tokens,
        first_nano=first_nano,
        first_tokens=first_tokens,
    )


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The sum of all; the first calls are not added up, the largest counts."""
    whole = NOTHING
    for one in estimates:
        sums = [_sum(pair) for pair in zip(whole[:-2], one[:-2], strict=True)]
        firsts = [_largest(pair) for pair in zip(whole[-2:], one[-2:], strict=True)]
        whole = Estimate(*sums, *firsts)  # type: ignore[arg-type]  # what is never null stays so
    return whole


def _at_least(outlook: Outlook, price: Price | None) -> Estimate:
    words = max(outlook.words, 1)
    nano = None
    if price is not None:
        tokens = EXACT.add(times(price.cheapest_input, words), price.cheapest_output)
        nano = round_up(EXACT.add(price.request, tokens))
    return Estimate(calls_lower=1, input_lower=words, output_lower=1, nano_lower=nano)


def _input_upper(outlook: Outlook, first: int | None, output: int | None) -> int | None:
    """The input tokens of all calls: each turn's request holds all that came before it."""
    turns = outlook.turns
    if first is None or (output is None and turns > 1):
        return None
    growth = (output or 0) + outlook.results + PER_TURN
    return outlook.tries * (turns * first + growth * (turns * (turns - 1) // 2))


def _dearest(price: Price | None, calls: int, given: int | None, output: int | None) -> int | None:
    """The most that so many calls can cost which have so many tokens in all."""
    if price is None:
        return None
    cost = times(price.request, calls)
    for rate, tokens in ((price.dearest_input, given), (price.dearest_output, output)):
        if tokens is None and rate:
            return None
        cost = EXACT.add(cost, times(rate, tokens or 0))
    # Each call is rounded up for itself.
    whole = all(_is_whole(rate) for rate in (price.dearest_input, price.dearest_output, price.request))
    return round_up(cost) + (0 if whole else calls)


def _is_whole(rate: Decimal) -> bool:
    return rate == rate.to_integral_value()


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def _largest(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else max(value or 0 for value in known)
