"""`evrun status` and `evrun audit`: after an orderly end, after a crash, and while somebody writes."""

import json

from eventlog.events import SessionOpened, encode_event
from tests.cli.shell import evrun, evrun_process
from tests.cli.story import UNITS, writer

STATUS_KEYS = {
    *("run", "dir", "state", "exit_code", "counts", "reason", "settled_usd", "in_doubt_usd", "reserved_usd"),
    *("sequence", "chain", "session", "open", "batches"),
}
AUDIT_KEYS = {
    *(
        "run",
        "sequence",
        "settled_usd",
        "in_doubt_usd",
        "reserved_usd",
        "cap_usd",
        "left_usd",
        "tokens",
        "calls",
    ),
    *("by_outcome", "by_session", "by_model", "by_role", "in_doubt", "checks"),
}


def test_status_of_a_finished_run(done, tmp_path):
    """Done with one failure, which is exit code 3 of the run; the status command itself ends with 0."""
    said = evrun_process("status", "done", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    report = said.json
    assert set(report) >= STATUS_KEYS
    assert (report["run"], report["dir"], report["state"], report["exit_code"]) == (
        "told",
        "data/done",
        "done",
        3,
    )
    assert report["counts"] == {"total": 3, "kept": 1, "discarded": 1, "failed": 1, "open": 0, "pending": 0}
    assert (report["settled_usd"], report["in_doubt_usd"], report["reserved_usd"]) == (
        "0.0037",
        "0.002",
        "0.00",
    )
    assert (report["sequence"], report["open"]) == (21, [])
    assert report["chain"] == evrun("verify", "done", "--json", cwd=tmp_path).json["chain"]


def test_status_after_a_crash_says_interrupted_and_what_is_open(crash, tmp_path):
    """Nobody holds the run: its open attempt is shown, and its call that was out counts as in doubt."""
    report = evrun("status", "crash", "--json", cwd=tmp_path).json
    assert (report["state"], report["counts"]["open"], report["counts"]["pending"]) == ("interrupted", 1, 1)
    (attempt,) = report["open"]
    assert (attempt["unit"], attempt["attempt"], attempt["settled_usd"]) == (UNITS[1], 1, "0.00")
    assert (report["in_doubt_usd"], report["reserved_usd"]) == ("0.002", "0.00")


def test_status_and_audit_of_a_run_that_is_going_on(crash, tmp_path):
    """With the lock held the run is running, and the same call is reserved, not in doubt."""
    with writer(crash) as log:
        log.append([encode_event(SessionOpened(2, 4343, "there", "0.1.0"))])
        status = evrun_process("status", "crash", "--json", cwd=tmp_path).json
        audit = evrun("audit", "crash", "--json", cwd=tmp_path).json
    assert (status["state"], status["session"]["number"], status["session"]["pid"]) == ("running", 2, 4343)
    assert (status["in_doubt_usd"], status["reserved_usd"]) == ("0.00", "0.002")
    assert (audit["in_doubt_usd"], audit["reserved_usd"], audit["in_doubt"]) == ("0.00", "0.002", [])
    after = evrun("audit", "crash", "--json", cwd=tmp_path).json
    assert (after["in_doubt_usd"], after["reserved_usd"], len(after["in_doubt"])) == ("0.002", "0.00", 1)


def test_status_for_people(crash, tmp_path):
    """One fact a line, then the open attempts as plain columns."""
    said = evrun("status", "crash", cwd=tmp_path)
    assert said.code == 0
    assert said.out.splitlines()[:7] == [
        "run       told in data/crash",
        "state     interrupted: the process ended without closing the run; nothing is lost",
        "prompts   3 total, 1 kept, 0 discarded, 0 failed, 1 open, 1 pending",
        "batches   0 of 2 done",
        "settled   0.00185 USD",
        "in doubt  at most 0.002 USD",
        "reserved  at most 0.00 USD",
    ]
    title, headers, attempt = said.out.splitlines()[-3:]
    assert (title, headers.split()) == (
        "open attempts",
        ["unit", "attempt", "started", "calls", "settled", "USD"],
    )
    assert attempt.split()[:2] == [UNITS[1], "1"]
    assert attempt.split()[3:] == ["0", "0.00"]


def test_audit_of_a_finished_run(done, tmp_path):
    """The contracts' shape; parts that add up; each call in doubt by name; money as exact decimal strings."""
    said = evrun_process("audit", "done", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    report = said.json
    assert set(report) >= AUDIT_KEYS
    assert (report["cap_usd"], report["left_usd"]) == ("1.00", "0.9943")
    assert report["calls"] | {"released": 0} == report["calls"]
    assert (report["calls"]["settled"], report["calls"]["in_doubt"], report["calls"]["reserved"]) == (2, 1, 0)
    assert (report["by_outcome"]["kept"], report["by_outcome"]["discarded"]) == ("0.00185", "0.00185")
    (doubt,) = report["in_doubt"]
    assert (doubt["call"], doubt["unit"], doubt["role"], doubt["model"]) == (
        "s1.c3",
        UNITS[2],
        "rollout",
        "some/model",
    )
    assert (doubt["bound_usd"], doubt["bound_tokens"]) == ("0.002", 140)
    assert doubt["idempotency_key"]
    assert doubt["sent_at"].startswith("2026-11-29T12:00:")
    assert all(check["ok"] for check in report["checks"])
    assert "no reservation was granted past the cap" in [check["name"] for check in report["checks"]]
    assert report["tokens"]["in_doubt"] == 140


def test_audit_for_people(done, tmp_path):
    """Totals in words, then the parts, the call in doubt, and the checks."""
    said = evrun("audit", "done", cwd=tmp_path)
    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[:6] == [
        "run       told, up to event 21",
        "settled   0.0037 USD in 2 calls",
        "in doubt  at most 0.002 USD in 1 calls",
        "reserved  at most 0.00 USD in 0 calls",
        "cap       1.00 USD, 0.9943 USD left",
        "released  0 calls, which cost nothing",
    ]
    titles = [lines[at + 1] for at, line in enumerate(lines) if line == ""]
    assert titles == ["by outcome", "by session", "by model", "by role", "calls in doubt", "checks"]
    assert any(line.split()[:2] == ["s1.c3", UNITS[2]] for line in lines)


def test_an_account_that_is_wrong_is_exit_1(crash, tmp_path):
    """A settlement without a reservation fails its check, and a script notices."""
    from eventlog.events import BudgetSpent, Usage

    with writer(crash) as log:
        log.append([encode_event(BudgetSpent("s9.c9", Usage(1, None, 1, None), 5, None))])
    said = evrun("audit", "crash", "--json", cwd=tmp_path)
    failed = [check["name"] for check in json.loads(said.out)["checks"] if not check["ok"]]
    assert (said.code, failed) == (1, ["no settled call without reservation"])


def test_reading_changes_no_byte_of_a_run(done, tmp_path):
    """Status and audit are looks, nothing more: the same files with the same bytes afterwards."""
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    evrun("status", "done", cwd=tmp_path)
    evrun("audit", "done", cwd=tmp_path)
    assert {path: path.read_bytes() for path in done.rglob("*") if path.is_file()} == before
