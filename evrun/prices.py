"""What tokens cost: the user's own prices, else the bundled table of genai-prices; never the network.

Prices are in USD per million tokens, as providers print them; `evrun.rates` says how a cost is made of them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from .effects.clock import now_ns
from .effects.llm_endpoint import Endpoint
from .errors import UsageFault
from .rates import EXACT, FREE, Price, Rate, cost_nano_usd

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

__all__ = ["Price", "PriceBook", "cost_nano_usd", "parse_price", "parse_usd", "plain_number"]

_NANO_PER_TOKEN = Decimal(1000)
_NANO_PER_THOUSAND = Decimal(1_000_000)
_DEAREST_ACCEPTED = Decimal(1_000_000)
_MOST_DECIMALS = 15
_FORM = "--price MODEL=INPUT,OUTPUT[,CACHED] in USD per million tokens, for example --price my-model=2.5,10"


class PriceBook:
    """Prices of a session: `overrides` as given to --price, then free (embedded model), then the table."""

    def __init__(self, overrides: Iterable[str] = (), *, local_free: bool = False) -> None:
        self._own = dict(parse_price(text) for text in overrides)
        self._local_free = local_free

    def price_for(
        self,
        model: str,
        base_url: str | None,
        *,
        service_tier: str | None = None,
        at_ns: int | None = None,
    ) -> Price | None:
        """The price of a model at an endpoint, or null when it is not known.

        The table is asked only about endpoints that it knows: what another host takes for a model of the same
        name is not known. Where a price depends on the hour, the dearest of the day is taken. `at_ns` is the
        moment that the price is for (default: now).
        """
        if model in self._own:
            return self._own[model]
        if self._local_free:
            return FREE
        if base_url is None or Endpoint(base_url).is_loopback:
            # The table knows providers, and none of them is on this machine.
            return None
        moment = datetime.fromtimestamp((now_ns() if at_ns is None else at_ns) / 1e9, UTC)
        return _bundled_price(model, base_url, service_tier, moment)


def parse_price(text: str) -> tuple[str, Price]:
    """The model and price of a ``MODEL=INPUT,OUTPUT[,CACHED]``.

    Raises:
        UsageFault: it has another form, or an amount is no number of USD.
    """
    model, equals, amounts = text.rpartition("=")
    parts = amounts.split(",")
    if not equals or not model.strip() or len(parts) not in {2, 3}:
        raise UsageFault(f"--price {text!r} has another form than MODEL=INPUT,OUTPUT[,CACHED]", _FORM)
    rates = [Rate(EXACT.multiply(parse_usd(part, f"--price {text!r}"), _NANO_PER_TOKEN)) for part in parts]
    cached = rates[2] if len(rates) > 2 else None  # noqa: PLR2004  # the third is optional
    return model.strip(), Price(f"option: {amounts.strip()}", rates[0], rates[1], cached)


def parse_usd(text: str, where: str) -> Decimal:
    """An amount in USD: a plain number from 0, such as ``5``, ``0.15`` or ``1e-3``.

    `where` names the option for the message.

    Raises:
        UsageFault: it is no such number.
    """
    found = text.strip()
    amount = plain_number(found)
    if amount is None:
        raise _no_amount(where, found, "is not a number")
    if not amount.is_finite():
        raise _no_amount(where, found, "is not a finite number")
    if amount.is_signed() and amount:
        raise _no_amount(where, found, "is below 0")
    exponent = amount.as_tuple().exponent
    if amount > _DEAREST_ACCEPTED or not isinstance(exponent, int) or exponent < -_MOST_DECIMALS:
        raise _no_amount(
            where, found, f"is above {_DEAREST_ACCEPTED} or finer than {_MOST_DECIMALS} decimals"
        )
    return abs(amount)


def plain_number(text: str) -> Decimal | None:
    """A number as people write it; null for anything else, `1_5` and digits of other scripts included."""
    if not text.isascii() or "_" in text:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _no_amount(where: str, found: str, why: str) -> UsageFault:
    return UsageFault(
        f"{where}: {found!r} {why}", "write USD as a plain number, for example 5 or 0.15 or 1e-3"
    )


def _bundled_price(model: str, base_url: str, service_tier: str | None, moment: datetime) -> Price | None:
    """The price in genai-prices' bundled data. Imported here: it takes a fifth of a second."""
    import genai_prices  # noqa: PLC0415
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    try:
        provider, found = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
    source = f"genai-prices {genai_prices.__version__}: {provider.id}/{found.id}"
    context = {"service_tier": service_tier} if service_tier else None
    prices = [_price_of(source, entry) for entry in _entries(found, moment, context)]
    return max((p for p in prices if p), key=lambda p: (p.dearest_output, p.dearest_input), default=None)


def _entries(found: "ModelInfo", moment: datetime, context: dict[str, str] | None) -> list["ModelPrice"]:
    """The entries that hold in the course of the moment's day, hour by hour; mostly one and the same."""
    hours = [found.get_prices(moment.replace(hour=hour, minute=0), context) for hour in range(24)]
    return list({id(entry): entry for entry in hours}.values())


def _price_of(source: str, entry: "ModelPrice") -> Price | None:
    """A price from an entry of the table; null where it has no price for text in or out."""
    given, output = _rate(entry, "input_mtok"), _rate(entry, "output_mtok")
    if given is None or output is None:
        return None
    writes = [
        rate for rate in (_rate(entry, "cache_write_mtok"), _rate(entry, "cache_write_1h_mtok")) if rate
    ]
    fee = getattr(entry, "requests_kcount", None)
    return Price(
        source,
        given,
        output,
        cached=_rate(entry, "cache_read_mtok"),
        reasoning=_rate(entry, "output_reasoning_mtok"),
        cache_write=max(writes, key=lambda rate: rate.dearest, default=None),
        request=Decimal(0) if fee is None else EXACT.multiply(fee, _NANO_PER_THOUSAND),
    )


def _rate(entry: "ModelPrice", name: str) -> Rate | None:
    value = getattr(entry, name, None)
    if value is None:
        return None
    if isinstance(value, Decimal):
        return Rate(EXACT.multiply(value, _NANO_PER_TOKEN))
    steps = tuple((tier.start, EXACT.multiply(tier.price, _NANO_PER_TOKEN)) for tier in value.tiers)
    return Rate(EXACT.multiply(value.base, _NANO_PER_TOKEN), steps)
