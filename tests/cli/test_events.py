"""`evrun events`: what happened, one event a line, also while it happens."""

import json
import signal

import pytest

from eventlog.events import encode_event
from tests.cli.shell import evrun, evrun_process, start
from tests.cli.story import UNITS, asked, crashed, finished, writer


def listed(said):
    """The events that were listed, decoded line by line."""
    assert (said.code, said.err) == (0, "")
    return [json.loads(line) for line in said.out.splitlines()]


def test_every_event_is_one_object_a_line(done, tmp_path):
    """In the log's order, with the contracts' keys, and each with the unit that it is about."""
    events = listed(evrun_process("events", "done", "--json", cwd=tmp_path))
    told = [event for commit in finished() for event in commit]
    assert [event["seq"] for event in events] == list(range(1, len(told) + 1))
    assert [event["type"] for event in events] == [type(event).__name__ for event in told]
    assert {tuple(event) for event in events} == {("seq", "time", "session", "type", "unit", "data")}
    assert {event["session"] for event in events} == {1}
    assert events[0]["time"].startswith("2026-11-29T12:00:0")
    assert events[0]["time"].endswith("Z")
    by_type = {event["type"]: event for event in events}
    assert by_type["BudgetSpent"]["unit"] == UNITS[1]
    assert by_type["PromptFailed"]["data"]["message"] == "no answer in 120 s"
    assert by_type["RunStarted"]["unit"] is None


@pytest.mark.parametrize(
    ("options", "sequences"),
    [
        (["--from", 9], [9, 10, 11]),
        (["--to", 2], [1, 2]),
        (["--from", 5, "--to", 6], [5, 6]),
        (["--from", 6, "--to", 5], []),
        (["--from", 999], []),
        (["--to", 999, "--from", 11], [11]),
        (["--type", "BudgetReserved"], [6, 11]),
        (["--type", "BudgetReserved", "--type", "BudgetSpent"], [6, 7, 11]),
        (["--unit", UNITS[1]], [10, 11]),
        (["--unit", UNITS[0], "--from", 7], [7, 8, 9]),
        (["--unit", UNITS[0], "--type", "BudgetSpent"], [7]),
        (["--unit", "prompt:none#1.1"], []),
    ],
)
def test_what_is_asked_for_is_what_is_listed(options, sequences, crash, tmp_path):
    """Ranges include both ends; types and units narrow down; a call's events know their unit."""
    assert [
        event["seq"] for event in listed(evrun("events", "crash", "--json", *options, cwd=tmp_path))
    ] == sequences


def test_people_get_one_short_line_each(crash, tmp_path):
    """Coordinates, name, unit, and how the data begin."""
    said = evrun("events", "crash", cwd=tmp_path)
    lines = said.out.splitlines()
    assert (said.code, len(lines)) == (0, 11)
    assert lines[9].split()[3:5] == ["PromptStarted", UNITS[1]]
    assert lines[1].split()[5:] == [
        '{"number":',
        "1,",
        '"pid":',
        "4242,",
        '"host":',
        '"here",',
        '"version":',
        '"0.1.0"}',
    ]
    assert max(map(len, lines)) < 250


@pytest.mark.parametrize(
    ("name", "hint"),
    [("PromptFaild", "did you mean PromptFailed?"), ("xyz", "the types: AttemptSuperseded, BlobStored, ")],
)
def test_a_misspelled_type_is_refused(name, hint, crash, tmp_path):
    """Exit 2: listing nothing, or following it for ever, would look like an answer."""
    said = evrun("events", "crash", "--type", name, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"evrun: --type {name}: there is no such event type\n  hint: {hint}")


@pytest.mark.parametrize("options", [["--from", "0"], ["--from", "-1"], ["--to", "x"]])
def test_a_range_that_is_none_is_a_usage_error(options, crash, tmp_path):
    """Events are numbered from 1."""
    said = evrun("events", "crash", *options, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")


def test_a_follower_sees_what_becomes_durable_and_ends_where_it_was_told(crash, tmp_path):
    """While another process writes: each event once, in order, with its unit, up to --to."""
    with writer(crash) as log:
        follower = start("events", "crash", "--follow", "--to", 13, "--json", cwd=tmp_path)
        seen = [json.loads(follower.stdout.readline())["seq"] for _ in range(11)]
        log.append([encode_event(event) for event in asked(2, "s2.c1")])
        out, err = follower.communicate(timeout=60)
    later = [json.loads(line) for line in out.splitlines()]
    assert (seen, [event["seq"] for event in later]) == (list(range(1, 12)), [12, 13])
    assert (later[1]["unit"], later[1]["session"]) == (UNITS[2], 2)
    assert (follower.returncode, err) == (0, "")


def test_a_follower_is_ended_by_an_interrupt(crash, tmp_path):
    """Ctrl-C is how one stops following: exit 130 and not a word."""
    follower = start("events", "crash", "--follow", cwd=tmp_path)
    for _ in range(11):
        assert follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out, err) == (130, "", "")


def test_a_reader_who_leaves_ends_the_listing_quietly(tmp_path, done):
    """`evrun events RUN | head -n 1`: no traceback, the code that shells use for it."""
    follower = start("events", "done", "--follow", "--json", cwd=tmp_path)
    assert follower.stdout.readline()
    follower.stdout.close()
    with writer(done) as log:
        log.append([encode_event(event) for event in crashed()[0]])
        assert follower.wait(60) == 141
    assert follower.stderr.read() == ""
    follower.stderr.close()


def test_listing_changes_nothing_and_needs_no_right_to_write(crash, tmp_path):
    """After a crash the log is read as it lies there."""
    before = {path: path.read_bytes() for path in (crash / "log").iterdir()}
    evrun("events", "crash", cwd=tmp_path)
    assert {path: path.read_bytes() for path in (crash / "log").iterdir()} == before
