"""The `evrun` command: a table of commands, each loaded only when it is used.

`evrun --help` shows the table below and imports nothing heavier than typer. A command lives in the module
`cli.<name>` as the function `<name>_command`; what it returns is the exit code.
"""

import gc
import importlib
import keyword
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from . import output
from .afterwards import Ending, afterwards
from .config import environment, environment_defaults
from .errors import explain
from .fire_flags import plain_switches, step_in_one_word
from .quick_values import take_plain_values

COMMANDS = {
    "run": "Run a dataset of prompts, or go on with an interrupted run.",
    "check": "Look at everything that a training run needs, before it begins.",
    "train": "Train an adapter step by step, or go on with an unfinished run.",
    "eval": "Evaluate an adapter of a training run on held-out tasks.",
    "diff": "Show what differs between two versions of an adapter.",
    "deploy": "Make a workspace for a coding agent of an adapter.",
    "fork": "Begin a training run with a step of another one.",
    "status": "Show how far a run is, also while it is going on.",
    "stop": "End the process that works on a run; everything is kept.",
    "list": "List the runs of a directory, each with how it stands.",
    "stats": "Show the whole run in numbers, and what they advise.",
    "show": "Show one prompt from beginning to end, to be read.",
    "audit": "Show what a run cost, settled and in doubt, and the checks.",
    "events": "List the events of a run's log, or follow them.",
    "export": "Write a run's rows as parquet, JSONL, CSV, or for training.",
    "project": "Run a fold of your own over a run's events.",
    "otel": "Send a run's spans to an OpenTelemetry collector.",
    "replay": "Make every view again from the log, or compare the views with it.",
    "verify": "Read the whole log and say whether it is what was made durable.",
    "compact": "Compress the log of a run that nobody works on.",
    "archive": "Keep a run's log in a directory or a bucket, or bring it back.",
    "import": "Make a run of what another program's run left, to go on with it.",
    "salvage": "Save what is left of a damaged log into a new directory.",
}
"""Each command with its line in `evrun --help`, in that order."""


def with_dashes(name: str) -> str:
    """One spelling for `--batch-size` and `--batch_size`; asked for names of options, not for values."""
    return name.replace("_", "-")


def load_command(name: str) -> TyperCommand:
    """Import `cli.<name>` (`cli.import_`) and make a command of its function `<name>_command`."""
    module = f"{name}_" if keyword.iskeyword(name) else name
    with _nothing_collected():
        function = getattr(importlib.import_module(f"cli.{module}"), f"{name}_command")
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    one.command(name=name)(function)
    command = typer.main.get_command(one)
    assert isinstance(command, TyperCommand)
    take_plain_values(command, function)
    command.context_settings["default_map"] = environment_defaults(command.params, environment())
    return command


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Modules are there to stay: looking for garbage among them takes a sixth of the time of loading them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class CommandTable(TyperGroup):
    """Lists its commands without knowing them; imports one when it is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that was typed, loaded, and what is left of the arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name == "run":
            rest = plain_switches(rest)
        if name == "fork":
            rest = step_in_one_word(rest)
        return name, load_command(name) if name in COMMANDS else command, rest


def _installed_version() -> str:
    from importlib import metadata  # noqa: PLC0415  (only --version needs it)

    try:
        return metadata.version("evrun")
    except metadata.PackageNotFoundError:
        return "of a checkout that is not installed"


def _version(value: bool) -> None:  # noqa: FBT001  (typer calls it with the flag)
    if value:
        output.line(f"evrun {_installed_version()}")
        raise typer.Exit


def _evrun(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Run prompts through a language model: nothing lost, nothing paid twice, every number audited."""


def make_app() -> typer.Typer:
    """The app, with every command in its table and none of them loaded."""
    app = typer.Typer(
        name="evrun",
        cls=CommandTable,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": with_dashes},
    )
    app.callback()(_evrun)
    for name, line in COMMANDS.items():
        app.command(name, help=line)(lambda: None)
    return app


def call(arguments: list[str]) -> int:
    """Do what was typed and give the exit code; an error that we know becomes a line and a hint on stderr."""
    command = typer.main.get_command(make_app())
    take_plain_values(command, _evrun)
    try:
        result = command.main(arguments, prog_name="evrun", standalone_mode=False)
        output.flush()
    except Exception as error:
        known = explain(error)
        if known is None:
            raise
        output.complain(known.message, known.hint)
        return known.exit_code
    finally:
        afterwards.close()
    return result if isinstance(result, int) else 0


def main() -> None:
    """The console script."""
    ending = Ending()
    ending.code = call(sys.argv[1:])
    gc.freeze()  # a process that ends looks through all that it holds, for nothing
    sys.exit(ending.code)


if __name__ == "__main__":
    main()
