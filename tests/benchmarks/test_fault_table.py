"""The fault table tells silence, refusal, crash and wholeness apart; the real command, few records."""

import subprocess
import sys

import pytest

from tests.benchmarks.tables import printed_and_found
from tests.house import ROOT

RECORDS, POSITIONS = 40, 2
LEGAL = ("tail-cut", "tail-garbled", "tail-zeroed")
STORES = (
    "evrun",
    "evrun-no-head",
    "sqlite",
    *(
        f"tests.benchmarks.line_stores:{name}"
        for name in ("StopsAtFirstBadLine", "RefusesAnyBadLine", "DiesOfABadLine", "BelievesEverything")
    ),
)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The table of a small run, as printed and as JSON."""
    out = tmp_path_factory.mktemp("table") / "table.json"
    options = {"--records": RECORDS, "--positions": POSITIONS, "--stores": ",".join(STORES)}
    return printed_and_found("fault_table.py", out, options, timeout_s=60)


@pytest.fixture
def printed(command):
    """What the command prints."""
    return command[0]


@pytest.fixture
def table(command):
    """Every outcome, by store and fault."""
    return command[1]


def kinds(row, *, legal):
    """The set of what happened."""
    return {outcome["kind"] for fault, cell in row.items() if (fault in LEGAL) == legal for outcome in cell}


def test_evrun_refuses_damage_and_opens_after_a_crash(table):
    """The evrun column: never silent, never a false refusal."""
    assert kinds(table["evrun"], legal=False) == {"refused"}
    assert kinds(table["evrun"], legal=True) == {"whole"}


def test_the_stated_residual_is_in_the_table(table):
    """Without HEAD, damage that reaches the newest commit is silent; any other is refused."""
    row = table["evrun, HEAD lost"]
    silent = {fault for fault, cell in row.items() if any(outcome["kind"] == "silent" for outcome in cell)}
    assert silent == {"newest", "zero-behind"}
    assert {outcome["intact"] for outcome in row["newest"]} == {RECORDS - 1}
    assert kinds(row, legal=True) == {"whole"}


def test_sqlite_stops_at_damage_in_its_wal_and_says_ok(table):
    """The SQLite column: after one bit in the middle half of the records are there, and the check says ok."""
    [outcome] = table["SQLite WAL, FULL"]["flip-exact-middle"]
    assert outcome == {
        "kind": "silent",
        "intact": RECORDS // 2 - 1,
        "wrong": 0,
        "said": "",
        "check": "ok",
    }
    assert kinds(table["SQLite WAL, FULL"], legal=True) == {"whole"}


def test_a_silent_store_is_called_silent(table, printed):
    """A reader that stops at the first bad line passes every legal tail, and is silent about all damage."""
    assert kinds(table["stops"], legal=False) == {"silent"}
    assert kinds(table["stops"], legal=True) == {"whole"}
    images = 1 + 7 * POSITIONS
    assert f"{images}/{images + 3 * POSITIONS} = 71 %" in printed.split("Totals")[1]


def test_a_false_refusal_is_counted(table, printed):
    """A reader that refuses any bad line is honest about damage within a line, and wrong about torn tails."""
    row = table["refuses"]
    assert {outcome["kind"] for outcome in row["flip"] + row["cut-in-record"]} == {"refused"}
    assert kinds(row, legal=True) == {"refused"}
    [line] = [line for line in printed.split("Totals")[1].splitlines() if line.startswith("refuses")]
    assert line.endswith(f"{3 * POSITIONS}/{3 * POSITIONS} = 100 %")


def test_a_cut_that_leaves_no_trace_is_silent(table):
    """A file that ends where a record ends looks whole to a reader that keeps no evidence elsewhere."""
    assert {outcome["kind"] for outcome in table["refuses"]["cut-on-boundary"]} == {"silent"}


def test_a_crash_is_neither_silence_nor_refusal(table):
    """A process that dies on reading is counted as crashed, and the run goes on."""
    assert {outcome["kind"] for outcome in table["dies"]["flip"]} == {"crashed"}
    assert table["dies"]["flip"][0]["said"] == "SIGSEGV"


def test_an_altered_record_is_silent_and_marked(table, printed):
    """A record that comes back altered counts as lost and as wrong, and the table marks it."""
    [outcome] = table["believes"]["flip-exact-middle"]
    assert (outcome["kind"], outcome["intact"], outcome["wrong"]) == ("silent", RECORDS - 1, 1)
    assert f"{RECORDS - 1}* silently" in printed


def test_a_store_that_cannot_be_had_is_named():
    """Without the extra, the command says which and what to install, in one line."""
    ran = subprocess.run(
        [sys.executable, "benchmarks/fault_table.py", "--stores", "no_such_package.stores:Store"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("The store no_such_package.stores:Store cannot be had")
    assert ".[bench]" in ran.stderr
