"""What is different between two versions of an adapter, as patches that `git apply` takes."""

import difflib
import re
from typing import Final, Literal, NamedTuple

from .blobs import Content, Files

LARGEST_TEXT: Final = 1 << 20
"""A larger file is not compared line by line."""

Kind = Literal["added", "removed", "changed"]
_ODD = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {"\t": "\\t", "\n": "\\n", '"': '\\"', "\\": "\\\\"}


class FileChange(NamedTuple):
    """A file that is another in one version than in the other; `diff` is empty where it is no text."""

    path: str
    kind: Kind
    diff: str


def changes(before: Files, after: Files) -> list[FileChange]:
    """The files that differ, sorted by path."""
    paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return [_change(path, before.get(path), after.get(path)) for path in paths]


def patch(found: list[FileChange]) -> str:
    """The changes as one patch; a file that is no text is only named."""
    return "".join(one.diff or f"Binary file {one.path} {one.kind}\n" for one in found)


def _change(path: str, before: Content | None, after: Content | None) -> FileChange:
    kind: Kind = "added" if before is None else "removed" if after is None else "changed"
    old, new = _text(before), _text(after)
    if old is None or new is None:
        return FileChange(path, kind, "")
    names = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    head = [f"diff --git {names[0]} {names[1]}", *_modes(before, after)]
    sides = "/dev/null" if before is None else names[0], "/dev/null" if after is None else names[1]
    lines = list(difflib.unified_diff(_lines(old), _lines(new), n=3, lineterm="\n"))[2:]
    if lines:
        head += [f"--- {_ended(sides[0])}", f"+++ {_ended(sides[1])}"]
    return FileChange(path, kind, "\n".join(head) + "\n" + "".join(map(_closed, lines)))


def _text(content: Content | None) -> str | None:
    """A content as text, empty where there is none; null where it is no text, or too much of it."""
    if content is None:
        return ""
    if len(content.data) > LARGEST_TEXT or b"\0" in content.data:
        return None
    try:
        return content.data.decode()
    except UnicodeDecodeError:
        return None


def _modes(before: Content | None, after: Content | None) -> list[str]:
    if before is None:
        return [f"new file mode {_mode(after)}"]
    if after is None:
        return [f"deleted file mode {_mode(before)}"]
    if before.executable != after.executable:
        return [f"old mode {_mode(before)}", f"new mode {_mode(after)}"]
    return []


def _mode(content: Content | None) -> str:
    return "100755" if content is not None and content.executable else "100644"


def _lines(text: str) -> list[str]:
    """The lines with their ends, which are line feeds alone."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _closed(line: str) -> str:
    """A line of a diff; the last one of a file may have no end, which is said as git says it."""
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _quoted(name: str) -> str:
    """A name as git writes it."""
    if not _ODD.search(name):
        return name
    return '"' + _ODD.sub(lambda found: _ESCAPES.get(found[0], f"\\{ord(found[0]):03o}"), name) + '"'


def _ended(name: str) -> str:
    """A name with a blank in it ends in a tab, as git has it."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name
