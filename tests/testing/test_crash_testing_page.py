"""docs/crash-testing.md and its examples: every code block runs, and prints what the page says it prints."""

import contextlib
import io
import os
import re
import subprocess
import sys

import pytest

from tests.house import ROOT

PAGE = ROOT / "docs" / "crash-testing.md"
EXAMPLES = {
    "crash_test_projection.py": "replace_file: … crash points, … images, all true\n"
    "the naive writer is caught. At a crash after operation …\n",
    "crash_test_agent.py": "careful: … crash points, … images, nothing done twice\n"
    "hasty: caught. At a crash after operation … done twice: ['book the flight']…\n",
}


def blocks(text):
    """Every block of code on a page, as (language, content)."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def reads_as(printed, page):
    """Whether what was printed is what the page says, where … stands for anything."""
    pattern = ".*".join(re.escape(part) for part in page.split("…"))
    return re.fullmatch(pattern, printed, flags=re.DOTALL) is not None


def test_every_block_of_the_page_runs_and_prints_what_follows_it(tmp_path, monkeypatch):
    """From top to bottom in one program, in an empty directory; text is what the block before it printed."""
    monkeypatch.chdir(tmp_path)
    names, printed, ran = {"__name__": "page"}, "", 0
    for language, content in blocks(PAGE.read_text("utf-8")):
        if language == "python":
            assert printed == "", "a block printed something that the page does not show"
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(content, f"block {ran} of {PAGE.name}", "exec"), names)
            printed, ran = output.getvalue(), ran + 1
        elif language == "text":
            assert reads_as(printed, content), f"printed: {printed}\nthe page: {content}"
            printed = ""
        else:
            assert language == "sh"
    assert printed == ""
    assert ran > 8


def test_the_page_shows_broken_versions_being_caught():
    """A sync left out, a naive view, an agent that acts first, a disk that lies: each is on the page."""
    text = PAGE.read_text("utf-8")
    assert text.count("except CrashTestFailed") == 4
    assert len([language for language, _ in blocks(text) if language == "text"]) >= 6


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_run_and_catch_what_is_broken(name):
    """As a person starts them; the good version passes and the broken one is caught."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert reads_as(done.stdout, EXAMPLES[name]), done.stdout


def test_a_page_that_says_something_else_is_noticed():
    """The comparison can fail."""
    assert reads_as("12 points\n", "… points\n")
    assert not reads_as("12 points\n", "… images\n")
    assert not reads_as("", "caught\n")
