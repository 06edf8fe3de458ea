"""The tree of versions: a run's commits, branch and tags as its log has them, and what of it is there.

The tree is a git repository that the runs of a template share. It is derived: a run's log makes it again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from eventlog.events import CommitMade, HistoryStored, StepCommitted
from projections import FileCheck, GitObject, TrainingState, git_id, make_commit

from ..effects.git import HEADS, TAGS, Tree
from ..errors import RunFailed
from .blobs import Blobs
from .manifest import MANIFEST, ManifestFault, parse_manifest
from .starting import ROOT

TRUNK: Final = "trunk"
COMMITS: Final = "tree/commits"

Why = Literal["missing", "behind", "differs"] | None
_OWN_TAGS = re.compile(r"(bootstrap|final|ckpt-(step|epoch)-\d+)")


def refs_of(state: TrainingState) -> dict[str, str]:
    """The refs that are a run's own, as its log has them now: its branch and its tags, with their commits.

    The branch stands at the final adapter, until a later step is committed.
    """
    run = state.name
    tags = {f"{TAGS}{run}/{tag}": step.commit for step in state.steps for tag in step.tags}
    head, final = state.head, state.final
    if final is not None:
        tags[f"{TAGS}{run}/final"] = final.commit.sha
        if not state.steps or state.steps[-1].sequence < state.final_sequence:
            head = final.commit.sha
    return tags | ({f"{HEADS}{run}": head} if head else {})


def shared_refs(root: str, version: str) -> dict[str, str]:
    """The refs that a run shares with the others of its template: where all of them begin."""
    return {f"{TAGS}{ROOT}": root, f"{TAGS}{ROOT}@{version}": root, f"{HEADS}{TRUNK}": root}


def tree_of(state: TrainingState, blobs: Blobs) -> tuple[Iterator[GitObject], dict[str, str]]:
    """The objects of a run's commits, each after what it names, and all of its refs."""
    shared = shared_refs(state.root, _version(state, blobs)) if state.history_complete else {}
    return _objects(state, blobs), shared | refs_of(state)


def restore_tree(state: TrainingState, blobs: Blobs, tree: Path, *, whole: bool = True) -> list[str]:
    """Write what is missing of a run in its tree and move its own refs; gives the names of refs that moved.

    The tree is made where it is not there. Refs of others stay as they are. Without `whole` objects are
    written only where a ref is not as it ought to be: whoever moved it there had written them before.

    Raises:
        RunFailed: the tree cannot be written.
    """
    objects, refs = tree_of(state, blobs)
    run = state.name
    with Tree.create(tree, TRUNK) as repository:
        there = _there(repository, refs, run)
        moved = _to_move(refs_of(state), refs, there, repository.has)
        if whole or moved:
            repository.add(objects)
        for name in moved:
            repository.set_ref(name, refs[name])
        stale = _stale(run, refs, there)
        for name in stale:
            repository.delete_ref(name)
    return sorted([*moved, *stale])


def compare_tree(state: TrainingState, blobs: Blobs, tree: Path) -> list[FileCheck]:
    """A run's refs and commits in its tree, compared with its log; nothing is written.

    A ref that stands at an earlier commit of the run is behind. Refs that runs share may stand elsewhere.
    """
    objects, refs = tree_of(state, blobs)
    if not Tree.exists(tree):
        return [FileCheck(f"tree/{name}", same=False, why="missing") for name in [*sorted(refs), "commits"]]
    run = state.name
    with Tree.open(tree) as repository:
        there, known, lost = _there(repository, refs, run), set[str](), 0
        for kind, data in objects:
            name = git_id(kind, data)
            known.add(name)
            lost += not repository.has(name)
    own = refs_of(state)
    found = [_ref_check(name, at, there, known, own=name in own) for name, at in sorted(refs.items())]
    found += [FileCheck(f"tree/{name}", same=False, why="differs") for name in _stale(run, refs, there)]
    return [*found, FileCheck(COMMITS, same=not lost, why="missing" if lost else None)]


def set_aside(tree: Path, run: str, name: str) -> list[str]:
    """Give the branch and the tags of a run another name, so that a new run can have this one."""
    if not Tree.exists(tree):
        return []
    renamed = []
    with Tree.open(tree) as repository:
        for ref in repository.refs():
            other = _renamed(ref, run, name)
            if other is not None:
                repository.rename_ref(ref, other)
                renamed.append(other)
    return renamed


