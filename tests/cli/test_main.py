"""The table of commands: light, forgiving in spelling, and clear when it cannot help."""

import ast
import importlib
import keyword
import os
import pty
import subprocess
import sys
import types
from typing import Annotated

import pytest
import typer

from cli import main as shell
from tests.cli.shell import ENVIRONMENT, ROOT, evrun, evrun_process

HEAVY = (
    *(
        "aiohttp",
        "anyio",
        "asyncio",
        "genai_prices",
        "httpx",
        "msgspec",
        "psutil",
        "pydantic",
        "rich",
        "tenacity",
    ),
    *("xllamacpp", "xxhash", "zstandard", "projections", "eventlog.events", "eventlog.storage"),
    *("evrun.batch", "evrun.effects"),
)


def test_help_lists_every_command_and_imports_nothing_heavy(tmp_path):
    """`evrun --help` is for looking things up: no client, no model, no codec is loaded for it."""
    script = (
        "import sys; sys.argv = ['evrun', '--help']\n"
        "from cli.main import main\n"
        "try: main()\n"
        f"finally: print('HEAVY', [name for name in {list(HEAVY)!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    helped, _, heavy = done.stdout.partition("HEAVY ")
    assert ast.literal_eval(heavy) == []
    listed = helped.partition("Commands:\n")[2].split("\n")
    assert [line.split()[0] for line in listed if line] == list(shell.COMMANDS)
    assert all("..." not in line for line in listed), "a line that is cut says less than a short one"


@pytest.mark.parametrize("name", shell.COMMANDS)
def test_every_command_in_the_table_is_there_and_described(name, tmp_path):
    """`evrun <command> --help` works for each, and every option says what it is for."""
    said = evrun(name, "--help", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    command = shell.load_command(name)
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    assert [param.name for param in shown if not getattr(param, "help", "")] == []
    assert {"--json"} <= {spelling for param in command.params for spelling in param.opts}


def test_no_command_module_is_loaded_before_it_is_asked_for():
    """The table names its modules; loading one is what `get` does, and the name of its function is fixed."""
    for name in shell.COMMANDS:
        module = importlib.import_module(f"cli.{name}_" if keyword.iskeyword(name) else f"cli.{name}")
        assert callable(getattr(module, f"{name}_command"))


@pytest.mark.parametrize(
    ("arguments", "complaint", "hint"),
    [
        ([], "Missing command.", "evrun"),
        (["rum"], "No such command 'rum'. Did you mean 'run'?", "evrun"),
        (["--bad"], "No such option: --bad", "evrun"),
        (["verify"], "Missing argument 'RUN'.", "evrun verify"),
        (["verify", "a", "b"], "Got unexpected extra argument", "evrun verify"),
        (["verify", "a", "--anchr", "1"], "No such option: --anchr", "evrun verify"),
        (["verify", "a", "--anchor"], "Option '--anchor' requires an argument.", "evrun"),
    ],
)
def test_a_usage_error_is_one_clear_line_and_a_hint(arguments, complaint, hint, tmp_path):
    """Exit 2, nothing on stdout, no page of help in the way of what is wrong."""
    said = evrun(*arguments, cwd=tmp_path)
    told, hinted = said.err.splitlines()
    assert (said.code, said.out) == (2, "")
    assert told.startswith(f"evrun: {complaint}")
    assert hinted == f"  hint: `{hint} --help` shows what there is"


@pytest.fixture
def probe(monkeypatch):
    """A command of our own in the table, which keeps what it was called with."""
    called = {}

    def probe_command(
        run: Annotated[str, typer.Argument()],
        *,
        batch_size: Annotated[int, typer.Option()] = 0,
        run_name: Annotated[str, typer.Option()] = "",
        header: Annotated[list[str] | None, typer.Option()] = None,
        keep_all: Annotated[bool, typer.Option("--require-reasoning/--keep-all")] = True,
    ) -> int:
        called.update(run=run, batch_size=batch_size, run_name=run_name, header=header, keep_all=keep_all)
        return 3

    monkeypatch.setitem(shell.COMMANDS, "probe", "Only for this test.")
    monkeypatch.setitem(sys.modules, "cli.probe", types.SimpleNamespace(probe_command=probe_command))
    return called


@pytest.mark.parametrize(
    "words",
    [
        ["--batch-size", "7", "--run-name", "my_first-run", "--keep-all"],
        ["--batch_size", "7", "--run_name", "my_first-run", "--keep_all"],
        ["--batch_size=7", "--run_name=my_first-run", "--keep_all"],
        ["--batch-size=7", "--run_name", "my_first-run", "--keep-all"],
    ],
)
def test_options_may_be_spelled_with_dashes_or_underscores(probe, words):
    """A command line of the runner that people come from works as it is."""
    assert shell.call(["probe", "x", *words]) == 3
    assert probe == {
        "run": "x",
        "batch_size": 7,
        "run_name": "my_first-run",
        "header": None,
        "keep_all": False,
    }


def test_values_keep_their_underscores_and_dashes(probe):
    """Names of runs, headers and anything after `--` are values: they are given on exactly as typed."""
    words = [
        "probe",
        "--header",
        "X_Y-Z=a_b-c",
        "--header=--looks_like=an_option",
        "--run_name=--a_b",
        "--",
        "--my_run",
    ]
    assert shell.call(words) == 3
    assert probe["header"] == ["X_Y-Z=a_b-c", "--looks_like=an_option"]
    assert probe["run_name"] == "--a_b"
    assert probe["run"] == "--my_run"


def test_the_exit_code_is_what_the_command_returns(probe):
    """A command says how it ended by an int; help and version end with 0."""
    assert shell.call(["probe", "x"]) == 3
    assert shell.call(["--version"]) == 0
    assert shell.call(["probe", "--help"]) == 0


def test_an_error_that_nobody_foresaw_is_shown_whole(probe, monkeypatch):
    """A bug is not dressed up as a failure: its traceback is what one needs to report it."""
    broken = types.SimpleNamespace(probe_command=lambda: 1 // 0)
    monkeypatch.setitem(sys.modules, "cli.probe", broken)
    with pytest.raises(ZeroDivisionError):
        shell.call(["probe"])


def test_control_characters_in_a_message_are_shown_not_obeyed(tmp_path):
    """What a log or an argument holds cannot move the cursor or change the colours of a terminal."""
    said = evrun_process("verify", "x\x1b[2Jy", cwd=tmp_path)
    assert "\x1b" not in said.err
    assert "\\x1b[2Jy" in said.err


def test_help_on_a_terminal_needs_no_width_and_no_colour(tmp_path):
    """On a real terminal the same plain text is shown."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "--help"],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    text = b""
    try:
        while piece := os.read(leader, 65536):
            text += piece
    except OSError:
        pass  # how a terminal says that the other side is gone
    os.close(leader)
    assert child.wait(60) == 0
    assert text.startswith(b"Usage: evrun [OPTIONS] COMMAND [ARGS]...")
