"""`evrun salvage RUN --out DIR`: what is left of a damaged log, with its gaps marked."""

import json as json_text
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from eventlog.errors import LogLocked
from eventlog.storage import (
    Position,
    SalvageCopy,
    Verdict,
    lock_holder,
    replace_file,
    salvage,
    verify,
)
from evrun.effects import random_bytes
from evrun.errors import UsageFault

from . import output
from .errors import INCOMPLETE
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run, log_of
from .salvage_account import Account, gap_shape
from .verify import verdict_shape

EVENTS_NAME = "events.jsonl"
ACCOUNT_NAME = "salvage.json"

GAPS_SHOWN = 20
CHUNK_CHARACTERS = 1 << 16

Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Where what is found goes: a directory that is not there yet."),
]


def salvage_command(
    run: RunArgument,
    *,
    out: Out,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Save what is left of a damaged log into a new directory, and say what is missing.

    Never changes RUN. DIR gets `log`, a whole log of the events that are proven, up to the first gap: every
    command works on DIR as on a run. `events.jsonl` holds everything that was found, gaps marked, and
    `salvage.json` the account. Exits with 0 when nothing is missing, with 3 when something is.
    """
    directory = find_run(run, output_dir)
    log = log_of(directory)
    refuse_target(directory, out)
    refuse_live(directory)
    verdict = verify(log)
    account = Account()
    copy = SalvageCopy(out, random_bytes=random_bytes, holder={"made_by": "evrun salvage"})
    try:
        replace_file(out / EVENTS_NAME, chunks(account.lines(salvage(log), copy.append)), durable=True)
        refuse_live(directory)  # what a writer that came meanwhile has not synced may have been read
        end = copy.finish()
    except BaseException:
        copy.discard()
        (out / EVENTS_NAME).unlink(missing_ok=True)
        raise
    report = report_of(directory, out, verdict, account, end)
    text = json_text.dumps(report, indent=1) + "\n"
    replace_file(out / ACCOUNT_NAME, [text.encode()], durable=True)
    if json:
        output.as_json(report)
    else:
        show(report)
    return 0 if account.complete else INCOMPLETE


def refuse_target(directory: Path, out: Path) -> None:
    """What is saved goes to a place of its own: nothing is mixed with it, and RUN stays as it is.

    Raises:
        UsageFault: DIR holds something, is no directory, or lies in RUN.
    """
    hint = "give a directory that is not there yet"
    if out.resolve().is_relative_to(directory.resolve()):
        raise UsageFault(f"--out {out} lies in the run {directory}, which is not to be changed", hint)
    nearest = next(path for path in (out, *out.parents, Path()) if path.exists())
    if not nearest.is_dir():
        raise UsageFault(f"--out {out}: {nearest} is not a directory", hint)
    if out.is_dir() and any(out.iterdir()):
        raise UsageFault(f"--out {out} is not empty", hint)


def refuse_live(directory: Path) -> None:
    """A log that is being written is not finished, not damaged.

    Raises:
        LogLocked: a process holds the run.
    """
    holder = lock_holder(log_of(directory))
    if holder is not None:
        raise LogLocked(f"{directory} is in use by process {holder.get('pid', '?')}", holder)


def chunks(lines: Iterator[str]) -> Iterator[bytes]:
    """Lines as bytes, many at a time."""
    waiting: list[str] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= CHUNK_CHARACTERS:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()


def report_of(
    directory: Path, out: Path, verdict: Verdict, account: Account, end: Position
) -> dict[str, Any]:
    """The account as `salvage.json` and `--json` have it."""
    return {
        "run": str(directory),
        "dir": str(out),
        "complete": account.complete,
        "log": {"sequence": end.sequence, "chain": end.chain.hex()},
        "events": {"found": account.found, "proven": account.proofs["chain"], "by_proof": account.proofs},
        "missing": {"events": account.missing, "unknown": account.unknown},
        "unproven": account.unproven_shape(),
        "gaps_total": account.gaps_total,
        "gaps": [gap_shape(gap) for gap in account.gaps],
        "source": verdict_shape(verdict),
    }


def show(report: dict[str, Any]) -> None:
    """The account for people: what was saved, what is missing, what that means."""
    found, log, unproven = report["events"], report["log"], report["unproven"]
    output.facts(
        [
            ("saved", f"{report['run']} ({report['source']['class']}) into {report['dir']}"),
            ("log", f"{log['sequence']} events, proven from the first on; chain {log['chain']}"),
            ("found", f"{found['found']} events in {EVENTS_NAME}, {unproven['events']} of them behind a gap"),
            ("missing", missing_line(report)),
        ]
    )
    rows = [
        (range_line(gap), gap["segment"] or "-", gap["offset_bytes"], gap["size_bytes"], gap["why"])
        for gap in report["gaps"][:GAPS_SHOWN]
    ]
    output.table(["missing", "segment", "at byte", "bytes", "why"], rows, title="gaps")
    if report["gaps_total"] > GAPS_SHOWN:
        output.line(f"and {report['gaps_total'] - GAPS_SHOWN} more: see {ACCOUNT_NAME}")
    if not report["complete"]:
        output.line(money_line(report))


def missing_line(report: dict[str, Any]) -> str:
    """How much is missing, as far as anybody knows."""
    missing = report["missing"]
    known = f"{missing['events']} events" if missing["events"] or not missing["unknown"] else ""
    unknown = "an unknown number of events" if missing["unknown"] else ""
    places = report["gaps_total"]
    if not places:
        return "nothing"
    return f"{' and '.join(filter(None, (known, unknown)))}, in {places} {'gap' if places == 1 else 'gaps'}"


def range_line(gap: dict[str, Any]) -> str:
    """The events that a gap took."""
    first, last = gap["from_sequence"], gap["to_sequence"]
    if last is None:
        return f"from {first} on, unknown"
    if last < first:
        return f"none, before {first}"
    return f"{first} to {last}"


def money_line(report: dict[str, Any]) -> str:
    """What the gap means for what was paid."""
    unproven, last = report["unproven"], report["log"]["sequence"]
    return (
        f"\nCalls made after event {last} are not in the saved log: {unproven['calls_settled']} of them were "
        f"found settled, for {unproven['settled_usd']} USD, and more may be in the gaps. `evrun audit` of "
        "the saved run cannot know them, and resuming it may make them, and pay for them, again."
    )
