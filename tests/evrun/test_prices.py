"""Prices: the user's own first, the bundled table for known endpoints, exact to the last nano-USD."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import genai_prices
import msgspec
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import Usage
from evrun.batch.endpoint import price_of
from evrun.batch.settings import Settings
from evrun.errors import UsageFault
from evrun.prices import Price, PriceBook, cost_nano_usd, parse_price, parse_usd
from evrun.rates import Rate, bound_nano_usd

OPENAI = "https://api.openai.com/v1"
NOW_NS = int(datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()) * 10**9
MILLION = 10**6


def usage(given=None, output=None, cached=None, reasoning=None):
    """Counts of a call."""
    return Usage(given, cached, output, reasoning)


def test_a_price_of_ones_own_is_exact():
    """2.5 USD in, 10 USD out, 1.25 USD cached, for a million each."""
    model, price = parse_price("my-model=2.5,10,1.25")
    assert model == "my-model"
    assert price.source == "option: 2.5,10,1.25"
    assert cost_nano_usd(price, usage(MILLION)) == 2_500_000_000
    assert cost_nano_usd(price, usage(0, MILLION)) == 10_000_000_000
    assert cost_nano_usd(price, usage(MILLION, 0, MILLION)) == 1_250_000_000
    assert cost_nano_usd(price, usage(1000, 10, 400)) == 600 * 2500 + 400 * 1250 + 10 * 10_000


def test_cached_input_without_a_price_of_its_own_costs_what_other_input_does():
    """Never nothing."""
    _, price = parse_price("m=2,0")
    assert cost_nano_usd(price, usage(10, 0, 10)) == cost_nano_usd(price, usage(10, 0, 0)) == 20_000


def test_a_cost_is_rounded_up_once():
    """Three calls of a third of a nano-USD each: each is one; one call of three thirds is one."""
    _, price = parse_price("m=0.000333,0")
    assert cost_nano_usd(price, usage(1)) == 1
    assert cost_nano_usd(price, usage(3)) == 1
    assert cost_nano_usd(price, usage(4)) == 2
    assert cost_nano_usd(price, usage(0)) == 0


def test_counts_that_were_not_reported_cost_nothing_and_are_no_error():
    """Whether that means a doubt is decided elsewhere."""
    _, price = parse_price("m=1,1")
    assert cost_nano_usd(price, usage()) == 0
    assert cost_nano_usd(price, usage(None, 5)) == 5000


def test_more_cached_tokens_than_input_are_no_negative_cost():
    """A provider's slip must not give money back."""
    _, price = parse_price("m=1,1,0.1")
    assert cost_nano_usd(price, usage(10, 0, 99)) == 1000


amounts = st.decimals(min_value=0, max_value=1_000_000, places=9, allow_nan=False)
counts = st.integers(min_value=0, max_value=2**63 - 1)


@given(st.tuples(amounts, amounts, amounts), counts, counts, counts)
def test_no_count_and_no_price_is_ever_rounded_on_the_way(prices, given_, output, cached):
    """The same as with fractions, rounded up at the end."""
    price_in, price_out, price_cached = prices
    _, price = parse_price(f"m={price_in},{price_out},{price_cached}")
    cached = min(cached, given_)
    exact = 1000 * (
        Fraction(price_in) * (given_ - cached)
        + Fraction(price_cached) * cached
        + Fraction(price_out) * output
    )
    assert cost_nano_usd(price, usage(given_, output, cached)) == -(-exact.numerator // exact.denominator)


NO_PRICES = {
    "m": "another form",
    "m=": "another form",
    "=1,2": "another form",
    "m=1": "another form",
    "m=1,2,3,4": "another form",
    "m=$5,1": "'\\$5' is not a number",
    "m=5usd,1": "'5usd' is not a number",
    "m=1,": "'' is not a number",
    "m=nan,1": "not a finite number",
    "m=inf,1": "not a finite number",
    "m=-1,1": "below 0",
    "m=1e99,1": "is above 1000000",
    "m=1e-99,1": "finer than 15 decimals",
}


@pytest.mark.parametrize("text", NO_PRICES)
def test_what_is_no_price_is_refused_in_plain_words(text):
    """Before anything is spent; with the form that is right."""
    with pytest.raises(UsageFault, match=NO_PRICES[text]) as refused:
        PriceBook([text])
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "amount"),
    [("5", "5"), (" 0.15 ", "0.15"), ("1e-3", "0.001"), ("1E2", "100"), ("+7", "7"), ("-0", "0")],
)
def test_every_plain_number_is_an_amount(text, amount):
    """Also in the form that scientists write."""
    assert parse_usd(text, "--budget-usd") == Decimal(amount)


def test_a_model_name_may_hold_an_equals_sign():
    """The last one counts."""
    assert parse_price("a=b:c=1,2")[0] == "a=b:c"


def test_ones_own_price_goes_before_the_table_and_before_free():
    """Who says a price means it."""
    book = PriceBook(["gpt-4o-mini=1,2"], local_free=True)
    assert book.price_for("gpt-4o-mini", OPENAI).source == "option: 1,2"
    assert book.price_for("other", None).source == "local: free"


def test_the_embedded_model_costs_nothing():
    """And says why."""
    price = PriceBook(local_free=True).price_for("smollm2", None)
    assert (price.source, cost_nano_usd(price, usage(10**9, 10**9))) == ("local: free", 0)
    assert bound_nano_usd(price, 10**9, 10**9) == 0


