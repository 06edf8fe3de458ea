"""`evrun import hermes|hermit DIR`: what another program's run left, made a run that evrun can go on with."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evrun.errors import UsageFault
from evrun.hermes import Import, Imported, Unread, import_hermes
from evrun.hermit import HermitImport, HermitImported, import_hermit
from projections import TrainingState, result_report, state_name

from . import output
from .config import environment
from .errors import INCOMPLETE
from .output import JsonFlag
from .runs import DATA

HERMES, HERMIT = "hermes", "hermit"
UNREAD_SHOWN = 20
FILES_SHOWN = 5

Program = Annotated[
    str, typer.Argument(metavar="hermes|hermit", help="Whose run it is: a batch run, or a training run.")
]
Source = Annotated[Path, typer.Argument(metavar="DIR", help="Its directory, for example data/my_first_run.")]
RunName = Annotated[
    str | None,
    typer.Option(help="The new run's name: letters, digits, '.', '_', '-'. Hermit's own is taken else."),
]
OutputDir = Annotated[Path, typer.Option(help="The new run lives in OUTPUT_DIR/RUN_NAME.")]
Dataset = Annotated[
    Path | None, typer.Option(help="Hermes: what was run; its rows that are not done are planned.")
]
BatchSize = Annotated[
    int | None, typer.Option(help="Hermes: prompts per batch_N.jsonl, of those that are not done (10).")
]
Config = Annotated[
    Path | None, typer.Option(help="Hermit: its run.yaml, if its relative paths cannot be found otherwise.")
]
TreeDir = Annotated[
    Path | None, typer.Option("--tree", help="Hermit: the git repository of the run, if it was moved.")
]


def import_command(
    program: Program,
    source: Source,
    *,
    run_name: RunName = None,
    output_dir: OutputDir = DATA,
    dataset: Dataset = None,
    batch_size: BatchSize = None,
    config: Config = None,
    tree: TreeDir = None,
    json: JsonFlag = False,
) -> int:
    """Make a run of a directory that Hermes or Hermit wrote; the directory is not changed.

    hermes: a batch run. Trajectories come out as they were. With --dataset the rows that are not done are
    planned too, so that `evrun run --run-name NAME --resume` does them; without it, give the dataset to that
    command.

    hermit: a training run. Steps, scores, money and evaluations are taken along, commits keep their hashes.
    An unfinished run goes on with `evrun train` after its last whole step.

    Exits with 0 when all of DIR is in the run, with 3 when something could not be read (it is listed), with 2
    when nothing could.
    """
    if program not in {HERMES, HERMIT}:
        raise UsageFault(
            f"import {program}: expected {HERMES} or {HERMIT}", hint="evrun import hermes DIR --run-name NAME"
        )
    _check_options(program, {"--dataset": dataset, "--batch-size": batch_size}, of=HERMES)
    _check_options(program, {"--config": config, "--tree": tree}, of=HERMIT)
    if program == HERMIT:
        return _import_hermit(HermitImport(
            source=source, run_name=run_name, output_dir=output_dir, config=config, tree=tree
        ), json=json)  # fmt: skip
    if run_name is None:
        raise UsageFault(
            "no --run-name: a run needs a name", hint=f"evrun import hermes {source} --run-name NAME"
        )
    return _import_hermes(Import(
        source=source, run_name=run_name, output_dir=output_dir, dataset=dataset,
        batch_size=10 if batch_size is None else batch_size,
    ), json=json)  # fmt: skip


def _check_options(program: str, given: dict[str, object], of: str) -> None:
    for option, value in given.items():
        if value is not None and program != of:
            raise UsageFault(f"{option} is for `evrun import {of}`, not for {program}")


def _import_hermes(asked: Import, *, json: bool) -> int:
    made = import_hermes(asked, output.note)
    code = INCOMPLETE if made.unread else 0
    report = report_of(asked, made, code)
    if json:
        output.as_json(report)
    else:
        show(asked, report)
    return code


def _import_hermit(asked: HermitImport, *, json: bool) -> int:
    made = import_hermit(asked, environment(), output.note)
    code = INCOMPLETE if made.unread else 0
    report = hermit_report(asked, made, code)
    if json:
        output.as_json(report)
    else:
        show_hermit(report, made.state.training)
    return code


def hermit_report(asked: HermitImport, made: HermitImported, code: int) -> dict[str, Any]:
    """What `--json` prints of a training run: how it stands, and what of the directory is not in it."""
    name, _ = state_name(made.state.batch, held=False)
    report = result_report(
        made.state, run=made.directory.name, dir=str(made.directory), state_name=name, exit_code=code,
        reason=made.reason, chain=made.chain.hex(),
    )  # fmt: skip
    report["source"] = str(asked.source)
    report["config"] = str(made.config)
    report["not_taken"] = [unread._asdict() for unread in made.unread]
    report["notes"] = made.notes
    return report


def show_hermit(report: dict[str, Any], training: TrainingState) -> None:
    """The same for people."""
    last = training.steps[-1].step if training.steps else 0
    rollouts = training.rollouts_ok + training.rollouts_error
    found = f"{last} steps, {rollouts} rollouts, {len(training.evaluations)} evaluations"
    output.line(f"imported {report['source']} as {report['dir']}: {found}, {report['settled_usd']} USD")
    for note in report["notes"]:
        output.line(f"note: {note}")
    for item in report["not_taken"][:UNREAD_SHOWN]:
        output.line(f"not taken: {Unread(**item).said}")
    if len(report["not_taken"]) > UNREAD_SHOWN:
        output.line(f"and {len(report['not_taken']) - UNREAD_SHOWN} more; --json lists all of them")
    if report["reason"] is not None:
        output.line(f"go on with: evrun train --config {report['config']}")


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
