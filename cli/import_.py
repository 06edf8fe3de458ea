"""`evrun import hermes DIR`: what another program's run left, made a run that evrun can go on with."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evrun.errors import UsageFault
from evrun.hermes import Import, Imported, Unread, import_hermes
from projections import result_report, state_name

from . import output
from .errors import INCOMPLETE
from .output import JsonFlag
from .runs import DATA

HERMES = "hermes"
UNREAD_SHOWN = 20
FILES_SHOWN = 5

Program = Annotated[str, typer.Argument(metavar="hermes", help="Whose run it is.")]
Source = Annotated[Path, typer.Argument(metavar="DIR", help="Its directory, for example data/my_first_run.")]
RunName = Annotated[str, typer.Option(help="The new run's name: letters, digits, '.', '_', '-'.")]
OutputDir = Annotated[Path, typer.Option(help="The new run lives in OUTPUT_DIR/RUN_NAME.")]
Dataset = Annotated[Path | None, typer.Option(help="What was run: its rows that are not done are planned.")]
BatchSize = Annotated[int, typer.Option(help="Prompts per batch_N.jsonl, of those that are not done.")]


def import_command(
    program: Program,
    source: Source,
    *,
    run_name: RunName,
    output_dir: OutputDir = DATA,
    dataset: Dataset = None,
    batch_size: BatchSize = 10,
    json: JsonFlag = False,
) -> int:
    """Make a run of a directory that the Hermes batch runner wrote; the directory is not changed.

    Trajectories come out as they were. With --dataset the rows that are not done are planned too, so that
    `evrun run --run-name NAME --resume` does them; without it, give the dataset to that command. Exits
    with 0 when all of DIR is in the run, with 3 when something could not be read (it is listed), with 2 when
    nothing could.
    """
    if program != HERMES:
        raise UsageFault(f"import {program}: expected hermes", hint="evrun import hermes DIR --run-name NAME")
    asked = Import(
        source=source, run_name=run_name, output_dir=output_dir, dataset=dataset, batch_size=batch_size
    )
    made = import_hermes(asked, output.note)
    code = INCOMPLETE if made.unread else 0
    report = report_of(asked, made, code)
    if json:
        output.as_json(report)
    else:
        show(asked, report)
    return code


def report_of(asked: Import, made: Imported, code: int) -> dict[str, Any]:
    """What `--json` prints: how the run stands, and what of the directory is not in it."""
    name, reason = state_name(made.state.batch, held=False)
    report = result_report(
        made.state, run=asked.run_name, dir=str(asked.directory), state_name=name, exit_code=code,
        reason=reason, chain=made.chain.hex(),
    )  # fmt: skip
    report["source"] = str(asked.source)
    report["files"] = made.files
    report["copies"] = made.copies
    report["not_taken"] = [{"file": file, "line": line, "what": what} for file, line, what in made.unread]
    report["notes"] = made.notes
    return report


def show(asked: Import, report: dict[str, Any]) -> None:
    """The same for people."""
    counts = report["counts"]
    taken = ", ".join(f"{counts[name]} {name}" for name in ("kept", "discarded", "failed"))
    files = report["files"]
    more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    listed = ", ".join(files[:FILES_SHOWN]) + more
    output.line(f"imported {report['source']} ({listed}) as {report['dir']}: {taken}")
    for note in report["notes"]:
        output.line(f"note: {note}")
    if report["copies"]:
        output.line(f"note: {report['copies']} lines that are there twice were taken once")
    for item in report["not_taken"][:UNREAD_SHOWN]:
        output.line(f"not taken: {Unread(**item).said}")
    if len(report["not_taken"]) > UNREAD_SHOWN:
        output.line(f"and {len(report['not_taken']) - UNREAD_SHOWN} more; --json lists all of them")
    if asked.dataset is None or counts["pending"]:
        output.line(f"{_left(counts)}go on with: {_how_to_go_on(asked)}")


def _left(counts: dict[str, int]) -> str:
    return f"{counts['pending']} left; " if counts["pending"] else ""


def _how_to_go_on(asked: Import) -> str:
    dataset = " DATASET" if asked.dataset is None else ""
    where = "" if asked.output_dir == DATA else f" --output-dir {asked.output_dir}"
    return f"evrun run{dataset} --run-name {asked.run_name}{where} --resume"
