"""Headers of one's own, and the variables in which an endpoint is looked for."""

import pytest

from evrun.batch.dialects import endpoint_values, versioned
from evrun.batch.headers import brings_a_key, check_headers, resolved_headers, secret_variables
from evrun.batch.settings import Settings
from evrun.effects.llm_endpoint import Endpoint
from evrun.errors import UsageFault

ENVIRONMENT = {"TOKEN": " tok-123 ", "EMPTY": ""}


def settings(**headers):
    """Settings with these headers."""
    return Settings(dataset="d", model="m", headers=headers)


SENT = {
    "$TOKEN": "tok-123",
    "${TOKEN}": "tok-123",
    "Bearer $TOKEN": "Bearer tok-123",
    "basic ${TOKEN}": "basic tok-123",
    "plain value": "plain value",
    "costs 5 $": "costs 5 $",
}


@pytest.mark.parametrize("value", SENT)
def test_a_value_is_sent_as_it_is_or_as_the_environment_has_it(value):
    """A variable stands alone, or behind the word of its scheme."""
    given = settings(**{"X-A": value})
    check_headers(given)
    assert resolved_headers(given, ENVIRONMENT) == {"X-A": SENT[value]}
    assert secret_variables(given) == ["OPENAI_API_KEY", *(["TOKEN"] if "TOKEN" in value else [])]


REFUSED = [
    ("Authorization", "Bearer abc"),
    ("authorization", "x"),
    ("x-api-key", "abc"),
    ("Api-Key", "abc"),
    ("X-Auth", "abc"),
    ("X-Access-Token", "abc"),
    ("Cookie", "a=b"),
    ("X-Client-Secret", "abc"),
    ("X-Other", "Bearer abc"),
    ("X-Other", "sk-0123456789abcdef"),
    ("X-Other", "$not a name"),
    ("X-Other", "$5"),
    ("X-Other", "$TOKEN-and-more"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_what_looks_like_a_secret_is_refused_without_showing_it(name, value):
    """By its name or by its looks; the message says how to give it."""
    with pytest.raises(UsageFault) as refused:
        check_headers(settings(**{name: value}))
    assert value not in f"{refused.value} {refused.value.hint}"
    assert f"--header '{name}=$" in str(refused.value.hint)


@pytest.mark.parametrize(
    "name", ["X-Title", "HTTP-Referer", "anthropic-beta", "X-Author", "OpenAI-Organization"]
)
def test_ordinary_headers_are_taken(name):
    """Nothing about them is secret."""
    check_headers(settings(**{name: "some-value"}))
    assert not brings_a_key(settings(**{name: "$TOKEN"}))


@pytest.mark.parametrize("variable", ["EMPTY", "GONE"])
def test_a_variable_that_says_nothing_is_refused(variable):
    """Nobody wants to send an empty key."""
    with pytest.raises(UsageFault, match=f"{variable} is not set"):
        resolved_headers(settings(**{"X-A": f"${variable}"}), ENVIRONMENT)


def test_a_key_goes_into_the_header_of_its_dialect():
    """And headers that evrun sets are nobody else's."""
    openai = Endpoint("http://h/v1", "k", {"a": "b"}).checked_headers()
    assert openai == {"a": "b", "authorization": "Bearer k"}
    other = Endpoint("http://h/v1", "k", {"a": "b"}, "anthropic")
    assert other.checked_headers() == {"a": "b", "x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert other.url(other.path) == "http://h/v1/messages"
    for header in ("Anthropic-Version", "X-Api-Key", "Host", "accept"):
        with pytest.raises(UsageFault, match="(?i)" + header):
            Endpoint("http://h/v1", "k", {header: "x"}, "anthropic").checked_headers()
    with pytest.raises(UsageFault, match="ends in /messages"):
        Endpoint("http://h/v1/messages").url("")


ADDRESSES = {
    "https://api.anthropic.com": "https://api.anthropic.com/v1",
    "https://api.anthropic.com/": "https://api.anthropic.com/v1",
    "https://api.anthropic.com/v1": "https://api.anthropic.com/v1",
    "http://127.0.0.1:8000/v1/": "http://127.0.0.1:8000/v1/",
    "https://host/some/anthropic": "https://host/some/anthropic/v1",
    "https://host/v1beta": "https://host/v1beta",
    "https://host/v1/messages": "https://host/v1/messages",
    "nonsense": "nonsense",
    "http://[": "http://[",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_of_anthropics_dialect_gets_its_version(address):
    """What cannot be an address stays, for the message that refuses it."""
    assert versioned(address) == ADDRESSES[address]


VARIABLES = {"OPENAI_BASE_URL": "http://o/v1", "ANTHROPIC_BASE_URL": "http://a"}
RECORD = {"base_url": "http://r/v1", "api_key_env": "MINE"}


def values(api, given=(), record=None, environment=VARIABLES):
    """The address and the variable of the key that are in force."""
    given = dict(given)
    base = {} if record is None else RECORD
    merged = {**base, **given, "api": api}
    found = endpoint_values(merged, given, record, environment)
    return found["base_url"], found["api_key_env"]


def test_an_endpoint_is_given_recorded_or_in_the_environment():
    """In this order; a record of the other dialect says nothing about this one."""
    assert values("openai") == ("http://o/v1", "OPENAI_API_KEY")
    assert values("anthropic") == ("http://a/v1", "ANTHROPIC_API_KEY")
    assert values("openai", {"base_url": "http://g/v1"}) == ("http://g/v1", "OPENAI_API_KEY")
    assert values("openai", record="openai") == ("http://r/v1", "MINE")
    assert values("anthropic", record="openai") == ("http://a/v1", "ANTHROPIC_API_KEY")
    given = {"base_url": "http://g/v1", "api_key_env": "K"}
    assert values("anthropic", given, record="openai") == ("http://g/v1", "K")
    assert values("openai", environment={})[0] is None
