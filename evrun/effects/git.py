"""A git repository of versions, met through dulwich: objects and refs, never a work tree or an index."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from dulwich.errors import NotGitRepository
from dulwich.file import FileLocked
from dulwich.objects import ObjectID, ShaFile
from dulwich.refs import DiskRefsContainer, Ref
from dulwich.repo import Repo

from eventlog.storage import RealFileSystem, replace_file
from projections import CommitFacts, GitObject, Member, git_id, is_ref_name, parse_commit, parse_tree

from ..errors import RunFailed, UsageFault

HEADS = "refs/heads/"
TAGS = "refs/tags/"

_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_NUMBERS = {kind: number for number, kind in _KINDS.items()}
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
_PARTS = {
    "HEAD",
    "objects",
    "refs",
    "config",
    "packed-refs",
    "info",
    "hooks",
    "description",
    "branches",
    "logs",
}
_TREE, _LINK, _MODULE = "40000", "120000", "160000"
_FORM = "sha1"
_ID_LETTERS = 40
_SHORTEST_PREFIX = 4
_LOCK_TRIES = 50
_LOCK_WAIT_S = 0.02

T = TypeVar("T")


class TreeFile(NamedTuple):
    """A file of a commit."""

    data: bytes
    executable: bool


class Tree:
    """A repository; commits and objects are known by their ids in hex, refs by their full names.

    A lock of git's that stays (its process was killed) is broken after a second: what it guards here is
    derived from logs, and whoever works on a run holds the run's own lock.
    """

    def __init__(self, path: Path, repository: Repo) -> None:
        self.path = path
        self._repository = repository
        self._objects = repository.object_store
        self._refs = repository.refs
        self._seen: set[str] = set()

    @classmethod
    def open(cls, path: Path) -> Self:
        """The repository in a directory.

        Raises:
            RunFailed: there is none, or it is of a form that is not known.
        """
        try:
            repository = Repo(str(path))
        except (NotGitRepository, OSError, ValueError) as error:
            raise RunFailed(
                f"{path}: no git repository: {error}", "evrun replay RUN makes it again"
            ) from error
        form = repository.object_format.name
        if form != _FORM or not isinstance(repository.refs, DiskRefsContainer):
            repository.close()
            raise RunFailed(
                f"{path}: a git repository of another form (objects: {form}); "
                f"expected {_FORM}, and refs as files",
                "choose another trainer.tree_dir: evrun makes its trees itself",
            )
        return cls(path, repository)

    @classmethod
    def create(cls, path: Path, head: str = "trunk") -> Self:
        """The repository in a directory; made, bare, where there is none, with HEAD on the branch `head`.

        A directory that is not empty and no repository is left alone.

        Raises:
            RunFailed: it could not be made.
        """
        if not cls.exists(path):
            _make(path, head)
        return cls.open(path)

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether there is a repository in a directory, bare or with a work tree, with all of its parts."""
        return any(
            (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir()
            for place in (path, path / ".git")
        )

    def close(self) -> None:
        """Give its files up."""
        self._repository.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Objects.

    def add(self, objects: Iterable[GitObject]) -> None:
        """Write what is not there yet, as loose objects. Nothing is synced: the log has it all.

        Raises:
            RunFailed: the disk refuses.
        """
        for kind, data in objects:
            name = git_id(kind, data)
            if name not in self._seen:
                if not self.has(name):
                    made = ShaFile.from_raw_string(_NUMBERS[kind], data)
                    self._patiently(partial(self._objects.add_object, made))
                self._seen.add(name)

    def has(self, name: str) -> bool:
        """Whether an object is there."""
        return _object_id(name) in self._objects

    def read(self, name: str) -> GitObject:
        """An object.

        Raises:
            RunFailed: it is not there, or damaged.
        """
        try:
            number, data = self._objects.get_raw(_object_id(name))
        except (KeyError, OSError, ValueError, EOFError) as error:
            raise RunFailed(f"{self.path}: the git object {name} cannot be read: {error}") from error
        return _KINDS[number], data

    def history(self, commit: str) -> list[GitObject]:
        """All objects that a commit rests on, itself too: each after what it names, so parents first."""
        found: list[GitObject] = []
        seen: set[str] = set()
        stack = [(commit, False)]
        while stack:
            name, ready = stack.pop()
            if ready:
                found.append(self.read(name))
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(child, False) for child in self._named_by(name)]
        return found

    def commit(self, name: str) -> CommitFacts:
        """What a commit says."""
        return parse_commit(self._of_kind(name, "commit"))

    def files(self, commit: str) -> dict[str, TreeFile]:
        """The files of a commit, sorted by path.

        Raises:
            RunFailed: it cannot be read, or holds a link or a module.
        """
        found: dict[str, TreeFile] = {}
        self._collect(self.commit(commit).tree, "", found)
        return dict(sorted(found.items()))

    # Refs.

    def resolve(self, name: str) -> str | None:
        """The commit that a full ref, a tag, a branch, an id, or the beginning of one means; null for none.

        Raises:
            UsageFault: several commits begin so.
        """
        for ref in (name, f"{TAGS}{name}", f"{HEADS}{name}"):
            found = self.ref(ref)
            if found is not None:
                return self._peeled(found)
        wanted = name.lower()
        if not _SHORTEST_PREFIX <= len(wanted) <= _ID_LETTERS or not set(wanted) <= set("0123456789abcdef"):
            return None
        if len(wanted) == _ID_LETTERS:
            return self._peeled(wanted)
        found_ids = [one.decode() for one in self._objects.iter_prefix(wanted.encode())]
        commits = [one for one in found_ids if self.read(one)[0] == "commit"]
        if len(commits) > 1:
            raise UsageFault(f"{name}: {len(commits)} commits in {self.path} begin so", "give more letters")
        return commits[0] if commits else None

    def ref(self, name: str) -> str | None:
        """What a ref, by its full name, stands at; null where there is none."""
        if not name.startswith("refs/") or not is_ref_name(name):
            return None
        with suppress(KeyError, ValueError, OSError):
            return self._refs[Ref(name.encode())].decode()
        return None

    def refs(self, below: str = "refs/") -> dict[str, str]:
        """Every ref whose name begins so, with what it stands at; `below` ends in a slash."""
        found: dict[str, str] = {}
        for name in sorted(self._refs.subkeys(Ref(below.rstrip("/").encode()))):
            full = below + name.decode("utf-8", "replace")
            at = self.ref(full)
            if at is not None:
                found[full] = at
        return found

    def set_ref(self, name: str, commit: str) -> None:
        """Let a ref stand at a commit, wherever it stood.

        Raises:
            RunFailed: the name is not one for git, or is in the way of another one.
        """
        if not is_ref_name(name):
            raise RunFailed(f"{self.path}: {name!r} is no name for a git ref")
        if self.ref(name) != commit:
            self._patiently(partial(self._write_ref, name, commit))

    def delete_ref(self, name: str) -> None:
        """Take a ref away; nothing happens where it is not there."""
        self._patiently(lambda: self._refs.remove_if_equals(Ref(name.encode()), None))

    def rename_ref(self, old: str, new: str) -> None:
        """Give a ref another name; nothing happens where it is not there."""
        at = self.ref(old)
        if at is not None:
            self.set_ref(new, at)
            self.delete_ref(old)

    # Inner parts.

    def _write_ref(self, name: str, commit: str) -> None:
        """Under git's lock, as git does it, but without a sync: the log has it all.

        Where there is a ref, its letters are written over: a file that takes another's place would be synced
        by some file systems all the same, at each step.
        """
        packed = self._refs.get_packed_refs()
        parts = name.split("/")
        above = ["/".join(parts[:end]) for end in range(3, len(parts))]
        if any(Ref(one.encode()) in packed for one in above):
            raise NotADirectoryError(20, "a ref is in the way", name)
        path = Path(self._repository.controldir(), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = f"{path}.lock"
        try:
            descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            raise FileLocked(str(path), lock) from None
        line = f"{commit}\n".encode()
        try:
            if path.is_file() and path.stat().st_size == len(line):
                with path.open("r+b", buffering=0) as file:
                    file.write(line)
                Path(lock).unlink()
                return
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
        RealFileSystem().rename(lock, str(path))

    def _of_kind(self, name: str, kind: str) -> bytes:
        found, data = self.read(name)
        if found != kind:
            raise RunFailed(f"{self.path}: {name} is a {found}; expected a {kind}")
        return data

    def _members(self, tree: str) -> list[Member]:
        return parse_tree(self._of_kind(tree, "tree"))

    def _named_by(self, name: str) -> list[str]:
        kind, data = self.read(name)
        if kind == "commit":
            facts = parse_commit(data)
            return [facts.tree, *facts.parents]
        if kind == "tree":
            return [member.id for member in parse_tree(data) if member.mode != _MODULE]
        return []

    def _collect(self, tree: str, above: str, found: dict[str, TreeFile]) -> None:
        for mode, name, child in self._members(tree):
            path = f"{above}{name}"
            if mode == _TREE:
                self._collect(child, f"{path}/", found)
            elif mode in {_LINK, _MODULE}:
                raise RunFailed(f"{self.path}: {path} is a link or a module; an adapter has plain files")
            else:
                found[path] = TreeFile(self._of_kind(child, "blob"), int(mode, 8) & 0o100 != 0)

    def _peeled(self, name: str) -> str | None:
        """The commit that an object is, or that a tag object means; null where it is neither."""
        while self.has(name):
            kind, data = self.read(name)
            if kind != "tag":
                return name if kind == "commit" else None
            name = data.split(b"\n", 1)[0].removeprefix(b"object ").decode()
        return None

    def _patiently(self, act: Callable[[], T]) -> T:
        """Do something that git guards by a lock file; one that stays is taken away.

        Raises:
            RunFailed: the disk refuses.
        """
        try:
            for _ in range(_LOCK_TRIES):
                try:
                    return act()
                except FileLocked as locked:
                    lock = os.fsdecode(locked.lockfilename)
                    time.sleep(_LOCK_WAIT_S)
                except FileNotFoundError as lost:
                    # Somebody took our lock away, who thought that we were dead.
                    lock = os.fsdecode(lost.filename or "")
                    time.sleep(_LOCK_WAIT_S)
            if lock.endswith(".lock"):
                Path(lock).unlink(missing_ok=True)
            return act()
        except OSError as error:
            raise RunFailed(f"{self.path}: git: {error}") from error


def _object_id(name: str) -> ObjectID:
    return ObjectID(name.encode())


def _make(path: Path, head: str) -> None:
    """The layout of an empty bare repository; HEAD comes last, so what a kill left of it is made whole.

    So is what somebody left of one: nothing but parts of a repository is there.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = {entry.name for entry in path.iterdir()} - _PARTS
        others = sorted(name for name in names if not name.endswith(".partial"))
        if others:
            raise RunFailed(f"{path}: holds {others[0]} and is no git repository", "choose another tree_dir")
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
            (path / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (path / "config").exists():
            replace_file(path / "config", [_CONFIG.encode()])
        if not (path / "HEAD").is_file():
            replace_file(path / "HEAD", [f"ref: refs/heads/{head}\n".encode()])
    except OSError as error:
        raise RunFailed(f"{path}: cannot make a git repository: {error.strerror}") from error
