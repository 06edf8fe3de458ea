"""The searching process of `search_files`: a script of its own, which needs the standard library alone.

Called with a pattern and the steps of a path below the current directory; prints one JSON object. It runs
apart because a regular expression can take for ever and cannot be stopped from inside its process.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any

MOST_MATCHES = 200
MOST_BYTES = 100_000
LARGEST_FILE_BYTES = 10 << 20
LONGEST_TEXT = 400
SKIPPED = ".tmp"
_NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def search(pattern: str, path: str) -> dict[str, Any]:
    """The first matches below a path, files in order of their names, bounded in number and size."""
    try:
        wanted = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return {"error": f"the pattern is not a regular expression: {error}"}
    steps = [step for step in path.split("/") if step != "."]
    try:
        start = _open(steps)
    except OSError as error:
        return {"error": f"{path}: {error.strerror} (file tools do not follow symbolic links)"}
    return _collect(wanted, _files(start, "/".join(steps)))


def _open(steps: list[str]) -> int:
    descriptor = os.open(".", _NO_LINK)
    for step in steps:
        further = os.open(step, _NO_LINK, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = further
    return descriptor


def _files(start: int, name: str) -> Iterator[tuple[str, int]]:
    """Regular files at or below a descriptor: (path, descriptor)."""
    if not stat.S_ISDIR(os.fstat(start).st_mode):
        yield name, start
        return
    for directory, folders, names, descriptor in os.fwalk(".", dir_fd=start, follow_symlinks=False):
        inside = directory.removeprefix(".").removeprefix("/")
        folders[:] = sorted(folder for folder in folders if folder != SKIPPED or inside or name)
        for each in sorted(names):
            try:
                opened = os.open(each, _NO_LINK, dir_fd=descriptor)
            except OSError:
                continue
            yield "/".join(part for part in (name, inside, each) if part), opened


def _collect(wanted: re.Pattern[str], files: Iterator[tuple[str, int]]) -> dict[str, Any]:
    matches: list[dict[str, Any]] = []
    room = MOST_BYTES - 1000
    for path, descriptor in files:
        for number, line in enumerate(_lines(descriptor), 1):
            if not wanted.search(line):
                continue
            match = {"path": _readable(path), "line": number, "text": _short(line)}
            room -= len(json.dumps(match)) + 2
            if len(matches) == MOST_MATCHES or room < 0:
                return {"matches": matches, "truncated": True, "error": None}
            matches.append(match)
    return {"matches": matches, "truncated": False, "error": None}


def _lines(descriptor: int) -> list[str]:
    """The lines of a text file; none of what is no regular file, too large, or not text."""
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE_BYTES:
            return []
        data = file.read(LARGEST_FILE_BYTES)
    return [] if b"\0" in data else data.decode("utf-8", "replace").split("\n")


def _short(line: str) -> str:
    """A line, cut between two words where it is long: half a secret would be found by nobody."""
    if len(line) <= LONGEST_TEXT:
        return line
    words, _, _ = line[:LONGEST_TEXT].rpartition(" ")
    return f"{words} [… {len(line) - len(words)} characters left out …]"


def _readable(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


if __name__ == "__main__":
    with os.fdopen(1, "wb") as output:
        output.write(json.dumps(search(sys.argv[1], sys.argv[2])).encode())
