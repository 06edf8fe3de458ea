"""Where a run starts: the template's root, a tag or commit of its tree, or an adapter's directory."""

import difflib
import hashlib
from pathlib import Path
from typing import Final, NamedTuple

from eventlog.events import BlobStored, CommitMade, Event, HistoryStored
from projections import GitObject, git_id, make_commit

from ..effects.git import TAGS, Tree
from ..errors import UsageFault
from .adapter_check import check_candidate
from .blobs import LARGEST_COMMIT, Content, Files, entries_of
from .manifest import MANIFEST, ManifestFault, parse_manifest
from .template import Template, adapter_files

ROOT: Final = "root"
"""The tag of the commit that all runs of a template begin at."""
ROOT_TIME_S: Final = 1_767_225_600
"""The date of every root: 2026-01-01. Of the same template it is the same commit in every tree."""
_SHOWN = 3


class Start(NamedTuple):
    """Where a run starts: the commit `head`, which rests on `objects` (parents first) down to `root`."""

    head: str
    root: str
    objects: list[GitObject]
    files: dict[str, Content]
    root_files: dict[str, Content]

    def events(self) -> list[Event]:
        """What the log has to hold of it, in the order in which it is to be recorded."""
        contents = _contents(self.files) | _contents(self.root_files)
        stored: list[Event] = [BlobStored(digest, data) for digest, data in contents.items()]
        parts = _parts(self.objects)
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            files = [entries_of(tree) if last else [] for tree in (self.files, self.root_files)]
            stored.append(HistoryStored(self.head, self.root, part, last, files[0], files[1]))
        return stored


def root_commit(template: Template, time_s: int = ROOT_TIME_S) -> tuple[CommitMade, list[GitObject]]:
    """The commit of a template's files; of the same files always the same, in every tree."""
    return _commit("", f"root: {template.name}", time_s, template.files)


def starting_point(tree: Path, template: Template, start_from: str | None) -> Start:
    """Where a run starts; looks only, and makes nothing.

    Raises:
        UsageFault: `start_from` is nothing to start from, or the template was changed under its version.
        RunFailed: the tree is damaged.
    """
    made, objects = root_commit(template)
    found = _Found(made.sha, objects)
    if not Tree.exists(tree):
        return _without_tree(template, found, start_from, tree)
    with Tree.open(tree) as repository:
        there = _root_there(repository, template)
        if there is not None and there != found.root:
            found = _Found(there, repository.history(there))
        if start_from is None or _is_directory(start_from):
            return _without_tree(template, found, start_from, tree)
        return _from_tree(repository, template, found, start_from)


class _Found(NamedTuple):
    root: str
    objects: list[GitObject]


def _root_there(repository: Tree, template: Template) -> str | None:
    """The root of this version of the template in its tree; null where the tree has none.

    Raises:
        UsageFault: its files are others than the template has now.
    """
    for name in (f"{TAGS}{ROOT}@{template.version}", f"{TAGS}{ROOT}"):
        commit = repository.ref(name)
        if commit is None or not repository.has(commit):
            continue
        files = files_of(repository, commit)
        if _version(files) != template.version:
            continue
        changed = different(files, template.files)
        if changed:
            raise UsageFault(
                f"template {template.name}: not what it was when {repository.path} was made: "
                f"{', '.join(changed[:_SHOWN])}{' and others' if len(changed) > _SHOWN else ''} changed",
                f"give it another version in {MANIFEST}, put the files back, or choose another tree_dir",
            )
        return commit
    return None


def _without_tree(template: Template, found: _Found, start_from: str | None, tree: Path) -> Start:
    if start_from is None or start_from == ROOT:
        return Start(found.root, found.root, found.objects, template.files, template.files)
    if not _is_directory(start_from):
        raise UsageFault(
            f"start_from {start_from}: there is no tree {tree}, and no such directory",
            "expected a tag or commit of the template's tree, or an adapter's directory",
        )
    directory = Path(start_from).expanduser()
    files = adapter_files(directory, f"start_from {start_from}")
    check_start(template, files, start_from)
    if files == template.files:
        return Start(found.root, found.root, found.objects, template.files, template.files)
    made, objects = _commit(found.root, f"start: {directory.resolve().name}", ROOT_TIME_S, files)
    return Start(made.sha, found.root, _joined(found.objects, objects), files, template.files)


def _from_tree(repository: Tree, template: Template, found: _Found, start_from: str) -> Start:
    commit = found.root if start_from == ROOT else repository.resolve(start_from)
    if commit is None:
        raise UsageFault(
            f"start_from {start_from}: no tag, commit or directory", _tags(repository, start_from)
        )
    if commit == found.root:
        return Start(commit, commit, found.objects, template.files, template.files)
    files = files_of(repository, commit)
    check_start(template, files, start_from)
    objects = _joined(found.objects, repository.history(commit))
    return Start(commit, found.root, objects, files, template.files)


def check_start(template: Template, files: Files, start_from: str) -> None:
    """See that an adapter is one of this template, and passes its checks.

    Raises:
        UsageFault: it is none, or does not; says what is wrong.
    """
    issues = check_candidate(template, template.files, template.files, files)
    if issues:
        shown = "; ".join(f"{one.path}: {one.problem} (check {one.check})" for one in issues[:_SHOWN])
        more = f" and {len(issues) - _SHOWN} more" if len(issues) > _SHOWN else ""
        raise UsageFault(
            f"start_from {start_from}: no adapter of {template.name} that passes: {shown}{more}",
            "expected a tag or commit of the template's tree, or an adapter's directory",
        )


def different(one: Files, other: Files) -> list[str]:
    """The paths of files that are not the same in both, sorted."""
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def files_of(repository: Tree, commit: str) -> dict[str, Content]:
    """The files of a commit."""
    return {path: Content(file.data, file.executable) for path, file in repository.files(commit).items()}


def _version(files: Files) -> str | None:
    try:
        return parse_manifest(files[MANIFEST].data).version if MANIFEST in files else None
    except ManifestFault:
        return None


def _is_directory(start_from: str) -> bool:
    return Path(start_from).expanduser().is_dir()


def _commit(parent: str, message: str, time_s: int, files: Files) -> tuple[CommitMade, list[GitObject]]:
    return make_commit(parent, message, time_s, entries_of(files), _contents(files).__getitem__)


def _contents(files: Files) -> dict[bytes, bytes]:
    """The contents of files by their digests."""
    return {hashlib.sha256(one.data).digest(): one.data for one in files.values()}


def _joined(first: list[GitObject], second: list[GitObject]) -> list[GitObject]:
    return list({git_id(*one): one for one in [*first, *second]}.values())


def _parts(objects: list[GitObject]) -> list[list[GitObject]]:
    """The objects in parts that fit into a commit of the log each."""
    parts: list[list[GitObject]] = [[]]
    size = 0
    for one in objects:
        if parts[-1] and size + len(one[1]) > LARGEST_COMMIT:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += len(one[1])
    return parts


def _tags(repository: Tree, start_from: str) -> str:
    names = sorted(name.removeprefix(TAGS) for name in repository.refs() if name.startswith(TAGS))
    near = difflib.get_close_matches(start_from, names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"the tags of {repository.path}: {', '.join(names[-5:]) or 'none'}"
