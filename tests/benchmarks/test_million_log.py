"""The generated log is one that a run could have left: it is read, audited, replayed and gone on with."""

import subprocess
import sys

import pytest

from tests.endpoint.client import running_endpoint
from tests.runs import ROOT, environment, evrun, prompts_of

FINISHED, OPEN, PENDING = 150, 3, 20


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with a run that was killed, and its dataset."""
    made = tmp_path_factory.mktemp("generated")
    command = [
        sys.executable, "benchmarks/million_log.py", made / "data/r", "--prompts", FINISHED, "--open", OPEN,
        "--pending", PENDING, "--dataset", made / "rows.jsonl",
    ]  # fmt: skip
    subprocess.run([*map(str, command)], cwd=ROOT, env=environment(), check=True, capture_output=True)
    return made


def test_a_generated_log_is_whole_and_says_what_was_asked_for(place):
    """Kept, open and pending prompts are those of the command line."""
    assert evrun("verify", "data/r", cwd=place).code == 0
    counts = evrun("status", "data/r", "--json", cwd=place).json["counts"]
    assert (counts["kept"], counts["open"], counts["pending"]) == (FINISHED, OPEN, PENDING)


def test_a_generated_log_is_gone_on_with_and_replays_to_the_same_views(place):
    """The open and pending prompts are asked for, no other; no row is new; the audit agrees."""
    with running_endpoint() as endpoint:
        url = endpoint.base_url
        more = ("--run-name", "r", "--output-dir", "data", "--resume", "--base-url", url, "--quiet")
        ended = evrun("run", "rows.jsonl", *more, cwd=place)
        served = endpoint.totals()
    assert ended.code == 0, ended
    assert served["answered"] == OPEN + PENDING
    assert len(prompts_of(place / "data/r")) == FINISHED + OPEN + PENDING
    assert evrun("audit", "data/r", cwd=place).code == 0
    assert evrun("replay", "data/r", "--check", cwd=place).code == 0
