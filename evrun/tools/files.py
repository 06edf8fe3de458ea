"""The file tools: read, write, patch, list and search inside the attempt's directory, and nowhere else."""

import io
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import msgspec

from ..effects.processes import run_command
from ..effects.secrets import TEMPORARY_DIRECTORY, child_environment
from . import search_child
from .base import Run, Tool, ToolContext, Toolset, parameters
from .confined import open_directory, open_file, parts_inside, read_whole, write_all

MOST_LINES = 2000
MOST_CHARACTERS = 50_000
MOST_ENTRIES = 500
SEARCH_TIMEOUT_S = 20.0


def read_file(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Lines of a text file: `{"content", "first_line", "total_lines", "truncated", "error"}`.

    `offset` is the number of the first line wanted, from 1; `limit` how many.
    """
    path: str = arguments["path"]
    with open_file(context.workdir, path, os.O_RDONLY) as file:
        data = read_whole(file, path)
    if b"\0" in data:
        return _error(f"{path} is not a text file")
    # Lines end at \n alone, as the search and every editor count them; `splitlines` would see more ends.
    lines = list(io.StringIO(data.decode("utf-8", "replace"), newline="\n"))
    first = arguments.get("offset", 1)
    wanted = lines[first - 1 : first - 1 + min(arguments.get("limit", MOST_LINES), MOST_LINES)]
    # Cleaned before it is cut: half a secret would be found by nobody.
    content = context.redactor.clean_text("".join(wanted))
    return {
        "content": content[:MOST_CHARACTERS],
        "first_line": first,
        "total_lines": len(lines),
        "truncated": first - 1 + len(wanted) < len(lines) or len(content) > MOST_CHARACTERS,
        "error": None,
    }


def write_file(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Write a whole file, with the directories on the way: `{"bytes_written", "error"}`."""
    data = arguments["content"].encode()
    with open_file(context.workdir, arguments["path"], os.O_RDWR, create=True) as file:
        write_all(file, data)
    return {"bytes_written": len(data), "error": None}


def patch(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Replace the one place where `old` stands by `new`: `{"replaced", "error"}`."""
    path: str = arguments["path"]
    old, new = arguments["old"].encode(), arguments["new"].encode()
    if not old:
        return _error("old is empty; give the text that is to be replaced")
    with open_file(context.workdir, path, os.O_RDWR) as file:
        data = read_whole(file, path)
        count = data.count(old)
        if count != 1:
            return _error(f"old stands in {path} {count} times; it must be there exactly once")
        file.seek(0)
        write_all(file, data.replace(old, new))
    return {"replaced": 1, "error": None}


def list_files(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """The entries of a directory, sorted, directories with a slash: `{"entries", "truncated", "error"}`."""
    steps = parts_inside(context.workdir, arguments.get("path", "."))
    with open_directory(context.workdir, steps) as descriptor, os.scandir(descriptor) as found:
        names = sorted(_shown(entry) for entry in found if steps or entry.name != TEMPORARY_DIRECTORY)
    return {"entries": names[:MOST_ENTRIES], "truncated": len(names) > MOST_ENTRIES, "error": None}


def _shown(entry: os.DirEntry[str]) -> str:
    mode = entry.stat(follow_symlinks=False).st_mode
    end = "/" if stat.S_ISDIR(mode) else "@" if stat.S_ISLNK(mode) else ""
    return os.fsencode(entry.name).decode("utf-8", "replace") + end


async def search_files(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Lines that match a regular expression: `{"matches": [{"path", "line", "text"}], "truncated", "error"}`.

    The search is a process of its own: a pattern can take for ever, and in this process nobody could stop it.
    """
    steps = "/".join(parts_inside(context.workdir, arguments.get("path", ".")))
    ended = await run_command(
        [sys.executable, "-I", "-S", search_child.__file__, arguments["pattern"], steps or "."],
        directory=context.workdir,
        environment=child_environment(context.workdir, context.marker),
        timeout_s=min(SEARCH_TIMEOUT_S, context.timeout_s),
        keep_bytes=search_child.MOST_BYTES,
    )
    if ended.exit_code is None:
        return _error("the search took too long and was stopped; use a simpler pattern or a smaller path")
    try:
        found: dict[str, Any] = msgspec.json.decode(ended.head, type=dict[str, Any])
    except msgspec.DecodeError:
        return _error(f"the search ended with code {ended.exit_code} and no result")
    return found


def _error(problem: str) -> dict[str, Any]:
    return {"error": problem}


def _in_a_thread(work: Callable[[dict[str, Any], ToolContext], dict[str, Any]]) -> Run:
    """A tool that touches the disk, run beside the loop. It is short: a cancellation waits for its end."""

    async def run(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(work, arguments, context)

    return run


_PATH = {"type": "string", "description": "A path inside your working directory, for example src/main.py."}
_FOLDER = {"type": "string", "description": "A path inside your working directory (default: all of it)."}
_TEXT = {"type": "string"}


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "description": description}


FILE = Toolset(
    "file",
    (
        Tool(
            "read_file",
            f"Return lines of a text file, at most {MOST_LINES} at a time.",
            parameters(
                {"path": _PATH},
                {
                    "offset": _number("The number of the first line wanted, from 1."),
                    "limit": _number("How many lines."),
                },
            ),
            _in_a_thread(read_file),
            safe_to_repeat=True,
            concurrent=True,
        ),
        Tool(
            "write_file",
            "Write a whole text file; one that is there is replaced, missing directories are made.",
            parameters({"path": _PATH, "content": _TEXT}),
            _in_a_thread(write_file),
            safe_to_repeat=True,
            concurrent=False,
        ),
        Tool(
            "patch",
            "Replace a piece of a text file by another one. The old piece must be there exactly once.",
            parameters({"path": _PATH, "old": _TEXT, "new": _TEXT}),
            _in_a_thread(patch),
            safe_to_repeat=False,
            concurrent=False,
        ),
        Tool(
            "list_files",
            "List a directory. Directories end in a slash, symbolic links in an @.",
            parameters({}, {"path": _FOLDER}),
            _in_a_thread(list_files),
            safe_to_repeat=True,
            concurrent=True,
        ),
        Tool(
            "search_files",
            "Search text files for lines that match a regular expression (Python's syntax).",
            parameters({"pattern": _TEXT}, {"path": _FOLDER}),
            search_files,
            safe_to_repeat=True,
            concurrent=True,
        ),
    ),
)
