"""The exact body of a request: every option in the shape that its endpoint reads, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.batch.request import endpoint_host, request_body, unit_seed
from evrun.batch.settings import Settings

OPENAI = "https://api.openai.com/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
LOCAL = "http://127.0.0.1:8000/v1"
MESSAGES = [{"role": "user", "content": "two and two"}]
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}


def body_of(base_url=LOCAL, tools=(), seed=None, messages=MESSAGES, **values):
    """What is sent, read again, without the model and the messages."""
    settings = Settings(dataset="d", model="m", base_url=base_url, **values)
    body = json.loads(request_body(settings, messages, list(tools), seed))
    assert body.pop("model") == "m"
    assert body.pop("messages") == messages
    return body


OPENAIS = (OPENAI, "https://API.openai.com:443/v1/", "https://eu.api.openai.com/v1")
EVERYWHERE = (OPENAI, OPENROUTER, LOCAL)
ELSEWHERE = (
    OPENROUTER,
    LOCAL,
    "http://api.openai.com.evil.example/v1",
    "https://my.openai.azure.com/v1",
    None,
)
WIRE = [
    (EVERYWHERE, {}, {}),
    (EVERYWHERE, {"temperature": 0.0}, {"temperature": 0.0}),
    (EVERYWHERE, {"top_p": 0.5}, {"top_p": 0.5}),
    (OPENAIS, {"max_tokens": 5}, {"max_completion_tokens": 5}),
    (ELSEWHERE, {"max_tokens": 5}, {"max_tokens": 5}),
    ([OPENAI, LOCAL], {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
    ([OPENAI, LOCAL], {"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
    ([OPENAI, LOCAL], {"reasoning_disabled": True}, {"reasoning_effort": "none"}),
    ([OPENROUTER], {"reasoning_effort": "high"}, {"reasoning": {"enabled": True, "effort": "high"}}),
    ([OPENROUTER], {"reasoning_effort": "none"}, {"reasoning": {"enabled": False}}),
    ([OPENROUTER], {"reasoning_disabled": True}, {"reasoning": {"enabled": False}}),
    (EVERYWHERE, {"providers_allowed": ["a"]}, {"provider": {"only": ["a"]}}),
    (EVERYWHERE, {"providers_ignored": ["a"]}, {"provider": {"ignore": ["a"]}}),
    (EVERYWHERE, {"providers_order": ["b", "a"]}, {"provider": {"order": ["b", "a"]}}),
    (EVERYWHERE, {"provider_sort": "price"}, {"provider": {"sort": "price"}}),
    (
        [OPENROUTER],
        {"provider_sort": "latency", "providers_allowed": ["a", "b"]},
        {"provider": {"only": ["a", "b"], "sort": "latency"}},
    ),
    (EVERYWHERE, {"extra_body": {"top_k": 3, "stop": ["x"]}}, {"top_k": 3, "stop": ["x"]}),
    (EVERYWHERE, {"extra_body": {"temperature": 2}, "temperature": 1.0}, {"temperature": 2}),
    # What is no part of a request stays out of it.
    (
        EVERYWHERE,
        {"max_turns": 3, "concurrency": 2, "retries": 1, "require_reasoning": False, "samples": 4},
        {},
    ),
]


@pytest.mark.parametrize(("endpoints", "values", "expected"), WIRE)
def test_the_wire_carries_what_was_asked_in_the_words_of_its_endpoint(endpoints, values, expected):
    """Exactly these fields, at each of these endpoints."""
    for base_url in endpoints:
        assert body_of(base_url, **values) == expected, base_url


def test_tools_go_in_the_shape_of_functions_and_no_tools_leave_no_trace():
    """Some servers refuse an empty list."""
    assert body_of(tools=[TOOL]) == {"tools": [{"type": "function", "function": TOOL}]}
    assert "tools" not in body_of(tools=[])


def test_a_seed_is_the_units_own():
    """The run's seed for the first try at a row; another, always the same one, for each sample and repeat."""
    settings = Settings(dataset="d", model="m", seed=7)
    assert unit_seed(settings, occurrence=1, sample=1) == 7
    seeds = {unit_seed(settings, occurrence, sample) for occurrence in range(1, 6) for sample in range(1, 6)}
    assert len(seeds) == 25
    assert unit_seed(Settings(dataset="d", model="m"), 1, 1) is None
    assert body_of(seed=0) == {"seed": 0}
    assert body_of(seed=None) == {}


HOSTS = {
    OPENAI: "api.openai.com",
    LOCAL: "127.0.0.1:8000",
    "http://me:secret@host:1/v1": "host:1",
    None: "local",
}


@pytest.mark.parametrize(("base_url", "host"), HOSTS.items())
def test_the_record_names_host_and_port_and_never_what_stands_before_the_at(base_url, host):
    """The embedded model is called local."""
    assert endpoint_host(Settings(dataset="d", model="m", base_url=base_url)) == host


@pytest.mark.parametrize(
    "base_url", ["https://openrouter.ai.evil.example/v1", "https://notopenrouter.ai/v1", LOCAL]
)
def test_only_openrouter_itself_is_spoken_to_in_its_dialect(base_url):
    """Another host of a similar name gets the common one."""
    assert body_of(base_url, reasoning_disabled=True) == {"reasoning_effort": "none"}


text = st.text(st.characters())
messages = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": text}), min_size=1, max_size=3)


@given(messages)
def test_any_text_goes_on_the_wire_exactly_and_twice_the_same(given_messages):
    """Lone surrogates go as the escapes they came as; the same input gives the same bytes."""
    settings = Settings(dataset="d", model="m", base_url=LOCAL)
    body = request_body(settings, given_messages, [TOOL], 3)
    assert json.loads(body)["messages"] == given_messages
    assert body == request_body(settings, json.loads(json.dumps(given_messages)), [TOOL], 3)
