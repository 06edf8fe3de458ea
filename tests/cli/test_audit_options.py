"""`evrun audit` with its options: one grouping, the dearest, the past, CSV; refusals change nothing."""

import csv
import io
import json

import pytest

from eventlog.events import BudgetChanged, BudgetExhausted, SessionClosed, SessionOpened, encode_event
from tests.cli.shell import evrun, evrun_process
from tests.cli.story import UNITS, asked, crashed, opening, tell, writer


def titles(said):
    """The titles of the tables that were printed."""
    lines = said.out.splitlines()
    return [lines[at + 1] for at, line in enumerate(lines) if line == ""]


def table(said, title):
    """The rows of one table, header first, as words."""
    lines = said.out.splitlines()
    found = lines[lines.index(title) + 1 :]
    return [line.split() for line in found[: found.index("") if "" in found else None]]


def parsed(said):
    """CSV as dictionaries."""
    return list(csv.DictReader(io.StringIO(said.out)))


@pytest.mark.parametrize("by", ["outcome", "session", "model", "role", "prompt"])
def test_one_grouping_is_shown_when_one_is_asked_for(done, tmp_path, by):
    """Its table alone, among the totals, the doubts and the checks that always are there."""
    assert titles(evrun("audit", "done", "--by", by, cwd=tmp_path)) == [
        f"by {by}",
        "calls in doubt",
        "checks",
    ]


def test_the_dearest_prompts(done, tmp_path):
    """What all attempts cost, falling; so many as were asked for."""
    rows = table(evrun("audit", "done", "--by", "prompt", cwd=tmp_path), "by prompt")
    assert [(row[0], row[2], row[4]) for row in rows[1:]] == [
        (UNITS[0], "kept", "0.00185"),
        (UNITS[1], "discarded", "0.00185"),
        (UNITS[2], "failed", "0.00"),
    ]
    assert len(table(evrun("audit", "done", "--by", "prompt", "--top", 2, cwd=tmp_path), "by prompt")) == 3
    asked_for = evrun("audit", "done", "--by", "prompt", "--json", cwd=tmp_path).json["by_prompt"]
    assert [row["unit"] for row in asked_for] == UNITS
    assert asked_for[2]["in_doubt_usd"] == "0.002"
    assert "by_prompt" not in evrun("audit", "done", "--json", cwd=tmp_path).json


