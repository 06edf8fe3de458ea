"""The benchmark of the million, with three hundred: every step is there, and the accounts agree."""

import pytest

from tests.benchmarks.tables import printed_and_found

PROMPTS = 300
STEPS = [
    "run, killed", "resume, killed", "resume, finished", "resume, nothing to do", "status", "list", "audit",
    "verify", "replay --out", "replay --check", "compact", "verify, compacted",
]  # fmt: skip


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The table of one small size, as printed and as JSON."""
    out = tmp_path_factory.mktemp("million") / "table.json"
    return printed_and_found("million.py", out, {"--sizes": PROMPTS, "--in-flight": 16}, timeout_s=100)


def test_every_step_is_measured(command):
    """Seconds, CPU and memory of each; those that call say when the first call came."""
    printed, found = command
    steps = found["found"][0]["steps"]
    assert [step["name"] for step in steps] == STEPS
    assert all(step["seconds"] > 0 and step["cpu_s"] > 0 and step["peak_mib"] > 10 for step in steps)
    assert [step["first_call_s"] is not None for step in steps] == [True] * 3 + [False] * 9
    assert all(name in printed for name in STEPS)


def test_the_calls_of_the_log_are_those_that_the_endpoint_served(command):
    """Two kills leave doubts, and nothing else that does not fit."""
    account = command[1]["found"][0]["account"]
    calls = account["calls"]
    assert calls["settled"] == PROMPTS
    assert 0 < calls["in_doubt"] <= 2 * 16
    assert (calls["open"], calls["wrong"], calls["unknown_to_the_log"]) == (0, 0, 0)
    assert PROMPTS <= account["requests"] <= PROMPTS + calls["in_doubt"]


def test_the_size_of_the_log_is_given_plain_and_compressed(command):
    """Compaction makes it smaller, and the plain size is that of the same events."""
    of = command[1]["found"][0]
    assert of["account"]["log"]["plain_bytes"] >= of["account"]["log"]["bytes"] > of["compacted"]["bytes"]
    assert of["compacted"]["plain_bytes"] >= of["account"]["log"]["plain_bytes"]
    assert of["compacted"]["plain"] == 0
