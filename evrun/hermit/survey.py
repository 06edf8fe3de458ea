"""A run directory of Hermit and its git tree, looked through once: what of them can be taken."""

from pathlib import Path
from typing import Any, NamedTuple

from projections import GitObject, git_id

from ..effects.git import TAGS, Tree
from ..errors import RunFailed, UsageFault
from .configuring import run_name_of
from .lines import EvaluationSummary, MaterialPart, RunSummary, StepLine
from .reading import Source

CONFIG, STEPS, SUMMARY, MATERIAL, EVALUATIONS = (
    "config.yaml", "steps.jsonl", "summary.json", "learning_material", "eval",
)  # fmt: skip
_HINT = "give the run's git repository with --tree"


class Survey(NamedTuple):
    """What is there. `name` is the run's in Hermit; `steps` are those that can be taken, in their order.

    `open` is the step after them, where all its rollouts are there and Hermit was killed at its learner.
    `start` and `root` are commits; `final` is the one that the tag `final` stands at, where the run has
    ended. `tags` are the run's own, without its name, by commit. `evaluations` are by the directory's name.
    """

    source: Source
    recorded: dict[str, Any]
    name: str
    tree: Tree
    steps: list[StepLine]
    open: MaterialPart | None
    summary: RunSummary | None
    start: str
    root: str
    final: str | None
    tags: dict[str, list[str]]
    evaluations: dict[str, EvaluationSummary]

    @property
    def head(self) -> str:
        """The commit of the last step that can be taken."""
        return self.steps[-1].commit if self.steps else self.start


def open_tree(recorded: dict[str, Any], directory: Path, given: Path | None) -> Tree:
    """The git repository with the run's commits, to be closed.

    Raises:
        UsageFault: there is none where it could be.
    """
    template = recorded.get("template")
    identity = str(template.get("id")) if isinstance(template, dict) else ""
    told = Path(str(recorded.get("tree") or ""))
    beside = directory.resolve().parent / "trees" / identity
    places = [given] if given is not None else [beside, told]
    for place in places:
        if Tree.exists(place):
            try:
                return Tree.open(place)
            except RunFailed as error:
                raise UsageFault(str(error), hint=_HINT) from error
    looked = " and ".join(dict.fromkeys(map(str, places)))
    raise UsageFault(f"no git repository with the run's commits: looked at {looked}", hint=_HINT)


def survey(source: Source, recorded: dict[str, Any], tree: Tree) -> Survey:
    """Look through a run directory.

    Raises:
        UsageFault: its commits are not in the tree.
    """
    name = run_name_of(recorded, source.directory)
    start, root = str(recorded.get("start") or ""), tree.resolve("root") or ""
    for what, commit in (("the commit that it starts from", start), ("the template's commit, `root`", root)):
        if not commit or not tree.has(commit):
            raise UsageFault(f"{tree.path}: {what} is not there ({commit or 'none'})", hint=_HINT)
    steps = _steps(source, tree, start)
    summary = source.object(SUMMARY, RunSummary)
    final = None
    if summary is not None:
        final = tree.resolve(f"{TAGS}{name}/final") or tree.resolve(summary.final_commit)
        if final is None:
            raise UsageFault(f"{tree.path}: the final commit {summary.final_commit} is not there", hint=_HINT)
    head = steps[-1].commit if steps else start
    opened = None if summary is not None else _open(source, steps, head)
    return Survey(
        source, recorded, name, tree, steps, opened, summary, start, root, final, _tags(tree, name),
        _evaluations(source),
    )  # fmt: skip


def objects_of(found: Survey) -> list[GitObject]:
    """Every git object that the run's commits rest on, each once, after what it names."""
    objects: dict[str, GitObject] = {}
    for commit in (found.root, found.start, found.head, *([found.final] if found.final else [])):
        for kind, data in found.tree.history(commit):
            objects.setdefault(git_id(kind, data), (kind, data))
    return list(objects.values())


def _steps(source: Source, tree: Tree, start: str) -> list[StepLine]:
    """The lines that follow each other; one that does not is left out, with the reason."""
    steps: list[StepLine] = []
    head = start
    for number, line in source.lines(STEPS, StepLine):
        expected = {steps[-1].step + 1} if steps else {0 if line.bootstrap else 1}
        missing = [commit for commit in (*line.commits, line.commit) if not tree.has(commit)]
        if line.step not in expected:
            source.refuse(STEPS, f"step {line.step}: expected step {min(expected)}", number)
        elif line.parent != head:
            source.refuse(STEPS, f"step {line.step}: expected it on commit {head}, not {line.parent}", number)
        elif missing:
            source.refuse(STEPS, f"step {line.step}: its commit {missing[0]} is not in {tree.path}", number)
        else:
            steps.append(line)
            head = line.commit
    return steps


def _open(source: Source, steps: list[StepLine], head: str) -> MaterialPart | None:
    number = steps[-1].step + 1 if steps else 1
    folder = f"{MATERIAL}/step_{number:04d}"
    there = source.names(f"{folder}/tasks")
    if not there or "summary.json" not in source.names(folder):
        return None
    found = source.object(f"{folder}/summary.json", MaterialPart)
    fits = found is not None and found.step == number and found.adapter_commit == head
    return found if found is not None and fits and len(there) == len(found.tasks) else None


def _tags(tree: Tree, name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    prefix = f"{TAGS}{name}/"
    for ref in tree.refs():
        commit = tree.resolve(ref) if ref.startswith(prefix) else None
        if commit is not None:
            found.setdefault(commit, []).append(ref.removeprefix(prefix))
    return found


def _evaluations(source: Source) -> dict[str, EvaluationSummary]:
    """The evaluations that were ended, oldest first."""
    found: list[tuple[int, str, EvaluationSummary]] = []
    for name in source.names(EVALUATIONS):
        place = f"{EVALUATIONS}/{name}"
        if "summary.json" not in source.names(place):
            source.refuse(place, "it was not ended, which Hermit would begin anew")
            continue
        summary = source.object(f"{place}/summary.json", EvaluationSummary)
        if summary is not None:
            written = (source.directory / place / "summary.json").stat().st_mtime_ns
            found.append((written, name, summary))
    return {name: summary for _, name, summary in sorted(found, key=lambda one: one[:2])}
