"""Real programs work through the recording endpoint, and ask the very same when they are run again."""

import asyncio
import os

import pytest

from evrun.agents.endpoint import environment_for
from tests.evrun.recording import MODEL, Answers, run

from . import PROGRAMS, PROMPT, openai_client

INHERITED = ("PATH", "LANG", "HOME", "TMPDIR")


def run_program(program, folder, rules=None):
    """Run one in this folder: its exit code, what it printed, what it asked, what the endpoint noted."""
    folder.mkdir(exist_ok=True)

    async def body(open_endpoint):
        told = environment_for(open_endpoint.endpoint, open_endpoint.token, MODEL)
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        process = await asyncio.create_subprocess_shell(
            program.command,
            cwd=folder,
            env={**inherited, **told},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate(PROMPT.encode())
        asked = [one.body for one in open_endpoint.answers.asked]
        return process.returncode, printed.decode(), asked, open_endpoint.notes

    return run(body, Answers(program.rules if rules is None else rules))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_real_program_does_its_work_with_its_tools(tmp_path, name):
    """What its model says is done, and it asks the same again when it is run again in the same place.

    By that its answers are found again after a kill.
    """
    program = PROGRAMS[name]
    code, printed, asked, notes = run_program(program, tmp_path)
    assert code == 0, printed
    assert program.said in printed
    assert (tmp_path / program.made).read_text() == program.holds
    assert len(asked) == program.calls
    assert notes == []
    assert run_program(program, tmp_path)[2] == asked


def test_a_refusal_ends_a_program_with_its_own_words(tmp_path):
    """What a cap says is what its user reads."""
    error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
    rules = [{"match": {"turn": 2}, "then": {"status": 400, "error": error}}, *openai_client(3).rules]
    code, printed, asked, _ = run_program(openai_client(3), tmp_path, rules)
    assert code != 0
    assert "You exceeded your current quota" in printed
    assert len(asked) == 2