def commits_of(state: TrainingState, blobs: Blobs) -> Iterator[CommitMade]:
    """Every commit that the run made, in the order of the log, the newest final adapter's last."""
    for step in state.steps:
        if step.commits:
            event = blobs.event(step.sequence)
            assert isinstance(event, StepCommitted)
            yield from event.commits
    if state.final is not None:
        yield state.final.commit


def history_of(state: TrainingState, blobs: Blobs) -> Iterator[GitObject]:
    """The objects that the run's starting point rests on."""
    for sequence in state.history:
        event = blobs.event(sequence)
        assert isinstance(event, HistoryStored)
        yield from event.objects


def commit_objects(
    commits: Iterable[CommitMade], read: Callable[[bytes], bytes], known: dict[bytes, str] | None = None
) -> Iterator[GitObject]:
    """The objects of commits, made again from what their events tell.

    Raises:
        RunFailed: what comes out is another commit than the recorded one.
    """
    known = {} if known is None else known
    for commit in commits:
        made, objects = make_commit(
            commit.parent, commit.message, commit.time_s, commit.files, read, known=known
        )
        if made.sha != commit.sha:
            raise RunFailed(
                f"commit {commit.sha}: made again it is {made.sha}", "the log needs another evrun"
            )
        yield from objects


def _objects(state: TrainingState, blobs: Blobs) -> Iterator[GitObject]:
    """What the run starts from, and what it made. Commits that others made, of an imported run, are given."""
    given: set[str] = set()
    for kind, data in history_of(state, blobs):
        if kind == "commit":
            given.add(git_id(kind, data))
        yield kind, data
    made = (commit for commit in commits_of(state, blobs) if commit.sha not in given)
    yield from commit_objects(made, blobs.read)


def _version(state: TrainingState, blobs: Blobs) -> str:
    for entry in state.root_files:
        if entry.path == MANIFEST:
            try:
                return parse_manifest(blobs.read(entry.digest)).version
            except ManifestFault as fault:
                raise RunFailed(f"the template's {MANIFEST} in the log: {fault}") from fault
    raise RunFailed(f"the template in the log has no {MANIFEST}")


def _to_move(
    own: Mapping[str, str], refs: Mapping[str, str], there: Mapping[str, str], has: Callable[[str], bool]
) -> list[str]:
    """The refs that are missing, and the run's own that stand elsewhere or at nothing.

    The first run with a version of the template is where `root` and `trunk` go to it.
    """
    moved = [name for name in refs if name not in there or not has(there[name])]
    moved += [name for name, at in own.items() if name not in moved and there[name] != at]
    if any(name.startswith(f"{TAGS}{ROOT}@") for name in moved):
        moved += [name for name in refs if name not in own and name not in moved]
    return moved


def _there(repository: Tree, refs: Iterable[str], run: str) -> dict[str, str]:
    """What stands where the run's refs ought to be, and all of its tags; refs of others are not looked at."""
    found = {name: at for name in refs if (at := repository.ref(name)) is not None}
    return found | repository.refs(f"{TAGS}{run}/")


def _stale(run: str, refs: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Tags of the run's that evrun makes, and the log knows nothing of."""
    prefix = f"{TAGS}{run}/"
    own = [name for name in there if name.startswith(prefix) and name not in refs]
    return [name for name in own if _OWN_TAGS.fullmatch(name.removeprefix(prefix))]


def _renamed(ref: str, run: str, name: str) -> str | None:
    if ref == f"{HEADS}{run}":
        return f"{HEADS}{name}"
    prefix = f"{TAGS}{run}/"
    return f"{TAGS}{name}/{ref.removeprefix(prefix)}" if ref.startswith(prefix) else None


def _ref_check(name: str, at: str, there: Mapping[str, str], known: set[str], *, own: bool) -> FileCheck:
    why: Why = None
    if name not in there:
        why = "missing"
    elif there[name] != at and own:
        why = "behind" if there[name] in known else "differs"
    return FileCheck(f"tree/{name}", same=why is None, why=why)
