import pytest

from evrun.tools.python import PYTHON
from tests.evrun.boxes import SECRET, use

(TOOL,) = PYTHON.tools


def test_code_runs_in_the_attempts_directory_in_a_fresh_interpreter(tmp_path):
    """Files stay from one call to the next, variables do not."""
    first = use(TOOL, tmp_path, code="x = 2\nopen('f', 'w').write(str(x))\nprint('größer', x)")
    assert first == {"output": "größer 2\n", "exit_code": 0, "error": None}
    assert use(TOOL, tmp_path, code="print(open('f').read())")["output"] == "2\n"
    assert "NameError" in use(TOOL, tmp_path, code="print(x)")["output"]
    (tmp_path / "mine.py").write_text("value = 7\n")
    assert use(TOOL, tmp_path, code="import mine; print(mine.value)")["output"] == "7\n"


def test_a_traceback_is_output_and_no_failure_of_the_tool(tmp_path):
    """The model reads it and the exit code."""
    result = use(TOOL, tmp_path, code="1 / 0")
    assert "ZeroDivisionError" in result["output"]
    assert (result["exit_code"], result["error"]) == (1, None)


def test_what_was_printed_before_the_deadline_is_there(tmp_path):
    """And the code and all that it had started are gone."""
    code = "import time\nprint('begun')\ntime.sleep(600)"
    result = use(TOOL, tmp_path, code=code, timeout_s=3)
    assert (result["output"], result["exit_code"]) == ("begun\n", None)
    assert "timed out after" in result["error"]


def test_the_environment_has_no_secret(tmp_path, monkeypatch):
    """The same short list as the terminal's, with a home inside."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    code = "import os\nprint(sorted(os.environ), os.environ['HOME'], os.environ['TMPDIR'])"
    output = use(TOOL, tmp_path, code=code)["output"]
    assert "KEY" not in output
    assert "PYTHON" not in output
    assert f"{tmp_path} {tmp_path}/.tmp" in output


@pytest.mark.parametrize(("code", "problem"), [("a\0b", "NUL|null"), ("#" * 3_000_000, "too long")])
def test_code_that_cannot_be_handed_over_is_an_error(tmp_path, code, problem):
    """In words for the model, with what to do."""
    result = use(TOOL, tmp_path, code=code)
    assert any(word in result["error"] for word in problem.split("|"))
