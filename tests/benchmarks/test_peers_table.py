"""The peers' table measures what ran; the real command, few samples, with what needs no installing."""

import pytest

from tests.benchmarks.tables import printed_and_found

SAMPLES = 24


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The table of a small run, as printed and as JSON."""
    out = tmp_path_factory.mktemp("table") / "peers.json"
    options = {
        "--samples": SAMPLES,
        "--rounds": 1,
        "--in-flight": 4,
        "--steps": 0,
        "--runners": "evrun,bare,lines",
    }
    return printed_and_found("peers.py", out, options, timeout_s=60)


def test_every_runner_asked_for_every_prompt_once(command):
    """What a runner is credited with is what the endpoint served it."""
    trials = {trial["runner"]: trial for trial in command[1]["trials"]}
    assert set(trials) == {"evrun", "bare loop", "line + checkpoint"}
    assert [trial["served"] for trial in trials.values()] == [SAMPLES] * 3
    assert not any(trial["stopped"] for trial in trials.values())


def test_what_keeps_its_results_occupies_the_disk_and_what_keeps_nothing_does_not(command):
    """The bare loop leaves nothing; the others leave files, and their bytes are counted."""
    disk = {trial["runner"]: trial["disk_bytes"] for trial in command[1]["trials"]}
    assert disk["bare loop"] == 0
    assert disk["evrun"] > 0
    assert disk["line + checkpoint"] > 0


def test_the_table_sets_evrun_beside_each_of_them(command):
    """One line of ratios for each other runner."""
    printed = command[0].splitlines()
    start = next(n for n, line in enumerate(printed) if line.startswith("evrun's samples/s over those of"))
    names = [line.rsplit(maxsplit=1)[0] for line in printed[start + 1 : start + 3]]
    assert names == ["bare loop", "line + checkpoint"]


def test_a_runner_over_its_time_is_marked_and_not_called_done(tmp_path):
    """Killed at the limit, it is credited with what the endpoint served by then."""
    options = {
        "--samples": 3000,
        "--rounds": 1,
        "--in-flight": 1,
        "--steps": 0,
        "--runners": "lines",
        "--limit-s": 1.5,
    }
    printed, found = printed_and_found("peers.py", tmp_path / "peers.json", options, timeout_s=60)
    [trial] = found["trials"]
    assert trial["stopped"]
    assert trial["served"] < 3000
    assert any(line.startswith("line + checkpoint") and line.endswith("*") for line in printed.splitlines())
