"""`evrun diff RUN A B`: what is different between two versions of a training run's adapter."""

import sys
from typing import Annotated, Any

import typer

from evrun.training import compare_versions

from . import output
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run

_WHICH = (
    "a step (3), a tag (ckpt-step-3), a commit, or root (the template), start (where the run began), "
    "head (now), final."
)
Before = Annotated[str, typer.Argument(metavar="A", help=f"A version: {_WHICH}")]
After = Annotated[str, typer.Argument(metavar="B", help="Another one.")]


def diff_command(
    run: RunArgument,
    before: Before,
    after: After = "head",
    *,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Show which files differ between two versions of a training run's adapter, as a patch.

    Reads the log alone: no tree is needed, and nothing is changed. What is printed, `git apply` takes.
    """
    found = compare_versions(find_run(run, output_dir), before, after)
    if json:
        output.as_json(found)
    else:
        _show(found)
    return 0


def _show(found: dict[str, Any]) -> None:
    files = found["files"]
    differ = "1 file differs" if len(files) == 1 else f"{len(files) or 'no'} files differ"
    output.note(f"{_named(found['a'])} → {_named(found['b'])}: {differ}")
    patches = [one["diff"] or f"Binary file {one['path']} {one['change']}\n" for one in files]
    if sys.stdout.isatty():
        for line in "".join(patches).splitlines():
            output.line(output.printable(line))
    else:
        output.pieces(patch.encode("utf-8", "surrogateescape") for patch in patches)


def _named(version: dict[str, Any]) -> str:
    step = "" if version["step"] is None else f"step {version['step']}, "
    return f"{version['name']} ({step}{version['commit'][:12]})"
