"""A candidate that does not pass is put right, file by file, from the template's root or its parent."""

from typing import Final, NamedTuple

from eventlog.events import Issue

from .adapter_check import FIXED, OUTSIDE, check_candidate
from .blobs import Content, Files
from .globs import covers
from .template import Template

MOST_ROUNDS: Final = 20
ROOT: Final = "root"
PARENT: Final = "parent"


class Repair(NamedTuple):
    """A file that was put back: `restored_from` is "root" or "parent"; removed where that one has it not."""

    path: str
    restored_from: str
    reason: str


def repair(
    template: Template, root: Files, parent: Files, candidate: Files
) -> tuple[dict[str, Content], list[Repair]]:
    """A candidate that passes, made of one that does not, and what was put back; at worst the parent.

    As `check_candidate`, this may run the template's code, each round, and is to be called in a thread then.
    """
    bench = _Bench(root, parent, candidate)
    for _ in range(MOST_ROUNDS):
        issues = check_candidate(template, root, parent, bench.files)
        if not issues:
            break
        before = dict(bench.files)
        for issue in issues:
            bench.mend(issue)
        if bench.files == before:
            bench.give_up(issues[0])
            break
    else:
        bench.give_up(issues[0])
    return dict(sorted(bench.files.items())), bench.repairs()


class _Bench:
    """A candidate on which files are put back."""

    def __init__(self, root: Files, parent: Files, candidate: Files) -> None:
        self.files = dict(candidate)
        self._candidate = dict(candidate)
        self._sources = {ROOT: root, PARENT: parent}
        self._done: dict[str, Repair] = {}

    def mend(self, issue: Issue) -> None:
        """Put back what an issue is about; where it names no file, every one that is not the parent's."""
        reason = f"check {issue.check}: {issue.problem}"
        if issue.check == FIXED:
            self._put(issue.path, ROOT, reason)
        elif issue.check == OUTSIDE:
            self._remove(issue.path, PARENT, reason)
        else:
            for path in self._changed(issue.path):
                self._put(path, PARENT, reason)

    def give_up(self, issue: Issue) -> None:
        """Make it the parent."""
        where = f" ({issue.path})" if issue.path else ""
        for path in self._changed(""):
            self._put(path, PARENT, f"check {issue.check}: {issue.problem}{where}; nothing less helped")

    def repairs(self) -> list[Repair]:
        """What was put back, and is now another file than in the candidate, by path."""
        done = [self._done[path] for path in sorted(self._done)]
        return [one for one in done if self.files.get(one.path) != self._candidate.get(one.path)]

    def _changed(self, about: str) -> list[str]:
        """The files that are not as in the parent: of a path, of what lies below it, or of a pattern."""
        parent = self._sources[PARENT]
        paths = sorted(path for path in self.files.keys() | parent.keys() if self._differs(path))
        own = [path for path in paths if path == about or path.startswith(f"{about}/")]
        return paths if not about else own or [path for path in paths if covers(about, path)]

    def _differs(self, path: str) -> bool:
        return self.files.get(path) != self._sources[PARENT].get(path)

    def _put(self, path: str, source: str, reason: str) -> None:
        """Let a file be as in a source; what is in its way goes."""
        content = self._sources[source].get(path)
        if content is None:
            self._remove(path, source, reason)
            return
        for other in list(self.files):
            if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
                self._remove(other, source, f"in the way of {path}, which was put back")
        self.files[path] = content
        self._done[path] = Repair(path, source, reason)

    def _remove(self, path: str, source: str, reason: str) -> None:
        if self.files.pop(path, None) is not None:
            self._done[path] = Repair(path, source, reason)
