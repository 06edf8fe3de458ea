"""The README says only what is true: its transcript is made again, and its commands are there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("$ ")]


def test_the_opening_transcript_is_what_its_script_prints(tmp_path: Path) -> None:
    """The script behind the transcript runs the same commands, finishes all 60, repeats at most 8."""
    transcript = README.split("```console\n")[1].split("```")[0]
    bin_directory = Path(sys.executable).parent.parent
    ran = subprocess.run(
        ["bash", str(ROOT / "examples/kill_and_resume.sh")],
        env={**os.environ, "EVRUN_VENV": str(bin_directory), "EVRUN_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert _commands(ran.stdout) == _commands(transcript)
    assert "done: 60 prompts: 60 kept" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "identical"
    served = int(re.search(r"wc -l < served.*\n(\d+)", ran.stdout)[1])
    assert 60 <= served <= 68


def test_every_command_is_in_the_readme() -> None:
    """A command that the README does not name would be found by nobody."""
    for name in COMMANDS:
        assert f"`evrun {name}" in README


def test_the_two_commands_are_there_and_executable() -> None:
    """`scripts/run` and `scripts/test` exist and can be run."""
    for name in ("scripts/run", "scripts/test"):
        assert f"$ {name}" in README
        assert os.access(ROOT / name, os.X_OK)
