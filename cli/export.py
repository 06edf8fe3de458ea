"""`evrun export RUN`: the rows of a run in the files of other tools."""

from pathlib import Path
from typing import Annotated

import typer

from eventlog.storage import LogReader
from evrun.export import FORMATS, Export, Exported, export_run

from . import output
from .archives import find_readable
from .output import JsonFlag
from .points import sequence_of
from .runs import DATA, OutputDirectory, RunArgument, log_of, prompts_only

Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="|".join(FORMATS),
        help="parquet, JSON lines, CSV, OpenAI's fine-tuning lines, or a directory for "
        "datasets.load_from_disk.",
    ),
]
Out = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="PATH", readable=False, help="The file or directory to make."),
]
Outcomes = Annotated[
    str, typer.Option(metavar="LIST", help="Rows of these outcomes: some of kept,discarded,failed.")
]
BestFlag = Annotated[
    bool, typer.Option("--best", help="Of several samples of a prompt only the one with the best score.")
]
ReasoningField = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="openai: keep what the model thought, under this name.  [it is left out]"
    ),
]
Until = Annotated[
    str | None, typer.Option("--to", metavar="SEQUENCE|TIME", help="As the run was then.  [now]")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what an earlier export has made.")]


def export_command(
    run: RunArgument,
    *,
    output_format: Format,
    out: Out,
    outcomes: Outcomes = "kept",
    best: BestFlag = False,
    reasoning_field: ReasoningField = None,
    to: Until = None,
    force: Force = False,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Write the rows of a run, those of trajectories.jsonl in their order, for other tools to read.

    One fixed schema for every run. Works from the log while the run goes on and after a crash, touches
    nothing of the run, and holds little in memory. PATH is made whole or not at all.
    """
    directory = find_readable(run, output_dir)
    prompts_only(
        directory, "export", "its rollouts are JSON files in learning_material/, its steps are steps.jsonl"
    )
    asked = Export(
        run=directory,
        path=out,
        format=output_format,
        outcomes=tuple(dict.fromkeys(name.strip() for name in outcomes.split(","))),
        best=best,
        reasoning_field=reasoning_field,
        to_sequence=None if to is None else _sequence(directory, to),
        force=force,
    )
    done = export_run(asked)
    if json:
        output.as_json(_shape(asked, done))
    else:
        output.line(f"{_counted(done)} in {out}, as the run was at event {done.sequence}")
    for note in _notes(done):
        output.note(note)
    return 0


def _sequence(directory: Path, text: str) -> int:
    with LogReader.open(log_of(directory)) as reader:
        return sequence_of(text, reader, "--to")


def _counted(done: Exported) -> str:
    parts = ", ".join(f"{count} {outcome}" for outcome, count in done.outcomes.items())
    return f"{done.rows} rows ({parts})"


def _notes(done: Exported) -> list[str]:
    notes = []
    if done.unscored:
        notes.append(f"left out: {done.unscored} prompts without a score")
    if done.unfinished:
        notes.append(f"left out: {done.unfinished} rows whose conversation does not end with an answer")
    if done.misfits:
        found = ", ".join(f"{count} in {name}" for name, count in done.misfits.items())
        notes.append(f"values of another program's rows that do not fit their columns: {found}")
    return notes


def _shape(asked: Export, done: Exported) -> dict[str, object]:
    return {
        "run": done.run,
        "path": str(asked.path),
        "format": asked.format,
        "rows": done.rows,
        "outcomes": done.outcomes,
        "sequence": done.sequence,
        "chain": done.chain.hex(),
        "unscored": done.unscored,
        "unfinished": done.unfinished,
        "misfits": done.misfits,
    }
