r"""Documentation pages whose commands are run: what a page shows is what is printed.

A page (`docs/*.md`) opts in block by block, with an HTML comment on the line before a fence:

``<!-- runs -->``            a ```console block: each line that begins with ``$ `` is typed, the lines after
                             it are what it prints (stdout and stderr together). A command that ends in
                             ``\`` goes on in the next line. Exit code 0, unless it says ``   # exit 3``.
                             A ```sh block: every line is a command; what it prints is not looked at.
``<!-- file: NAME -->``      the block is the content of that file, written before what follows.
``<!-- does: COMMAND -->``   done without being shown; must end with 0.
``<!-- endpoint: {…} -->``   once: options of the page's endpoint (keywords of `running_endpoint`).
``<!-- rules: […] -->``      the endpoint's rules from here on.

All of a page runs in one shell in one empty directory (``examples`` leads to the checkout's), against an
endpoint of its own: OPENAI_BASE_URL is set, and ``evrun`` and ``python`` are those of the checkout.

In what is shown, ``…`` alone on a line stands for any lines, within a line for any text. Times (RFC 3339),
durations (``12 ms``, ``0.5 s``), digests of 40 or more hex digits, ``pid 123``, ``process 123`` and loopback
ports are compared as such, not by their values; so are runs of blanks.

`python -m tests.pages docs/PAGE.md` shows what a page's commands print and what is wrong with it; with
``--fill`` it writes what is printed below each command under which the page shows nothing.
"""

import contextlib
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests import warm
from tests.endpoint.client import running_endpoint

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 280
ANY = "…"

_PARTS = re.compile(
    r"^<!-- (?P<word>runs|file|does|endpoint|rules)(?:: (?P<more>.*?))? -->\n"
    r"(?:```(?P<kind>\w*)\n(?P<block>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_EXIT = re.compile(r"\s+# exit (\d+)$")
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), r"N \2"),
    (re.compile(r"\b[0-9a-f]{40,}\b"), "DIGEST"),
    (re.compile(r"\b(pid|process) \d+\b"), r"\1 PID"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"[ \t]+"), " "),
)


class PageFault(Exception):
    """A page cannot be read: a marker without its block, an unknown kind of block."""


class Command(NamedTuple):
    """One command of a page: what is typed, how it ends, what is shown of what it prints (null: anything)."""

    text: str
    code: int
    shown: list[str] | None


class File(NamedTuple):
    """A file that the page shows."""

    name: str
    content: str


class Rules(NamedTuple):
    """The endpoint answers by these from now on."""

    rules: str


Step = Command | File | Rules


class Ran(NamedTuple):
    """How a command of a page ended, and what it printed."""

    command: Command
    code: int
    printed: list[str]

    @property
    def wrong(self) -> str | None:
        """What differs from the page, in words; null where nothing does."""
        if self.code != self.command.code:
            exits = f"exit {self.code}, the page says {self.command.code}; it printed:"
            return "\n".join([f"$ {self.command.text}", exits, *self.printed])
        if self.command.shown is None or agrees(self.command.shown, self.printed):
            return None
        difference = difflib.unified_diff(
            self.command.shown, self.printed, "the page", "printed", lineterm=""
        )
        return "\n".join([f"$ {self.command.text}", *difference])


def steps_of(page: str) -> tuple[dict[str, Any], list[Step]]:
    """The options of a page's endpoint, and what is done, in order."""
    options: dict[str, Any] = {}
    steps: list[Step] = []
    for part in _PARTS.finditer(page):
        word, more, block = part["word"], part["more"] or "", part["block"]
        if word in {"runs", "file"} and block is None:
            raise PageFault(f"<!-- {word} --> stands before no block: {part[0]!r}")
        if word == "endpoint":
            options |= json.loads(more)
        elif word == "rules":
            steps.append(Rules(more))
        elif word == "does":
            steps.append(Command(more, 0, None))
        elif word == "file":
            steps.append(File(more, block))
        elif part["kind"] == "console":
            steps += _transcript(block)
        elif part["kind"] == "sh":
            steps += [Command(*_ending(line), None) for line in _whole_lines(block) if line.strip()]
        else:
            raise PageFault(
                f"a block of {part['kind'] or 'nothing'} cannot run: it is neither console nor sh"
            )
    return options, steps


def _transcript(block: str) -> Iterator[Command]:
    found: list[tuple[str, list[str]]] = []
    for line in _whole_lines(block):
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found:
            found[-1][1].append(line)
        else:
            raise PageFault(f"a console block begins with a command, not with {line!r}")
    for typed, shown in found:
        yield Command(*_ending(typed), shown)


def _whole_lines(block: str) -> list[str]:
    """The block's lines; a line that ends in a backslash and the next one are one."""
    return re.sub(r"\\\n\s*", "", block).splitlines()


def _ending(typed: str) -> tuple[str, int]:
    code = _EXIT.search(typed)
    return _EXIT.sub("", typed), int(code[1]) if code else 0


