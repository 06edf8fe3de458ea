"""Where a run is: a run directory, or the name of one under the output directory."""

import difflib
import re
from pathlib import Path
from typing import Annotated

import typer

from eventlog.storage import LogReader
from evrun.errors import UsageFault
from projections import TRAINING, kind_of

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, or the name of a run in the output directory.")
]
# Not looked at before it is needed: a run may be given by its path where there is no such directory to read.
OutputDirectory = Annotated[
    Path, typer.Option("--output-dir", readable=False, help="Where runs are looked for by name.")
]
DATA = Path("data")

NAMES_SHOWN = 5


def find_run(run: str, output_directory: Path = DATA) -> Path:
    """The run's directory: `run` itself if that is one, else the run of that name in the output directory.

    Raises:
        UsageFault: neither is a run; the message says where was looked, the hint what is there.
    """
    places = [Path(run), output_directory / run]
    for place in places:
        if log_of(place).is_dir():
            return place
    _refuse_archive(run)
    looked = " and ".join(dict.fromkeys(as_typed(log_of(place)) for place in places))
    raise UsageFault(f"no run {run!r}: looked for {looked}", _what_is_there(run, output_directory))


def as_typed(path: Path) -> str:
    """A path for people; of `s3://…`, which is none, a path keeps one slash."""
    return re.sub(r"^(\w+):/(?!/)", r"\1://", str(path))


def log_of(directory: Path) -> Path:
    """The log of the run in this directory."""
    return directory / "log"


def prompts_only(directory: Path, command: str, instead: str) -> None:
    """Refuse a training run, for a command that is about prompts; `instead` says where to look.

    Raises:
        UsageFault: it is one.
    """
    with LogReader.open(log_of(directory)) as reader:
        if kind_of(reader) == TRAINING:
            raise UsageFault(
                f"evrun {command} is for runs of prompts, and {directory} is a training run", instead
            )


def run_names(output_directory: Path) -> list[str]:
    """The names of the runs in a directory, sorted; none if it cannot be read."""
    try:
        return sorted(entry.name for entry in output_directory.iterdir() if log_of(entry).is_dir())
    except OSError:
        return []


def _refuse_archive(run: str) -> None:
    """Say so, where somebody gives an archive to a command that needs the run itself, or half of one."""
    from evrun.archive import is_archive, is_begun, no_archive, shown  # noqa: PLC0415 - only for this message

    if is_archive(run):
        raise UsageFault(
            f"{shown(run)} is an archive, and this command is for the run itself",
            f"`evrun archive --restore {shown(run)} DIR` makes a run of it",
        )
    if is_begun(run):
        raise no_archive(run, begun=True)


def _what_is_there(run: str, output_directory: Path) -> str:
    names = run_names(output_directory)
    if not names:
        return f"there are no runs in {as_typed(output_directory)}; --output-dir says where they are"
    near = difflib.get_close_matches(Path(run).name, names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    shown = ", ".join(names[:NAMES_SHOWN])
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"the runs in {output_directory}: {shown}{more}"
