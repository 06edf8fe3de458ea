"""Plain values of options are taken without pydantic, and are what typer would have made of them."""

import ast
import subprocess
import sys

import pytest
import typer

from cli import main as shell
from cli.quick_values import plain_value
from tests.cli.shell import ENVIRONMENT

COMMAND_LINES = {
    "nothing": ["--run-name", "r"],
    "all kinds": [
        *("d.jsonl", "--run-name", "r", "--output-dir", "a b/c", "--batch-size", "007", "--seed", "-3"),
        *("--temperature", "0.25", "--top-p", "1", "--keep-all", "--stream", "--tools", "x.py:F"),
        *("--tools", "y.py:G", "--price", "m=1,2", "--quiet"),
    ],
    "odd but right": ["", "--run-name", "", "--batch-size", " 12 ", "--top-p", "1e-3", "--seed", "1_000"],
    "larger than 18 digits": ["d", "--run-name", "r", "--seed", "1234567890123456789012"],
}
WRONG = {
    "no number": ("batch_size", "ten"),
    "half a number": ("batch_size", "1.5"),
    "no fraction": ("temperature", "warm"),
}


def parsed(arguments, *, by_typer):
    """What the parameters of `evrun run` are after this was typed."""
    command = shell.load_command("run")
    if by_typer:
        for parameter in command.params:
            vars(parameter).pop("process_value", None)
    context = command.make_context("run", list(arguments))
    return {name: (type(value), value) for name, value in context.params.items()}


@pytest.mark.parametrize("arguments", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_every_value_is_what_typer_makes_of_it(arguments):
    """Of the same type too: also where nothing was typed, and where typer had to be asked."""
    assert parsed(arguments, by_typer=False) == parsed(arguments, by_typer=True)


@pytest.mark.parametrize(("name", "value"), WRONG.values(), ids=WRONG)
def test_what_is_no_such_value_is_refused_in_the_same_words(name, value):
    """By the same error of the same option."""
    said = []
    for by_typer in (False, True):
        with pytest.raises(typer.BadParameter) as caught:
            parsed([f"--{name.replace('_', '-')}", value], by_typer=by_typer)
        assert caught.value.param.name == name
        said.append((type(caught.value), caught.value.format_message()))
    assert said[0] == said[1]


def test_a_bound_of_an_option_holds():
    """`evrun events --from 0` is below the smallest that there is."""
    with pytest.raises(typer.BadParameter) as caught:
        shell.load_command("events").make_context("events", ["data/r", "--from", "0"])
    assert "from" in caught.value.format_message()


@pytest.mark.parametrize("value", ["1e3", "٣", "0x10", "nan", "1.", ".5", "+1", "1\n"])
def test_what_is_not_plain_to_see_is_left_to_typer(value):
    """Other spellings of numbers are typer's to judge."""
    assert not isinstance(plain_value(int, value), int)
    assert not isinstance(plain_value(float, value), float)


def test_a_plain_command_line_loads_neither_pydantic_nor_a_table_of_prices(tmp_path):
    """`evrun run` of a run that is not there gets as far as its options, and says so."""
    script = (
        "import sys; sys.argv = ['evrun', 'run', 'd.jsonl', '--run-name', 'r', '--concurrency', '8',"
        " '--temperature', '0.5', '--base-url', 'http://127.0.0.1:9/v1', '--model', 'm']\n"
        "from cli.main import main\n"
        "try: main()\n"
        "finally: print([n for n in ('pydantic', 'genai_prices', 'rich') if n in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "d.jsonl" in done.stderr
    assert ast.literal_eval(done.stdout) == []
