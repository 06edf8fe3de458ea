"""Git objects from what events tell of a commit: the same events give the same hashes, anywhere.

An object is told as (kind, content): kind is "blob", "tree" or "commit".
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Final, NamedTuple

from eventlog.events import CommitMade, FileEntry

GitObject = tuple[str, bytes]

AUTHOR: Final = "evrun <evrun@localhost>"
FILE_MODE: Final = "100644"
EXECUTABLE_MODE: Final = "100755"
TREE_MODE: Final = "40000"
LINK_MODE: Final = "120000"
MODULE_MODE: Final = "160000"

_ID_BYTES = 20
_REFUSED_PARTS = frozenset({"", ".", "..", ".git"})
_WRONG_IN_NAMES = re.compile(r"\.\.|@\{|[\x00-\x20\x7f~^:?*\[\\]|//|/\.|^\.|\.lock(/|$)|[./]$|^/|^@$|^$")


class Member(NamedTuple):
    """An entry of a tree object."""

    mode: str
    name: str
    id: str


class CommitFacts(NamedTuple):
    """What a commit object says; `message` without what follows its end."""

    tree: str
    parents: list[str]
    author: str
    time_s: int
    message: str


def git_id(kind: str, data: bytes) -> str:
    """The hash by which git knows an object, in hex."""
    return hashlib.sha1(b"%s %d\0%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()


def fits_git(path: str) -> bool:
    """Whether git can hold a file of this path: none of its parts is empty, `.`, `..` or `.git`."""
    return all(part.lower() not in _REFUSED_PARTS and "\0" not in part for part in path.split("/"))


def is_ref_name(name: str) -> bool:
    """Whether git takes this as the name of a branch or tag (the rules of `git check-ref-format`)."""
    return _WRONG_IN_NAMES.search(name) is None and not name.startswith("-")


def tree_objects(files: Mapping[str, tuple[str, bool]]) -> tuple[str, list[GitObject]]:
    """The id of the tree with these files, and its objects, inner ones first.

    `files` are (blob id, executable) by path.

    Raises:
        ValueError: a path that git cannot hold, or one that is both a file and a directory.
    """
    objects: list[GitObject] = []
    return _tree(_nested(files), objects), objects


def commit_data(tree: str, parent: str, message: str, time_s: int) -> bytes:
    """The content of a commit object; an empty `parent` is none."""
    lines = [f"tree {tree}", *([f"parent {parent}"] if parent else [])]
    lines += [f"{who} {AUTHOR} {time_s} +0000" for who in ("author", "committer")]
    text = message.replace("\0", "\ufffd").rstrip("\n")
    return ("\n".join([*lines, "", text]) + "\n").encode("utf-8", "replace")


def make_commit(
    parent: str,
    message: str,
    time_s: int,
    files: Iterable[FileEntry],
    read: Callable[[bytes], bytes],
    *,
    known: MutableMapping[bytes, str] | None = None,
) -> tuple[CommitMade, list[GitObject]]:
    """A commit of files, as its event tells it and as git objects: blobs, then trees, the commit last.

    `read` gives a content by its digest. `known` are the ids of blobs by digest, and is added to: a content
    that is in it is neither read nor given again. What git cannot hold (`fits_git`) is left out.
    """
    known = {} if known is None else known
    kept = [entry for entry in files if fits_git(entry.path)]
    objects: list[GitObject] = []
    for entry in kept:
        if entry.digest not in known:
            data = read(entry.digest)
            known[entry.digest] = git_id("blob", data)
            objects.append(("blob", data))
    tree, trees = tree_objects({entry.path: (known[entry.digest], entry.executable) for entry in kept})
    data = commit_data(tree, parent, message, time_s)
    made = CommitMade(git_id("commit", data), parent, message, time_s, kept)
    return made, [*objects, *trees, ("commit", data)]


def parse_tree(data: bytes) -> list[Member]:
    """The entries of a tree object, in its order.

    Raises:
        ValueError: these bytes are no tree.
    """
    members = []
    place = 0
    while place < len(data):
        end = data.index(b"\0", place)
        mode, _, name = data[place:end].partition(b" ")
        raw = data[end + 1 : end + 1 + _ID_BYTES]
        if len(raw) != _ID_BYTES or not name:
            raise ValueError("a tree object that is cut short")
        members.append(Member(mode.decode(), name.decode("utf-8", "surrogateescape"), raw.hex()))
        place = end + 1 + _ID_BYTES
    return members


def parse_commit(data: bytes) -> CommitFacts:
    """What a commit object says.

    Raises:
        ValueError: these bytes are no commit.
    """
    head, _, message = data.partition(b"\n\n")
    tree, author, time_s, parents = "", "", 0, []
    for line in head.decode("utf-8", "replace").split("\n"):
        key, _, value = line.partition(" ")
        if key == "tree":
            tree = value
        elif key == "parent":
            parents.append(value)
        elif key == "author":
            author, moment, _zone = value.rsplit(" ", 2)
            time_s = int(moment)
    if not tree:
        raise ValueError("a commit object without a tree")
    return CommitFacts(tree, parents, author, time_s, message.decode("utf-8", "replace").rstrip("\n"))


_Node = dict[str, "tuple[str, bool] | _Node"]


def _nested(files: Mapping[str, tuple[str, bool]]) -> _Node:
    top: _Node = {}
    for path, blob in files.items():
        if not fits_git(path):
            raise ValueError(f"git cannot hold a file of the path {path!r}")
        *folders, name = path.split("/")
        node = top
        for folder in folders:
            inner = node.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{path}: {folder} is a file")  # noqa: TRY004 (of the mapping, not of a type)
            node = inner
        if name in node:
            raise ValueError(f"{path} is a file and a directory")
        node[name] = blob
    return top


def _tree(node: _Node, objects: list[GitObject]) -> str:
    """The id of a directory's tree; git sorts a directory as if its name ended in a slash."""
    members: list[tuple[bytes, bytes]] = []
    for name, child in node.items():
        raw = name.encode("utf-8", "surrogateescape")
        if isinstance(child, dict):
            members.append((raw + b"/", _member(TREE_MODE, raw, _tree(child, objects))))
        else:
            mode = EXECUTABLE_MODE if child[1] else FILE_MODE
            members.append((raw, _member(mode, raw, child[0])))
    data = b"".join(line for _, line in sorted(members))
    objects.append(("tree", data))
    return git_id("tree", data)


def _member(mode: str, name: bytes, blob: str) -> bytes:
    return mode.encode() + b" " + name + b"\0" + bytes.fromhex(blob)
