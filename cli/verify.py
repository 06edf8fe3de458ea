"""`evrun verify RUN`: is the log what was made durable?"""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from eventlog.storage import Position, Verdict, verify
from evrun.archive import verify_archive
from evrun.errors import UsageFault

from . import output
from .archives import means_archive
from .errors import BAD_LOG
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run, log_of

SOUND = ("clean", "torn")
CHAIN_BYTES = 32

SAYS = {
    "clean": "clean: every event that was made durable is there, and nothing else",
    "torn": "torn: every event that was made durable is there; a crash cut off bytes behind them",
    "lost": "LOST: events that were made durable are gone or altered",
    "unreadable": "UNREADABLE: a read failed, so nothing can be said about the bytes",
    "tampered": "TAMPERED: the log is not the one that the anchor was taken from",
    "unsupported": "unsupported: a newer evrun wrote this log; it is not damaged",
}

Anchor = Annotated[
    str | None,
    typer.Option(
        "--anchor", metavar="SEQUENCE:CHAIN", help="A digest kept elsewhere, to check the log against."
    ),
]


def verify_command(
    run: RunArgument,
    *,
    anchor: Anchor = None,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Read the whole log and say whether it is what was made durable.

    Changes nothing. Exits with 0 when it is clean, or torn (a crash cut off what was never made durable);
    with 5 when it is lost, unreadable, tampered with or unsupported.
    """
    position = parse_anchor(anchor) if anchor is not None else None
    if means_archive(run):
        verdict = verify_archive(run, anchor=position)
    else:
        verdict = verify(log_of(find_run(run, output_dir)), anchor=position)
    if json:
        output.as_json(verdict_shape(verdict))
    else:
        output.facts(verdict_facts(verdict))
    return 0 if verdict.kind in SOUND else BAD_LOG


def parse_anchor(text: str) -> Position:
    """`SEQUENCE:CHAIN` as `evrun verify` and `evrun status` print it.

    Raises:
        UsageFault: it is something else.
    """
    sequence, _, chain = text.partition(":")
    try:
        position = Position(int(sequence), bytes.fromhex(chain))
    except ValueError:
        position = Position(-1, b"")
    if position.sequence < 0 or len(position.chain) != CHAIN_BYTES:
        raise UsageFault(
            f"--anchor {text}: expected SEQUENCE:CHAIN, a number and {2 * CHAIN_BYTES} hex digits",
            "`evrun verify RUN --json` prints both",
        )
    return position


def verdict_shape(verdict: Verdict) -> dict[str, Any]:
    """The verdict as `--json` prints it (the contracts' shape)."""
    return {
        "class": verdict.kind,
        "sequence": verdict.position.sequence,
        "chain": verdict.position.chain.hex(),
        "segments": verdict.segments,
        "bytes": verdict.size_bytes,
        "torn_bytes": verdict.torn_bytes,
        "problem": None if verdict.problem is None else asdict(verdict.problem),
    }


def verdict_facts(verdict: Verdict) -> list[tuple[str, object]]:
    """The verdict for people: what, then where."""
    shown: list[tuple[str, object]] = [
        ("log", SAYS[verdict.kind]),
        ("events", verdict.position.sequence),
        ("chain", verdict.position.chain.hex()),
        ("segments", verdict.segments),
        ("bytes", verdict.size_bytes),
    ]
    if verdict.torn_bytes:
        shown.append(("torn bytes", verdict.torn_bytes))
    if verdict.problem is not None:
        shown += [
            ("where", f"segment {verdict.problem.segment}, offset {verdict.problem.offset_bytes}"),
            ("what", verdict.problem.what),
            ("last good", verdict.problem.last_good_sequence),
            ("promised", verdict.problem.promised_sequence),
        ]
    return shown
