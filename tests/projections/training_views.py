"""Helpers of the tests that look at the views of training runs."""

import json
import os
from pathlib import Path

from projections import check_training, open_training_views, rebuild_training, recorded


def tree(directory):
    """Everything below a directory but its log: files' bytes, and whether they may be run; links' targets."""
    found = {}
    for place, folders, names in os.walk(directory):
        if Path(place) == directory:
            folders[:] = [name for name in folders if name != "log"]
        for name in [*folders, *names]:
            path = Path(place, name)
            key = path.relative_to(directory).as_posix()
            if path.is_symlink():
                found[key] = f"-> {path.readlink()}"
            elif path.is_file():
                found[key] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
            else:
                found[key] = "a directory"
    return found


def why(reader, directory, to_sequence=None):
    """The views that are not as the log says, and why."""
    return {one.path: one.why for one in check_training(reader, directory, to_sequence) if not one.same}


def rebuilt(reader, place, to_sequence=None):
    """What the views ought to be."""
    rebuild_training(reader, place, to_sequence)
    return tree(place)


def lines(path):
    """The values of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Following:
    """A log that is written, and views that are kept up with it as a session does."""

    def __init__(self, maker, directory):
        self.maker, self.directory = maker, directory
        self.views = None

    def write(self, commits):
        """Append commits, folded as they become durable."""
        for commit in commits:
            self.maker.write([commit])
            self.follow()

    def follow(self):
        """Fold what is durable."""
        if self.views is None:
            self.reopen()
            return
        reader = self.maker.reader()
        for record in recorded(reader, self.views.state.sequence + 1):
            self.views.apply(record)

    def reopen(self):
        """As a new process does."""
        self.views = open_training_views(self.directory, self.maker.reader())
        return self.views
