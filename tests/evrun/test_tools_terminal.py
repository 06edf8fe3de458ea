import json
import os
import shutil

import anyio
import pytest

from evrun.effects.secrets import Redactor
from evrun.tools import ToolContext, run_tool
from projections import tool_succeeded
from tests.evrun.boxes import find_tool

SECRET = "sk-0123456789abcdef"


def terminal(directory, command, left_s=60.0, **arguments):
    """Run the tool and give back its result, read."""
    context = ToolContext(directory, "test/unit-a1", left_s, Redactor({"OPENAI_API_KEY": SECRET}))
    tool = find_tool("terminal")
    content = anyio.run(lambda: run_tool(tool, {"command": command, **arguments}, context))
    return json.loads(content)


def test_result_is_output_exit_code_and_no_error(tmp_path):
    """A code other than 0 is a result like any other: the tool worked."""
    result = terminal(tmp_path, "echo hello; echo oops >&2; exit 3")
    assert result == {"output": "hello\noops\n", "exit_code": 3, "error": None}
    assert tool_succeeded(json.dumps(result))


def test_commands_share_the_directory_and_nothing_else(tmp_path):
    """Files stay from call to call; variables do not."""
    terminal(tmp_path, "X=1; printf 'a\\nb\\n' > f; mkdir -p sub && cd sub")
    assert terminal(tmp_path, "wc -l < f; echo [$X]; pwd")["output"].split() == ["2", "[]", str(tmp_path)]


@pytest.mark.parametrize(("own", "of_attempt"), [(1, 60), (60, 1)])
def test_command_at_its_deadline_is_an_error_with_what_it_had_said(tmp_path, own, of_attempt):
    """The shorter of the call's and the attempt's time counts."""
    result = terminal(tmp_path, "echo begun; sleep 600", of_attempt, timeout_s=own)
    assert result["output"] == "begun\n"
    assert result["exit_code"] is None
    assert result["error"].startswith("timed out after 1 s")
    assert not tool_succeeded(json.dumps(result))


def test_environment_has_no_secret_and_a_home_inside(tmp_path, monkeypatch):
    """Not the key, nor anything else that is not on the list."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("SOMETHING_ELSE", "else")
    output = terminal(tmp_path, "env; echo ~; mktemp")["output"]
    assert SECRET not in output
    assert "redacted" not in output
    assert "else" not in output
    assert output.splitlines()[-2] == str(tmp_path)
    assert output.splitlines()[-1].startswith(f"{tmp_path}/.tmp/")


def test_key_that_a_command_prints_is_replaced(tmp_path):
    """Wherever it got it from."""
    assert terminal(tmp_path, f"echo key={SECRET}")["output"] == "key=[redacted:OPENAI_API_KEY]\n"


@pytest.mark.parametrize("shift", range(0, 40, 3))
def test_key_at_the_cut_of_a_long_output_is_not_left_in_half(tmp_path, shift):
    """The kept head ends, and the kept tail begins, in the middle of the key: no piece of it is shown."""
    size = 16_384 - 20 + shift
    command = (
        f"head -c {size} /dev/zero | tr '\\0' .; echo -n {SECRET}; head -c 99999 /dev/zero | tr '\\0' .; "
    )
    result = terminal(tmp_path, f"{command} echo -n {SECRET}; head -c {size} /dev/zero | tr '\\0' .")
    assert "bytes left out …]" in result["output"]
    assert "sk-" not in result["output"]
    assert "cdef" not in result["output"]


def test_long_output_is_cut_in_the_middle_and_says_so(tmp_path):
    """Both ends are there, and how much is not."""
    output = terminal(tmp_path, "echo first; head -c 1000000 /dev/zero | tr '\\0' .; echo last")["output"]
    assert output.startswith("first\n..")
    assert output.endswith("..last\n")
    shown = len(output) - len(output.partition("[…")[2].partition("…]")[0]) - len("\n[……]\n")
    left_out = int(output.partition("[… ")[2].split()[0])
    assert shown + left_out == 1_000_011
    assert len(output) < 40_000


def test_output_that_is_no_text_is_still_a_result(tmp_path):
    """Bytes that are not UTF-8 become replacement characters."""
    assert terminal(tmp_path, "printf 'a\\377b'")["output"] == "a\ufffdb"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("echo \ud800", "could not be started"),
        ("echo \0", "could not be started"),
        ("x" * 3_000_000, "too long"),
    ],
)
def test_command_that_cannot_be_started_is_an_error_for_the_model(tmp_path, command, problem):
    """What the system refuses is no crash of the run."""
    result = terminal(tmp_path, command)
    assert problem in result["error"]
    assert (result["output"], result["exit_code"]) == ("", None)


def test_directory_that_a_command_has_removed_is_an_error_for_the_model(tmp_path):
    """The next call says so, in words."""
    place = tmp_path / "attempt"
    place.mkdir()
    terminal(place, f"rm -r {place}")
    assert "No such file or directory" in terminal(place, "true")["error"]


def test_program_that_asks_for_input_ends_at_once(tmp_path):
    """There is nothing on stdin, so nobody waits for it."""
    assert terminal(tmp_path, "read x; echo got $?")["output"] == "got 1\n"


def test_start_up_files_of_the_user_are_not_read(tmp_path):
    """What is in ~/.bashrc of the attempt's own home, or in BASH_ENV, has no say."""
    assert shutil.which("bash") is None or not os.environ.get("BASH_ENV")
    (tmp_path / ".bashrc").write_text("echo from bashrc\n")
    (tmp_path / ".profile").write_text("echo from profile\n")
    assert terminal(tmp_path, "echo x")["output"] == "x\n"
