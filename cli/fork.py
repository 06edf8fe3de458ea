"""`evrun fork`: a new training run from a step of another."""

from typing import Annotated

import typer

from evrun.errors import UsageFault
from evrun.training import fork_run

from . import output
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run


def fork_command(
    run: RunArgument,
    *,
    at: Annotated[str, typer.Option("--at", metavar="STEP", help="The step to begin at: a number.")],
    run_name: Annotated[str, typer.Option("--run-name", help="The new run's name.")],
    adapter_only: Annotated[
        bool, typer.Option("--adapter-only", help="Without what the learner kept in its state.")
    ] = False,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Begin a new training run with the adapter, and the learner's state, of a step of another run.

    The new run lies beside the other one and has its configuration, but for the name; it is begun, not run:
    `evrun train` with the configuration and trainer.run_name=NAME goes on with it.
    """
    directory = find_run(run, output_dir)
    made = fork_run(directory, _step(at), run_name, adapter_only=adapter_only, note=output.note)
    report = {"run": run_name, "dir": str(made.directory), "from": str(directory), "step": made.step}
    if json:
        output.as_json({**report, "commit": made.commit})
    else:
        output.line(f"{made.directory} begins with step {made.step} of {directory} ({made.commit[:12]})")
        output.line(f"go on with: evrun train --config RUN.YAML trainer.run_name={run_name}")
    return 0


def _step(text: str) -> int:
    number = text.removeprefix("step").strip(" -=:")
    if not number.isdecimal():
        raise UsageFault(f"--at {text}: expected a step's number", "for example --at 3")
    return int(number)