def agrees(shown: list[str], printed: list[str]) -> bool:
    """Whether a command printed what the page shows."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == ANY else ".*".join(map(re.escape, _common(line).split(ANY))) + r"\n"
        for line in _trimmed(shown)
    )
    return re.fullmatch(pattern, "".join(f"{_common(line)}\n" for line in _trimmed(printed))) is not None


def _common(line: str) -> str:
    for pattern, name in _VARIES:
        line = pattern.sub(name, line)
    return line.rstrip()


def _trimmed(lines: list[str]) -> list[str]:
    """Without blank lines at either end."""
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n") if any(lines) else []


def run_page(page: str, directory: Path) -> list[Ran]:
    """Do what a page says, all of it, in an empty directory."""
    options, steps = steps_of(page)
    place = directory / "page"
    place.mkdir()
    (place / "examples").symlink_to(ROOT / "examples")
    with running_endpoint(**options) as endpoint:
        script = directory / "script.sh"
        script.write_text(_script(steps, directory, endpoint.root_url), "utf-8")
        printed = _printed(script, place, _environment(directory, endpoint.base_url))
    return list(_results(steps, printed, _mark(directory)))


def _script(steps: list[Step], directory: Path, endpoint: str) -> str:
    """One script for the whole page; after each command it prints the mark and the exit code."""
    lines: list[str] = []
    for number, step in enumerate(steps):
        saved = directory / f"block-{number}"
        match step:
            case Command():
                lines += [step.text, f"printf '\\n%s %d\\n' {_mark(directory)} $?"]
            case File():
                saved.write_text(step.content, "utf-8")
                lines += [f"mkdir -p \"$(dirname '{step.name}')\"; cp '{saved}' '{step.name}'"]
            case Rules():
                saved.write_text(step.rules, "utf-8")
                lines += [f"python -m tests.pages --rules '{endpoint}' '{saved}'"]
    return "\n".join(lines) + "\n"


def _mark(directory: Path) -> str:
    return f"--- {directory.name} ---".replace(" ", "-")


def _environment(directory: Path, base_url: str) -> dict[str, str]:
    away = ("EVRUN_", "OPENAI_", "ANTHROPIC_", "BASH", "PYTHON")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(away) and not name.lower().endswith("_proxy")
    }
    programs = directory / "bin"
    programs.mkdir()
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = kept | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "HOME": str(directory),
        "HF_HOME": str(directory / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "OPENAI_BASE_URL": base_url,
    }
    warm.program(programs / "evrun", "cli.main:main", environment)
    return environment


def _printed(script: Path, place: Path, environment: dict[str, str]) -> str:
    """What the script prints; what it left running in the background is ended with it."""
    with tempfile.TemporaryFile() as output:
        shell = subprocess.Popen(
            ["bash", str(script)],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(DEADLINE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):  # nothing may be left
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        output.seek(0)
        return output.read().decode("utf-8", "replace")


def _results(steps: list[Step], printed: str, mark: str) -> Iterator[Ran]:
    rest = printed
    for command in (step for step in steps if isinstance(step, Command)):
        said, found, rest = rest.partition(f"\n{mark} ")
        code, _, rest = rest.partition("\n")
        if not found:
            raise PageFault(f"the shell ended before `{command.text}` did; it printed:\n{said}")
        yield Ran(command, int(code), said.splitlines())


def _set_rules(endpoint: str, file: str) -> None:
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(f"{endpoint}/_rules", data=Path(file).read_bytes(), timeout=30).close()


def fill(page: Path) -> None:
    """Write below each command of a page that shows nothing what it printed."""
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as directory:
        ran = run_page(text, Path(directory))
    printed = iter([one for one in ran if one.command.shown is not None])

    def filled(block: re.Match[str]) -> str:
        lines = [f"{block[1]}"]
        for part in re.split(r"(?m)^(?=\$ )", block[2]):
            one = next(printed) if part.startswith("$ ") else None
            lines.append(part)
            if one is not None and not one.command.shown:
                lines += [f"{line}\n" for line in _trimmed(one.printed)]
        return "".join([*lines, "```"])

    page.write_text(re.sub(r"(?ms)(^<!-- runs -->\n```console\n)(.*?)^```", filled, text), "utf-8")


def show(page: Path) -> int:
    """Print what the commands of a page print, and what is wrong with the page."""
    with tempfile.TemporaryDirectory() as directory:
        ran = run_page(page.read_text("utf-8"), Path(directory))
    for one in ran:
        sys.stdout.write("\n".join([f"$ {one.command.text}   # exit {one.code}", *one.printed, ""]))
    wrong = [one.wrong for one in ran if one.wrong]
    sys.stdout.write("\n\n".join(["", *(wrong or ["the page is right"]), ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "--rules":
        _set_rules(*sys.argv[2:])
    elif sys.argv[1] == "--fill":
        fill(Path(sys.argv[2]))
    else:
        sys.exit(show(Path(sys.argv[1])))
