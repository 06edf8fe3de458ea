"""What was typed after `evrun run` becomes options, or is refused by the name of its option."""

from inspect import signature
from pathlib import Path

import pytest

from cli.run import run_command
from cli.run_options import options_of
from evrun.errors import UsageFault


def asked(**typed):
    """The parameters of the command, nothing typed but these."""
    parameters = signature(run_command).parameters
    nothing = {name: parameters[name].default for name in parameters if name not in {"context", "config"}}
    return {**nothing, "run_name": "r", **typed}


def test_caps_are_taken_exactly_and_none_lifts_one():
    """Money in nano-USD, hours in nanoseconds; what was not typed is not there."""
    options = options_of(asked(budget_usd="0.1", budget_calls="none", budget_hours="1.5"))
    assert options.caps == {"usd": 100_000_000, "calls": None, "hours": 5400 * 10**9}


def test_what_was_typed_becomes_options():
    """Lists are split, none is an empty list, 0 samples are all of them, JSON is read."""
    options = options_of(
        asked(
            toolsets="none",
            providers_order="a, b,",
            max_samples=0,
            extra_body='{"top_k": 3}',
            price=["m=1,2"],
            dataset_file=Path("d.jsonl"),
        )
    )
    assert options.dataset == Path("d.jsonl")
    assert {name: value for name, value in options.given.items() if value is not None} == {
        "toolsets": [],
        "providers_order": ["a", "b"],
        "extra_body": {"top_k": 3},
        "prices": ["m=1,2"],
    }
    assert options_of(asked(toolsets="file,terminal")).given["toolsets"] == ["file", "terminal"]


TYPED = {
    "a key": ({"api_key": "sk-123"}, "--api-key-env"),
    "two datasets": (
        {"dataset": Path("a"), "dataset_file": Path("b")},
        "two datasets: a and --dataset-file b",
    ),
    "extra body no JSON": ({"extra_body": "{"}, "--extra-body: bad JSON"),
    "extra body no object": ({"extra_body": "[1]"}, "--extra-body: expected a JSON object, found [1]"),
}


@pytest.mark.parametrize(("typed", "message"), TYPED.values(), ids=TYPED)
def test_what_cannot_be_taken_as_typed_is_refused(typed, message):
    """By its option; a key is not repeated."""
    with pytest.raises(UsageFault) as caught:
        options_of(asked(**typed))
    assert message in f"{caught.value} {caught.value.hint}"
    assert "sk-123" not in str(caught.value)