def test_csv_has_exact_decimals_and_the_names_of_the_json(done, tmp_path):
    """One table and nothing else on stdout; what it says is what the JSON says."""
    said = evrun_process("audit", "done", "--by", "prompt", "--csv", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    of_json = evrun("audit", "done", "--by", "prompt", "--json", cwd=tmp_path).json["by_prompt"]
    assert parsed(said) == [{key: str(value) for key, value in row.items()} for row in of_json]
    outcomes = {row["outcome"]: row["settled_usd"] for row in parsed(
        evrun("audit", "done", "--by", "outcome", "--csv", cwd=tmp_path))}  # fmt: skip
    assert outcomes == evrun("audit", "done", "--json", cwd=tmp_path).json["by_outcome"]
    for by in ("session", "model", "role"):
        rows = parsed(evrun("audit", "done", "--by", by, "--csv", cwd=tmp_path))
        assert [row["settled_usd"] for row in rows] == ["0.0037"]


def test_the_past_at_a_sequence_and_at_a_moment(done, tmp_path):
    """At event 11 the second call was under way, and its session lived: it counts as reserved."""
    report = evrun("audit", "done", "--at", 11, "--json", cwd=tmp_path).json
    assert (report["sequence"], report["live"], report["settled_usd"]) == (11, True, "0.00185")
    assert (report["in_doubt_usd"], report["reserved_usd"]) == ("0.00", "0.002")
    assert evrun("audit", "done", "--at", report["time"], "--json", cwd=tmp_path).json == report
    start = evrun("audit", "done", "--at", "2026-11-01T00:00:00Z", "--json", cwd=tmp_path)
    assert (start.code, start.json["sequence"], start.json["settled_usd"]) == (0, 0, "0.00")
    assert "up to event 11" in evrun("audit", "done", "--at", 11, cwd=tmp_path).out


def test_the_last_moment_of_a_crashed_session_has_its_call_in_doubt(crash, tmp_path):
    """One event earlier, that session still lived; the end is the same with --at and without."""
    end = evrun("audit", "crash", "--json", cwd=tmp_path).json
    with writer(crash) as log:
        log.append([encode_event(SessionOpened(2, 4343, "there", "0.1.0"))])
    past = evrun("audit", "crash", "--at", end["sequence"], "--json", cwd=tmp_path).json
    assert past == end
    assert (end["in_doubt_usd"], end["live"]) == ("0.002", False)
    before = evrun("audit", "crash", "--at", end["sequence"] - 1, "--json", cwd=tmp_path).json
    assert before["live"]


def test_every_cap_has_its_line(tmp_path):
    """Money, tokens, calls, time, and that of one prompt; and the one at which the run paused."""
    caps = {"usd": 4_000_000, "tokens": 1000, "calls": 9, "hours": 5400 * 10**9, "prompt_usd": 2_500_000}
    tell(tmp_path / "data/capped", [
        *opening(), [BudgetChanged({"usd": 1_000_000_000}, caps)], asked(0, "s1.c1"),
        [BudgetExhausted("usd", 3_000_000, 2_000_000), SessionClosed(1, "paused", "a cap", 1)],
    ])  # fmt: skip
    said = evrun("audit", "capped", cwd=tmp_path)
    lines = dict(line.split("  ", 1) for line in said.out.splitlines()[:13] if "  " in line)
    shown = {name: text.strip() for name, text in lines.items() if name.startswith(("cap", "paused"))}
    assert shown == {
        "cap": "0.004 USD, 0.002 USD left",
        "cap on tokens": "1000 tokens, 860 tokens left",
        "cap on calls": "9 calls, 8 calls left",
        "cap on hours": "1.5 hours, 1.5 hours left",
        "cap per prompt": f"0.0025 USD for each prompt; the dearest, {UNITS[0]}, has 0.0005 USD left",
        "paused at": "the next call, which may take 0.003 USD; 0.002 USD were left",
    }
    assert "50 % of the cap on money are used: 0.004 USD, 0.002 USD left" in said.out
    changes = table(said, "changes of caps")
    assert [row[1] for row in changes[1:]] == ["3", "5"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--by", "colour"], "expected one of outcome, session, model, role, prompt"),
        (["--csv"], "--csv prints one table"),
        (["--csv", "--json", "--by", "role"], "contradict each other"),
        (["--top", "0"], "--top"),
        (["--at", "yesterday"], "expected a sequence number, or a moment"),
        (["--at", "99999"], "the log ends at event 21"),
        (["--note", "x"], "belongs to --settle"),
        (["--settle", "s1.c3=1", "--at", "3"], "--at shows the past"),
    ],
)
def test_what_makes_no_sense_is_refused(done, tmp_path, options, expected):
    """Exit 2, one line that says what is expected."""
    said = evrun("audit", "done", *options, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert expected in said.err


def test_a_log_that_grows_while_it_is_audited(tmp_path):
    """Each look is at one durable moment, and at each the checks hold."""
    run = tell(tmp_path / "data/live", opening())
    with writer(run) as log:
        for number, commit in enumerate(crashed()[3:]):
            log.append([encode_event(event) for event in commit])
            said = evrun("audit", "live", "--by", "prompt", "--json", cwd=tmp_path)
            assert (said.code, said.json["live"]) == (0, True)
            assert all(check["ok"] for check in said.json["checks"]), number


def test_the_options_keep_the_promised_keys(done, tmp_path):
    """Whatever is asked, JSON has all groups but prompts."""
    report = json.loads(evrun("audit", "done", "--by", "role", "--top", 1, "--json", cwd=tmp_path).out)
    assert {"by_outcome", "by_session", "by_model", "by_role", "caps", "warnings"} <= set(report)