def test_a_price_from_the_table_names_its_version():
    """So that a booked event says by what it was priced."""
    price = PriceBook().price_for("gpt-4o-mini", OPENAI, at_ns=NOW_NS)
    assert price.source == f"genai-prices {genai_prices.__version__}: openai/gpt-4o-mini"
    assert cost_nano_usd(price, usage(MILLION, MILLION)) == 750_000_000


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("no-such-model", OPENAI),
        ("gpt-4o-mini", "http://127.0.0.1:8080/v1"),
        ("gpt-4o-mini", "https://gateway.example/v1"),
        ("gpt-4o-mini", None),
    ],
)
def test_what_the_table_does_not_know_has_no_price(model, base_url):
    """A model's name does not say what another host takes for it; a made-up price is worse than none."""
    assert PriceBook().price_for(model, base_url) is None


PROVIDERS = {"openai": OPENAI, "anthropic": "https://api.anthropic.com/v1", "groq": "https://api.groq.com/openai/v1",
             "openrouter": "https://openrouter.ai/api/v1", "x-ai": "https://api.x.ai/v1",
             "mistral": "https://api.mistral.ai/v1", "perplexity": "https://api.perplexity.ai",
             "google": "https://generativelanguage.googleapis.com/v1beta/openai"}  # fmt: skip


CALLS = ((999, 0, 77, 0), (300_001, 20_000, 5003, 7), (1_500_000, 1, 1, 1))


@pytest.mark.parametrize("provider_id", PROVIDERS)
def test_our_cost_is_what_the_tables_own_calculation_says(provider_id):
    """For every model, below and above its price steps, with and without cached and reasoning tokens."""
    moment = datetime.fromtimestamp(NOW_NS / 1e9, UTC)
    book, url, compared = PriceBook(), PROVIDERS[provider_id], 0
    provider = next(p for p in get_snapshot().providers if p.id == provider_id)
    for model in provider.models:
        price = book.price_for(model.id, url, at_ns=NOW_NS)
        if price is None or not price.source.endswith(f"{provider_id}/{model.id}"):
            continue
        for given_, cached, output, reasoning in (
            (999, 0, 77, 0),
            (300_001, 20_000, 5003, 7),
            (1_500_000, 1, 1, 1),
        ):
            said = genai_prices.Usage(
                input_tokens=given_,
                cache_read_tokens=cached,
                output_tokens=output,
                output_reasoning_tokens=reasoning,
            )
            theirs = model.calc_price(said, provider, genai_request_timestamp=moment).total_price
            ours = cost_nano_usd(price, usage(given_, output, cached, reasoning))
            exact = Fraction(theirs) * 10**9
            # Theirs is rounded at 28 digits, ours never.
            assert abs(ours - exact) < 1 + Fraction(1, 10**6), model.id
            compared += 1
    assert compared > 9


def test_no_known_usage_costs_more_than_its_bound():
    """The bound takes the dearest rate of each kind, so no step, cache or reasoning passes it."""
    for provider_id, url in PROVIDERS.items():
        provider = next(p for p in get_snapshot().providers if p.id == provider_id)
        for model in provider.models:
            price = PriceBook().price_for(model.id, url, at_ns=NOW_NS)
            if price is None:
                continue
            for spent in (usage(10, 10), usage(10**6, 10**5, 10**5, 10**5), usage(10**7, 3)):
                bound = bound_nano_usd(price, spent.input_tokens, spent.output_tokens)
                assert cost_nano_usd(price, spent) <= bound


def test_a_step_applies_to_all_tokens_of_the_call_that_passes_it():
    """As providers do it: a cliff, not a staircase."""
    rate = Rate(Decimal(2), ((100, Decimal(5)), (1000, Decimal(3))))
    assert [rate.at(n) for n in (0, 100, 101, 1000, 1001)] == [2, 2, 5, 5, 3]
    assert rate.dearest == 5
    price = Price("x", rate, Rate(Decimal(0)))
    assert cost_nano_usd(price, usage(101)) == 505
    assert bound_nano_usd(price, 50, 0) == 250


def test_a_dearer_service_tier_is_priced_as_such():
    """What is asked for in the request decides what is billed."""
    book = PriceBook()
    standard = book.price_for("gpt-4o-mini", OPENAI, at_ns=NOW_NS)
    priority = book.price_for("gpt-4o-mini", OPENAI, service_tier="priority", at_ns=NOW_NS)
    assert priority.output.base > standard.output.base


def test_the_service_tier_that_a_request_asks_for_is_the_one_that_is_priced():
    """--extra-body puts it there; a cap by the standard price would be passed."""
    asked = Settings(
        dataset="d", model="gpt-4o-mini", base_url=OPENAI, extra_body={"service_tier": "priority"}
    )
    standard = msgspec.structs.replace(asked, extra_body=None)
    assert price_of(asked).output.base > price_of(standard).output.base


def test_where_the_hour_decides_the_dearest_of_the_day_is_taken():
    """Whenever the run is started, a call never costs more than was said."""
    hours = [NOW_NS + hour * 3600 * 10**9 for hour in range(-11, 12)]
    book = PriceBook()
    prices = {book.price_for("deepseek-chat", "https://api.deepseek.com", at_ns=at) for at in hours}
    assert len(prices) == 1


def test_the_table_is_loaded_only_when_it_is_asked():
    """It takes a third of a second; a run with prices of its own does not pay for it."""
    code = (
        "import sys; from evrun.prices import PriceBook; b = PriceBook(['m=1,2'], local_free=True);"
        "b.price_for('m', None); b.price_for('x', None); print('genai_prices' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
