"""The money table tells an account that holds from one that does not; the real command, few prompts."""

import pytest

from tests.benchmarks.tables import printed_and_found

PROMPTS, IN_FLIGHT = 48, 6
NAIVE = "tests.benchmarks.naive_runner"
RUNNERS = ("evrun", *(f"{NAIVE}:{name}" for name in ("NaiveJsonl", "DiesAtOnce", "NotToBeHad")))


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The table of a small run, as printed and as JSON."""
    out = tmp_path_factory.mktemp("table") / "table.json"
    options = {
        "--prompts": PROMPTS,
        "--in-flight": IN_FLIGHT,
        "--latency-ms": 120,
        "--seeds": 5,
        "--runners": ",".join(RUNNERS),
    }
    return printed_and_found("money_table.py", out, options, timeout_s=100)


@pytest.fixture
def printed(command):
    """What the command prints."""
    return command[0]


@pytest.fixture
def found(command):
    """Every outcome, by runner."""
    return command[1]


def test_evrun_knows_what_it_does_not_know(found):
    """All rows, every repeated call named, the truth inside the bracket, in tokens and in USD."""
    [trial] = found["trials"]["evrun"]
    assert (trial["exit_code"], trial["rows"]) == (0, PROMPTS)
    assert trial["repeated"] <= IN_FLIGHT
    assert trial["repeated_named"] == trial["repeated"] <= trial["named"] <= IN_FLIGHT
    assert (trial["tokens_inside"], trial["usd_inside"]) == (True, True)
    assert trial["tokens"] == trial["row_tokens"] <= trial["true_tokens"]


def test_a_runner_that_loses_calls_is_caught(found):
    """A buffered file loses what was answered: more is repeated than was in flight, and nothing named."""
    [trial] = found["trials"]["naive JSONL"]
    assert trial["rows"] == PROMPTS
    assert trial["repeated"] > IN_FLIGHT
    assert (trial["named"], trial["repeated_named"]) == (0, 0)
    assert trial["missing"] == trial["true_tokens"] - trial["tokens"] > 0


def test_a_bracket_without_the_truth_is_called_so(found, printed):
    """Who claims to be certain and is not is OUTSIDE; evrun beside it is inside."""
    assert found["trials"]["naive JSONL"][0]["tokens_inside"] is False
    [line] = [line for line in printed.splitlines() if line.startswith("truth ")]
    assert line.split() == ["truth", "inside", "OUTSIDE"]


def test_every_call_is_counted_by_the_endpoint(found):
    """Served is a call for each prompt and the repeated ones, whatever a runner says."""
    for [trial] in found["trials"].values():
        assert trial["served"] == PROMPTS + trial["repeated"]
        assert PROMPTS * 0.4 <= trial["killed_at"] < PROMPTS


def test_a_runner_that_fails_or_cannot_be_had_is_named_with_its_reason(found, printed):
    """They leave the table, and the rest goes on."""
    assert set(found["trials"]) == {"evrun", "naive JSONL"}
    assert "not to be had is not in the table: the registry has no such package" in printed
    assert (
        "dies at once is not in the table: seed 5: dies at once: it ended with 1 before it was killed"
        in printed
    )
    assert "no model today" in printed
