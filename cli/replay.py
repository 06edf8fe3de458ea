"""`evrun replay RUN`: every view again from the log, or a comparison of the views with it."""

from pathlib import Path
from typing import Annotated

import typer

from eventlog.errors import LogLocked
from eventlog.storage import LogReader, lock_holder, log_exists
from evrun.errors import UsageFault
from evrun.training import check_training_run, rebuild_training_run
from projections import TRAINING, FileCheck, check, kind_of, rebuild

from . import output
from .archives import find_readable, is_borrowed
from .errors import FAILED
from .output import JsonFlag
from .points import sequence_of
from .runs import DATA, OutputDirectory, RunArgument, log_of

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write the views there instead of into the run directory."),
]
Until = Annotated[
    str | None,
    typer.Option("--to", metavar="SEQUENCE|TIME", help="As the run was then; needs --out or --check."),
]
CheckFlag = Annotated[
    bool, typer.Option("--check", help="Write nothing; compare the files with what the log says.")
]


def replay_command(
    run: RunArgument,
    *,
    out: Out = None,
    to: Until = None,
    check_only: CheckFlag = False,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Make every view of a run again from its log: the same events give the same bytes.

    Of a training run the commits, branch and tags in its tree are made again too, with the same hashes.
    Needs no network and never changes the log. With `--check` exits with 0 when every file is what the log
    says, with 1 when one is missing, behind or different; after a crash files may be behind: no damage.
    """
    directory = find_readable(run, output_dir)
    if is_borrowed(directory) and out is None:
        raise UsageFault(f"{run} is an archive and has no views", "say with --out DIR where they are")
    target = directory if out is None else out
    if to is not None and out is None and not check_only:
        raise UsageFault("--to needs --out DIR or --check", "the run directory shows the run as it is now")
    if not check_only:
        refuse_if_not_ours(directory, target)
    reader = LogReader.open(log_of(directory))
    try:
        sequence = reader.end.sequence if to is None else sequence_of(to, reader, "--to")
        training, own = kind_of(reader) == TRAINING, target.resolve() == directory.resolve()
        if check_only and training:
            return report_check(check_training_run(reader, target, sequence, own=own), json=json)
        if check_only:
            return report_check(check(reader, target, sequence), json=json)
        if training:
            names = rebuild_training_run(reader, target, sequence, own=own)
        else:
            names = rebuild(reader, target, sequence)
    finally:
        reader.close()
    report_rebuilt(names, target, sequence, json=json)
    return 0


def refuse_if_not_ours(directory: Path, target: Path) -> None:
    """Never write into the directory of a run that is going on, nor over the views of another run.

    Raises:
        LogLocked: a process holds the run and keeps its views itself.
        UsageFault: the target is another run's directory.
    """
    if log_exists(target):
        raise UsageFault(f"--out {target} is a log", "give a directory of its own")
    if target.resolve() != directory.resolve():
        if log_of(target).is_dir():
            raise UsageFault(f"--out {target} is the directory of another run", "give a directory of its own")
        return
    holder = lock_holder(log_of(directory))
    if holder is not None:
        raise LogLocked(
            f"{directory} is in use by process {holder.get('pid', '?')}, which keeps its views itself",
            holder,
        )


def report_check(files: list[FileCheck], *, json: bool) -> int:
    """Print what the comparison found; the exit code."""
    identical = all(file.same for file in files)
    if json:
        shapes = [{"path": file.path, "same": file.same, "why": file.why} for file in files]
        output.as_json({"identical": identical, "files": shapes})
    else:
        output.table(["file", "is"], [(file.path, "the same" if file.same else file.why) for file in files])
        output.line(
            "identical" if identical else "NOT identical: `evrun replay` makes the files again from the log"
        )
    return 0 if identical else FAILED


def report_rebuilt(names: list[str], target: Path, sequence: int, *, json: bool) -> None:
    """Print what was written."""
    if json:
        output.as_json({"dir": str(target), "sequence": sequence, "files": names})
        return
    output.line(f"{len(names)} files in {target}, made from {sequence} events:")
    for name in names:
        output.line(f"  {name}")
