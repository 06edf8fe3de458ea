"""`evrun status RUN`: how far a run is."""

from typing import Any

from projections import status_report

from . import output
from .archives import place_of
from .output import JsonFlag
from .reading import read_run
from .runs import DATA, OutputDirectory, RunArgument


def status_command(run: RunArgument, *, output_dir: OutputDirectory = DATA, json: JsonFlag = False) -> int:
    """Show how far a run is, also while it is going on and after a crash. Changes nothing."""
    report = read_status(run, output_dir)
    if json:
        output.as_json(report)
    else:
        show(report)
    return 0


def read_status(run: str, output_dir: Any = DATA) -> dict[str, Any]:
    """The report, made from what is durable now."""
    reading = read_run(run, output_dir)
    return status_report(
        reading.state,
        run=reading.name,
        dir=place_of(reading.directory),
        holder=reading.holder,
        chain=reading.end.chain.hex(),
    )


def show(report: dict[str, Any]) -> None:
    """The report for people."""
    output.facts(
        [
            ("run", f"{report['run']} in {report['dir']}"),
            (
                "state",
                report["state"] if report["reason"] is None else f"{report['state']}: {report['reason']}",
            ),
            *(training_facts(report) if "step" in report else batch_facts(report)),
            ("settled", f"{report['settled_usd']} USD"),
            ("in doubt", output.at_most(report["in_doubt_usd"])),
            ("reserved", output.at_most(report["reserved_usd"])),
            ("session", session_line(report["session"])),
            ("log", f"{report['sequence']} events, chain {report['chain']}"),
        ]
    )
    output.table(
        ["unit", "attempt", "started", "calls", "settled USD"],
        [
            (
                attempt["unit"],
                attempt["attempt"],
                attempt["started_at"],
                attempt["calls"],
                attempt["settled_usd"],
            )
            for attempt in report["open"]
        ],
        title="open attempts",
    )


def batch_facts(report: dict[str, Any]) -> list[tuple[str, object]]:
    """How far a run of prompts is."""
    counts = ", ".join(f"{number} {name}" for name, number in report["counts"].items())
    return [
        ("prompts", counts if report["plan_complete"] else f"{counts}; the plan is not complete"),
        ("batches", f"{report['batches']['done']} of {report['batches']['total']} done"),
    ]


def training_facts(report: dict[str, Any]) -> list[tuple[str, object]]:
    """How far a training run is."""
    counts, step = report["counts"], report["step"]
    total = "an unknown number" if counts["steps_total"] is None else counts["steps_total"]
    facts: list[tuple[str, object]] = [
        ("steps", f"{counts['steps']} of {total} committed"),
        ("rollouts", f"{counts['rollouts_ok']} ok, {counts['rollouts_error']} failed"),
    ]
    if step is not None:
        since = f"{step['step']} (epoch {step['epoch']}) since {step['started_at']}: {step['doing']}"
        scored = f"{step['scored']} of {step['tasks']} tasks have a score"
        facts.append(("step", f"{since}; {scored}; {step['settled_usd']} USD"))
    for one in report["evaluations"]:
        ended = f"{one['ended']} of {one['attempts']} attempts have ended"
        facts.append(("evaluation", f"{one['evaluation']} of {one['adapter']}: {ended}"))
    return facts


def session_line(session: dict[str, Any] | None) -> str:
    """The newest session in words."""
    if session is None:
        return "none yet"
    return f"{session['number']}, pid {session['pid']} on {session['host']}, since {session['started_at']}"
