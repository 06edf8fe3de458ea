"""Options become settings: precedence, and every value that cannot be honoured is refused before anything."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.batch.endpoint import check_endpoint
from evrun.batch.options import Options, api_key, check_run_name, read_prefill, resolve
from evrun.batch.settings import (
    Settings,
    changes_between,
    settings_digest,
    settings_from_record,
    settings_record,
)
from evrun.errors import UsageFault

URL = "http://127.0.0.1:9/v1"


def settings_of(recorded=None, environment=None, **given_now):
    """The settings in force, with an endpoint to be sure of one."""
    given_now.setdefault("base_url", URL)
    return resolve(
        Options(run_name="r", dataset=Path("d.jsonl"), given=given_now), recorded, environment or {}
    )


def recorded_settings(**values):
    """What a log says."""
    return Settings(**{"dataset": "old.jsonl", "model": "old", "base_url": "http://old/v1", **values})


def test_an_option_stands_before_the_environment_and_that_before_the_default():
    """On a new run."""
    environment = {"EVRUN_MODEL": "from-env", "OPENAI_BASE_URL": "http://env/v1"}
    plain = settings_of(environment=environment, base_url=None)
    assert (plain.model, plain.base_url, plain.concurrency) == ("from-env", "http://env/v1", 8)
    told = settings_of(environment=environment, model="mine", base_url=URL, concurrency=3)
    assert (told.model, told.base_url, told.concurrency) == ("mine", URL, 3)


def test_an_option_stands_before_the_record_and_that_before_the_environment():
    """On a resume the environment of today changes nothing that is recorded."""
    environment = {"EVRUN_MODEL": "from-env", "OPENAI_BASE_URL": "http://env/v1"}
    before = recorded_settings(max_turns=4, temperature=0.5, require_reasoning=False)
    options = Options(run_name="r", resume=True)
    assert resolve(options, before, environment) == before
    options = Options(run_name="r", resume=True, given={"max_turns": 9, "temperature": None})
    now = resolve(options, before, environment)
    assert changes_between(before, now) == {"max_turns": (4, 9)}
    moved = resolve(Options(run_name="r", dataset=Path("new.jsonl")), before, environment)
    assert changes_between(before, moved) == {"dataset": ("old.jsonl", "new.jsonl")}


def test_the_environment_gives_an_endpoint_where_the_record_has_none():
    """A run that was on the embedded model goes on at an endpoint."""
    before = recorded_settings(model="local", base_url=None)
    options = Options(run_name="r", resume=True, given={"model": "m"})
    assert resolve(options, before, {"OPENAI_BASE_URL": "http://env/v1"}).base_url == "http://env/v1"


def test_the_embedded_model_has_no_address_whatever_the_environment_says():
    """`--model local` wins over OPENAI_BASE_URL, with less at a time and more patience unless told."""
    environment = {"OPENAI_BASE_URL": "http://env/v1"}
    local = settings_of(environment=environment, model="local")
    assert (local.base_url, local.concurrency, local.request_timeout) == (None, 2, 600.0)
    assert settings_of(environment={"EVRUN_MODEL": "local"}).concurrency == 2
    assert settings_of(model="local", concurrency=5).concurrency == 5
    before = recorded_settings(model="local", base_url=None, concurrency=7)
    assert resolve(Options(run_name="r", resume=True), before, {}).concurrency == 7


def test_of_two_ways_to_say_one_thing_the_newer_counts():
    """A resume that names a distribution no longer uses the recorded toolsets; both now: refused."""
    before = recorded_settings(toolsets=["file"], reasoning_disabled=True)
    now = resolve(Options(run_name="r", given={"distribution": "science"}), before, {})
    assert (now.distribution, now.toolsets) == ("science", None)
    now = resolve(Options(run_name="r", given={"reasoning_effort": "low"}), before, {})
    assert (now.reasoning_effort, now.reasoning_disabled) == ("low", False)
    before = recorded_settings(reasoning_effort="high")
    now = resolve(Options(run_name="r", given={"reasoning_disabled": True}), before, {})
    assert (now.reasoning_effort, now.reasoning_disabled) == (None, True)
    now = resolve(
        Options(run_name="r", given={"toolsets": []}), recorded_settings(distribution="science"), {}
    )
    assert now.toolsets == []
    for pair in (
        {"distribution": "science", "toolsets": ["file"]},
        {"distribution": "science", "toolsets": []},
        {"reasoning_effort": "high", "reasoning_disabled": True},
    ):
        with pytest.raises(UsageFault, match="contradict"):
            settings_of(**pair)


REFUSED = {
    "no endpoint": ({"base_url": None}, "no endpoint: expected --base-url or OPENAI_BASE_URL"),
    "an empty endpoint": ({"base_url": ""}, "no endpoint"),
    "no scheme": ({"base_url": "localhost:8000/v1"}, "must begin with http"),
    "another scheme": ({"base_url": "ftp://host/v1"}, "must begin with http"),
    "no host": ({"base_url": "http:///v1"}, "no address"),
    "half an address": ({"base_url": "http://[::1"}, "no address"),
    "no such port": ({"base_url": "http://host:99999"}, "no address"),
    "a port of letters": ({"base_url": "http://host:http"}, "no address"),
    "a line break": ({"base_url": "http://host/v1\n"}, "no address"),
    "a password in it": ({"base_url": "http://me:hunter2@host/v1"}, "holds a user name or password"),
    "the whole path": ({"base_url": "http://host/v1/chat/completions"}, "ends in /chat/completions"),
    "batch size 0": ({"batch_size": 0}, "--batch-size 0: expected a whole number of at least 1"),
    "samples 0": ({"samples": 0}, "--samples 0"),
    "concurrency 0": ({"concurrency": 0}, "--concurrency 0"),
    "max turns below 0": ({"max_turns": -1}, "--max-turns -1"),
    "max tokens 0": ({"max_tokens": 0}, "--max-tokens 0"),
    "max samples below 0": ({"max_samples": -5}, "--max-samples -5"),
    "retries below 0": ({"retries": -1}, "--retries -1: expected 0 or more"),
    "no time for a prompt": ({"prompt_timeout": 0.0}, "--prompt-timeout 0.0: expected seconds, more than 0"),
    "no time for a request": ({"request_timeout": -1.0}, "--request-timeout -1.0"),
    "endless time": ({"request_timeout": float("inf")}, "--request-timeout"),
    "time that is no number": ({"prompt_timeout": float("nan")}, "--prompt-timeout"),
    "a cold temperature": ({"temperature": -0.1}, "--temperature -0.1: expected a number from 0"),
    "no temperature at all": ({"temperature": float("nan")}, "--temperature"),
    "top-p above 1": ({"top_p": 1.1}, "--top-p 1.1: expected a number from 0 to 1"),
    "a seed of 70 bits": ({"seed": 2**70}, "--seed holds what cannot be recorded"),
    "text that is no Unicode": ({"system_prompt": "\udcff"}, "--system-prompt holds what cannot be recorded"),
    "no number in the body": ({"extra_body": {"x": float("nan")}}, "--extra-body holds what cannot be"),
    "effort": ({"reasoning_effort": "lots"}, "--reasoning-effort lots: expected one of none, minimal, low"),
    "sort": ({"provider_sort": "name"}, "--provider-sort name: expected one of price, throughput, latency"),
    "toolset": ({"toolsets": ["file", "moa"]}, "--toolsets moa: expected one of terminal, file, web"),
    "distribution": ({"distribution": "nosuch"}, "--distribution nosuch: expected one of default"),
    "price": ({"prices": ["m=1"]}, "--price 'm=1' has another form"),
    "price below 0": ({"prices": ["m=1,-2"]}, "below 0"),
    "agent": ({"agent": "a.py"}, "--agent a.py: expected chat, FILE.py:FUNCTION"),
    "effort of the embedded model": ({"model": "local", "reasoning_effort": "high"}, "cannot reason"),
    **{
        f"{name} in the body": ({"extra_body": {name: 1}}, f"--extra-body {name}: evrun sets this itself")
        for name in ("model", "messages", "tools", "stream", "n")
    },
}


@pytest.mark.parametrize(("given_now", "message"), REFUSED.values(), ids=REFUSED)
def test_a_value_that_cannot_be_honoured_is_refused_by_its_option_and_what_is_expected(given_now, message):
    """One plain error, exit 2; and the same value from the record of a log is refused too."""
    with pytest.raises(UsageFault) as caught:
        settings_of(**given_now)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["a", "my_run-2.1", "A" * 80, "0"])
def test_a_plain_run_name_is_taken(name):
    """Letters, digits, dot, underscore, dash."""
    check_run_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../a", "a b", "a\n", "é", "a\0", "~", "a:b"]
)
def test_a_run_name_that_is_no_plain_directory_name_is_refused(name):
    """With what is expected."""
    with pytest.raises(UsageFault, match="expected letters, digits"):
        check_run_name(name)


def test_a_key_comes_from_the_named_variable_and_is_needed_away_from_home():
    """No key is needed on this machine; elsewhere its absence names the variable."""
    at_home = settings_of()
    assert api_key(at_home, {}) is None
    assert api_key(at_home, {"OPENAI_API_KEY": ""}) is None
    away = settings_of(base_url="https://api.example.com/v1", api_key_env="MY_KEY")
    assert api_key(away, {"MY_KEY": "k", "OPENAI_API_KEY": "other"}) == "k"
    for environment in ({}, {"MY_KEY": ""}, {"OPENAI_API_KEY": "other"}):
        with pytest.raises(UsageFault, match="MY_KEY is not set"):
            api_key(away, environment)
    assert api_key(settings_of(model="local"), {"OPENAI_API_KEY": "k"}) is None


def test_a_key_that_cannot_be_sent_is_refused_before_the_run_and_never_shown():
    """A line break at its end, as `cat` gives it."""
    with pytest.raises(UsageFault, match="line break") as caught:
        check_endpoint(settings_of(), {"OPENAI_API_KEY": "sk-secret\n"})
    assert "sk-secret" not in str(caught.value)


PREFILLS = {
    "no JSON": (b"[", "prefill-messages-file"),
    "an object": (b'{"role": "user", "content": "x"}', "expected a JSON array"),
    "no content": (b'[{"role": "user"}]', "expected a JSON array of objects with role and content"),
    "no object": (b'["x"]', "expected a JSON array"),
    "no UTF-8": (b'[{"role": "user", "content": "\xff"}]', "prefill-messages-file"),
}


@pytest.mark.parametrize(("data", "message"), PREFILLS.values(), ids=PREFILLS)
def test_a_prefill_file_of_another_form_is_refused(tmp_path, data, message):
    """With its path and what is expected."""
    path = tmp_path / "prefill.json"
    path.write_bytes(data)
    with pytest.raises(UsageFault, match=message) as caught:
        read_prefill(path)
    assert str(path) in str(caught.value)


def test_prefilled_messages_are_recorded_themselves(tmp_path):
    """The file may be gone on a resume; a missing one is refused now."""
    path = tmp_path / "prefill.json"
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    path.write_text(json.dumps(messages))
    options = Options(run_name="r", dataset=Path("d"), prefill_messages_file=path, given={"base_url": URL})
    assert resolve(options, None, {}).prefill == messages
    path.unlink()
    with pytest.raises(UsageFault, match="No such file"):
        resolve(options, None, {})


def test_only_what_shapes_a_trajectory_is_in_the_digest():
    """How many at once, where and how patiently change nothing; every other setting does."""
    operational = {
        "dataset", "batch_size", "max_samples", "samples", "skip_bad_rows", "base_url", "api_key_env",
        "require_reasoning", "unknown_tools", "judge", "judge_text", "min_score", "concurrency", "retries",
        "prompt_timeout", "request_timeout", "rpm", "tpm", "prices", "unknown_price", "otel",
        "executor", "ray_address",
    }  # fmt: skip
    base = recorded_settings()
    other = {
        "dataset": "x",
        "batch_size": 3,
        "max_samples": 5,
        "samples": 2,
        "base_url": "http://x",
        "prices": ["p"],
        "unknown_price": "allow",
        "api_key_env": "K",
        "require_reasoning": False,
        "concurrency": 1,
        "retries": 0,
        "prompt_timeout": 1.0,
        "request_timeout": 1.0,
        "skip_bad_rows": True,
        "template": "t",
        "system_prompt": "s",
        "ephemeral_system_prompt": "e",
        "prefill": [{}],
        "agent": "a",
        "model": "x",
        "max_turns": 2,
        "max_tokens": 2,
        "temperature": 0.1,
        "top_p": 0.1,
        "seed": 1,
        "reasoning_effort": "low",
        "reasoning_disabled": True,
        "extra_body": {"x": 1},
        "providers_allowed": ["a"],
        "providers_ignored": ["a"],
        "providers_order": ["a"],
        "provider_sort": "price",
        "distribution": "x",
        "toolsets": ["file"],
        "judge": "llm:r",
        "judge_text": "r",
        "min_score": 0.5,
        "unknown_tools": "keep",
        "api": "anthropic",
        "headers": {"a": "b"},
        "stream": True,
        "response_format": {"type": "text"},
        "tool_choice": "auto",
        "tools": ["t.py"],
        "mcp_config": "m.json",
        "web_allow": ["h"],
        "rpm": 1,
        "tpm": 1,
        "otel": "http://x",
        "executor": "ray",
        "ray_address": "h:1",
    }
    assert other.keys() == set(Settings.__struct_fields__)
    for name, value in other.items():
        changed = msgspec.structs.replace(base, **{name: value})
        same = settings_digest(changed) == settings_digest(base)
        assert same == (name in operational), name
        assert set(changes_between(base, changed)) == {name}


def test_settings_of_an_older_log_are_completed_with_defaults():
    """A record without the newest names is read; the record itself is read back as it was."""
    whole = recorded_settings(temperature=0.5, extra_body={"a": [1, None]})
    assert settings_from_record(settings_record(whole)) == whole
    record = settings_record(whole)
    del record["retries"], record["provider_sort"]
    assert settings_from_record(record) == whole


numbers = st.none() | st.integers() | st.integers(-2, 2)
reals = st.none() | st.floats()


@given(
    st.fixed_dictionaries(
        dict.fromkeys(("batch_size", "samples", "concurrency", "max_turns", "max_tokens", "seed"), numbers)
        | dict.fromkeys(("temperature", "top_p", "prompt_timeout", "request_timeout"), reals)
        | {"system_prompt": st.none() | st.text(st.characters()), "retries": numbers}
    )
)
def test_any_values_are_refused_in_plain_words_or_can_be_recorded_and_read_again(values):
    """Nothing that was accepted changes on the way through the log."""
    try:
        settings = settings_of(**values)
    except UsageFault:
        return
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(settings_record(settings)))
    assert settings_from_record(record) == settings
    assert resolve(Options(run_name="r", resume=True), settings, {}) == settings
