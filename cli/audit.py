"""`evrun audit RUN`: what a run cost, what nobody knows of it, and whether the account is right."""

from typing import Any

from eventlog.storage import LogReader, lock_holder
from projections import audit_report, fold_log

from . import output
from .errors import FAILED
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run, log_of


def audit_command(run: RunArgument, *, output_dir: OutputDirectory = DATA, json: JsonFlag = False) -> int:
    """Show what a run cost: settled, in doubt, reserved, each call in doubt, and the checks of the account.

    Works on the log alone, also while the run is going on and after a crash. Changes nothing. Exits with 1
    if a check does not hold.
    """
    directory = find_run(run, output_dir)
    live = lock_holder(log_of(directory)) is not None
    reader = LogReader.open(log_of(directory))
    try:
        state = fold_log(reader, reader.end.sequence)
    finally:
        reader.close()
    name = state.batch.run or directory.resolve().name
    report = audit_report(state.ledger, state.batch, run=name, live=live)
    if json:
        output.as_json(report)
    else:
        show(report)
    return 0 if all(check["ok"] for check in report["checks"]) else FAILED


def show(report: dict[str, Any]) -> None:
    """The report for people: totals, parts, doubts, checks."""
    output.facts(totals(report))
    output.table(["outcome", "settled USD"], list(report["by_outcome"].items()), title="by outcome")
    for group, key in (("session", "by_session"), ("model", "by_model"), ("role", "by_role")):
        rows = [(part[group], part["calls"], part["settled_usd"]) for part in report[key]]
        output.table([group, "calls", "settled USD"], rows, title=f"by {group}")
    doubts = [(d["call"], d["unit"], d["sent_at"], d["bound_usd"] or "unknown") for d in report["in_doubt"]]
    output.table(["call", "unit", "sent", "at most USD"], doubts, title="calls in doubt")
    checks = [
        ("ok" if check["ok"] else "FAILED", check["name"], check["detail"]) for check in report["checks"]
    ]
    output.table(["", "check", "detail"], checks, title="checks")


def totals(report: dict[str, Any]) -> list[tuple[str, object]]:
    """The sums, in words; what is not known is said to be so."""
    calls, tokens = report["calls"], report["tokens"]
    cap = "none" if report["cap_usd"] is None else f"{report['cap_usd']} USD, {report['left_usd']} USD left"
    known = {
        name: "unknown" if tokens[name] is None else tokens[name] for name in ("input", "output", "reasoning")
    }
    return [
        ("run", f"{report['run']}, up to event {report['sequence']}"),
        ("settled", f"{report['settled_usd']} USD in {calls['settled']} calls"),
        ("in doubt", f"{output.at_most(report['in_doubt_usd'])} in {calls['in_doubt']} calls"),
        ("reserved", f"{output.at_most(report['reserved_usd'])} in {calls['reserved']} calls"),
        ("cap", cap),
        ("released", f"{calls['released']} calls, which cost nothing"),
        ("unpriced", f"{calls['unpriced']} calls, whose price or bound is not known"),
        ("tokens", ", ".join(f"{number} {name}" for name, number in known.items())),
    ]
