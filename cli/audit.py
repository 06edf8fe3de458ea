"""`evrun audit RUN`: what a run cost, what nobody knows of it, and whether the account is right."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from eventlog.storage import LogReader, lock_holder
from evrun.batch import parse_settlements, settle_calls
from evrun.errors import UsageFault
from projections import RunState, audit_report, fold_log, worked_on

from . import output
from .archives import find_readable
from .audit_tables import GROUPS, MOST_PROMPTS, PROMPT, STEP, as_csv, show
from .errors import FAILED
from .output import JsonFlag
from .points import sequence_of
from .runs import DATA, OutputDirectory, RunArgument, find_run, log_of

By = Annotated[
    str | None,
    Option(metavar="GROUP", help=f"One grouping: {', '.join(GROUPS)}.  [all but prompt and step]"),
]
Top = Annotated[
    int | None,
    Option(
        metavar="N",
        min=1,
        help="The N dearest prompts or steps, and the N calls in doubt with the largest bounds.",
    ),
]
At = Annotated[str | None, Option("--at", metavar="SEQUENCE|TIME", help="As it was then.")]
Csv = Annotated[bool, Option("--csv", help="The grouping of --by as CSV, and nothing else, on stdout.")]
Settle = Annotated[
    list[str] | None,
    Option("--settle", metavar="CALL=USD", help="Record what a call in doubt cost. Can be repeated."),
]
Note = Annotated[str | None, Option(metavar="TEXT", help="Kept with --settle: where the amount is from.")]


def audit_command(
    run: RunArgument,
    *,
    by: By = None,
    top: Top = None,
    at: At = None,
    settle: Settle = None,
    note: Note = None,
    output_dir: OutputDirectory = DATA,
    csv: Csv = False,
    json: JsonFlag = False,
) -> int:
    """Show what a run cost: settled, in doubt, reserved, each call in doubt, and the checks of the account.

    Works on the log alone, also while the run is going on and after a crash, and changes nothing; only
    `--settle` writes: it takes the lock (exit 6 if a process works on the run), records what calls in doubt
    cost by the invoice, and makes the views anew. Exits with 1 if a check does not hold.
    """
    _refuse_contradictions(by=by, at=at, settle=settle, note=note, csv=csv, json=json)
    amounts = parse_settlements(settle or [])
    directory = (find_run if amounts else find_readable)(run, output_dir)
    if amounts:
        state, live = settle_calls(directory, amounts, note or "", output.note), False
    else:
        state, live = _read(directory, at)
    if by in {PROMPT, STEP} and top is None and not (csv or json):
        top = MOST_PROMPTS
    if by in {PROMPT, STEP} and state.is_training != (by == STEP):
        raise UsageFault(
            f"--by {by}: this is a {'training' if state.is_training else 'batch'} run",
            f"give --by {STEP if state.is_training else PROMPT}",
        )
    report = _report(state, directory, live=live, prompts=by in {PROMPT, STEP}, top=top)
    if json:
        output.as_json(report)
    elif csv:
        output.csv_table(*as_csv(report, by or ""))
    else:
        show(report, by)
    return 0 if all(check["ok"] for check in report["checks"]) else FAILED


def _refuse_contradictions(
    *, by: str | None, at: str | None, settle: list[str] | None, note: str | None, csv: bool, json: bool
) -> None:
    if by is not None and by not in GROUPS:
        raise UsageFault(f"--by {by}: expected one of {', '.join(GROUPS)}")
    if csv and json:
        raise UsageFault("--csv and --json contradict each other", "give one of them")
    if csv and by is None:
        raise UsageFault("--csv prints one table", f"say which: --by {', '.join(GROUPS)}")
    if settle and at is not None:
        raise UsageFault("--settle records what is known now, and --at shows the past", "give one of them")
    if note is not None and not settle:
        raise UsageFault("--note belongs to --settle CALL=USD, and there is none")


def _read(directory: Path, at: str | None) -> tuple[RunState, bool]:
    """The state at the moment that was asked for, and whether a process was at work on the run then."""
    held = lock_holder(log_of(directory)) is not None
    reader = LogReader.open(log_of(directory))
    try:
        sequence = reader.end.sequence if at is None else sequence_of(at, reader, "--at")
        state = fold_log(reader, sequence)
        return state, worked_on(reader, state, held=held)
    finally:
        reader.close()


def _report(
    state: RunState, directory: Path, *, live: bool, prompts: bool, top: int | None
) -> dict[str, Any]:
    name = state.batch.run or directory.resolve().name
    training = state.training if state.is_training else None
    return audit_report(state.ledger, state.batch, training, run=name, live=live, prompts=prompts, top=top)
