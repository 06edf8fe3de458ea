"""`evrun project RUN FILE.py:FOLD`: a fold of the user's own over a run's events."""

from pathlib import Path
from typing import Annotated, Any

import typer

from eventlog.storage import LogReader
from evrun.errors import UsageFault
from evrun.export import Target
from evrun.own import Projection, as_pieces, as_value, digest_of

from . import output
from .archives import find_readable
from .errors import FAILED
from .output import JsonFlag
from .points import sequence_of
from .runs import DATA, OutputDirectory, RunArgument, log_of

FoldArgument = Annotated[
    str, typer.Argument(metavar="FILE.py:FOLD", help="The class, for example spend.py:SpendPerHour.")
]
Until = Annotated[
    str | None, typer.Option("--to", metavar="SEQUENCE|TIME", help="Fold the events up to then.  [all]")
]
Out = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", readable=False, help="Write it there, print nothing."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file that is at PATH.")]
CheckFlag = Annotated[
    bool, typer.Option("--check", help="Fold twice and compare; exits with 1 if the two differ.")
]


def project_command(
    run: RunArgument,
    fold: FoldArgument,
    *,
    to: Until = None,
    out: Out = None,
    force: Force = False,
    check: CheckFlag = False,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Run a fold of your own over a run's events, and print what it shows.

    FOLD is a class with initial(self), apply(self, state, record) and render(self, state). Works while the
    run goes on and after a crash, and touches nothing of the run.
    """
    if check and out is not None:
        raise UsageFault("--check compares and writes nothing", "leave -o away")
    target = None if out is None else Target(out, force=force)
    if target is not None:
        target.check_file()
    directory = find_readable(run, output_dir)
    projection = Projection(fold)
    with LogReader.open(log_of(directory)) as reader:
        sequence = reader.end.sequence if to is None else sequence_of(to, reader, "--to")
        shape: dict[str, Any] = {"run": directory.resolve().name, "fold": fold, "sequence": sequence}
        shown = projection.shown(reader, sequence)
        if check:
            again = projection.shown(reader, sequence)
            return _compared(shape, same=digest_of(shown) == digest_of(again), json=json)
        if target is not None:
            target.write_file(as_pieces(shown))
            _tell(shape | {"path": str(out)}, f"{out}: {fold}, of {sequence} events", json=json)
        elif json:
            output.as_json(shape | {"shown": as_value(shown)})
        else:
            output.pieces(as_pieces(shown))
    return 0


def _compared(shape: dict[str, Any], *, same: bool, json: bool) -> int:
    said = "the same, twice" if same else "NOT the same: the fold depends on more than the events"
    _tell(shape | {"same": same}, said, json=json)
    return 0 if same else FAILED


def _tell(shape: dict[str, Any], said: str, *, json: bool) -> None:
    if json:
        output.as_json(shape)
    else:
        output.line(said)
