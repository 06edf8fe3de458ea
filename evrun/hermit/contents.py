"""Files of Hermit and of its commits as entries, each content once in the log, before what names it."""

import hashlib
from collections.abc import Iterable, Mapping

from eventlog.events import BlobStored, CommitMade, FileEntry

from ..effects.git import Tree
from ..training.blobs import Content, Files, entries_of


class Contents:
    """What the log holds of files so far."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._stored: set[bytes] = set()
        self._commits: dict[str, list[FileEntry]] = {}

    def store(self, files: Files) -> tuple[list[BlobStored], list[FileEntry]]:
        """The events that bring what is missing of these files into the log; and their entries."""
        events: list[BlobStored] = []
        for content in files.values():
            digest = hashlib.sha256(content.data).digest()
            if digest not in self._stored:
                self._stored.add(digest)
                events.append(BlobStored(digest, content.data))
        return events, entries_of(files)

    def of_commit(self, commit: str) -> tuple[list[BlobStored], list[FileEntry]]:
        """The same for the files of a commit."""
        if commit in self._commits:
            return [], self._commits[commit]
        events, entries = self.store(as_contents(self._tree.files(commit)))
        self._commits[commit] = entries
        return events, entries

    def commits(self, names: Iterable[str]) -> tuple[list[BlobStored], list[CommitMade]]:
        """The same for commits, which are told as they are; their objects are in the run's history."""
        events: list[BlobStored] = []
        made: list[CommitMade] = []
        for name in names:
            more, entries = self.of_commit(name)
            facts = self._tree.commit(name)
            parent = facts.parents[0] if facts.parents else ""
            events += more
            made.append(CommitMade(name, parent, facts.message, facts.time_s, entries))
        return events, made


def as_contents(files: Mapping[str, tuple[bytes, bool]]) -> dict[str, Content]:
    """Files of a commit, as others have them."""
    return {path: Content(data, executable) for path, (data, executable) in files.items()}
