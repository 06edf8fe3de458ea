"""Real programs that know nothing of evrun, ready to be run as `command:` agents on the loopback endpoint.

Each `Program` says how it is started (`command`, for a shell; the prompt comes on stdin; it works in the
current folder), which script of tests.endpoint makes its model do real work with its tools, how many calls
that is, which file it leaves there and what is in it, and what it prints at its end. They find the endpoint
by the variables of `evrun.agents.endpoint.environment_for`, and ask the very same when they start again.
"""

import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PROMPT = "Write hello into hello.txt, then look whether it is there."


class Program(NamedTuple):
    """One program, and what it does by its script."""

    command: str
    rules: list[dict[str, Any]]
    calls: int
    made: str
    holds: str
    said: str


def _script(*turns: list[dict[str, Any]], said: str | None = "hello.txt says hello.") -> list[dict[str, Any]]:
    rules = [
        {"match": {"turn": place}, "then": {"text": "I go on.", "tool_calls": calls}}
        for place, calls in enumerate(turns, 1)
    ]
    return [*rules, {"match": {"turn": len(turns) + 1}, "then": {"text": said}}]


def _call(tool: str, **arguments: str) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def _bash(command: str) -> list[dict[str, Any]]:
    return [_call("bash", command=command)]


def _shell(script: str, *words: str) -> str:
    return shlex.join(["sh", str(HERE / script), str(BIN), *words])


def openai_client(calls: int) -> Program:
    """A program of the official client's that makes so many calls, all but the last of them for its tool."""
    turns = [[_call("note", line=f"line {number}")] for number in range(1, calls)]
    lines = "".join(f"line {number}\n" for number in range(1, calls))
    command = shlex.join([sys.executable, str(HERE / "openai_client.py")])
    return Program(command, _script(*turns), calls, "notes.txt", lines, "hello.txt says hello.")


_READ = [_call("read_file", path="hello.txt")]
_LLM = _script([_call("write_file", path="hello.txt", text="hello\n")], _READ)
_CORECODER = _script(
    _bash("printf 'hello\\n' > hello.txt"),
    [_call("read_file", file_path="hello.txt"), _call("bash", command="wc -c hello.txt")],
)
_MINI = _script(
    _bash("printf 'hello\\n' > hello.txt"),
    _bash("cat hello.txt"),
    _bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat hello.txt"),
)

PROGRAMS = {
    "openai": openai_client(10),
    "llm": Program(_shell("llm.sh"), _LLM, 3, "hello.txt", "hello\n", "hello.txt says hello."),
    "llm-responses": Program(
        _shell("llm.sh", "test-model-responses"), _LLM, 3, "hello.txt", "hello\n", "hello.txt says hello."
    ),
    "corecoder": Program(
        _shell("corecoder.sh"), _CORECODER, 3, "hello.txt", "hello\n", "hello.txt says hello."
    ),
    "mini": Program(_shell("mini.sh"), _MINI, 3, "hello.txt", "hello\n", "hello"),
}
