"""The log of a training run made by hand: nothing but its start, steps and final adapter, and its tree."""

import hashlib
import subprocess
from contextlib import closing

from eventlog.events import (
    BlobStored,
    EvolverReturned,
    EvolverStarted,
    FinalSelected,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    StepCommitted,
    StepStarted,
    encode_event,
)
from eventlog.storage import LogReader, LogWriter
from evrun.effects.git import Tree
from evrun.training.blobs import Blobs, Content, entries_of
from evrun.training.starting import starting_point
from evrun.training.template import load_template
from projections import fold_log, make_commit

SECOND = 10**9


class Made:
    """A run by hand in `directory`/NAME, its tree in `directory`/trees/ID: each method records, and commits.

    `write_tree` is false for a run whose tree lags behind from here on, as after a kill.
    """

    def __init__(self, directory, name="toy", template="prompt-only", start_from=None):
        self.run, self.name, self.write_tree = directory / name, name, True
        self.template = load_template(template)
        self.tree = directory / "trees" / self.template.id
        self._now = 1_800_000_000 * SECOND
        self._writer = LogWriter.open(
            self.run / "log", clock_ns=self._clock, random_bytes=lambda size: b"\7" * size
        )
        start = starting_point(self.tree, self.template, start_from)
        self.head, self.files, self.root = start.head, dict(start.files), start.root
        self._known = set()
        settings = {"trainer.tree_dir": str(self.tree), "evolver.name": "learner.py:Toy"}
        self._record(RunStarted("training", name, settings, {}, {}, []), SessionOpened(1, 1, "host", "0"))
        self._record(*start.events())
        self._step = 0
        self._to_tree(start.objects, {})

    def step(self, text, *, tags=(), invalid=None, path="ADAPTER.md", summary="better"):
        """A step whose learner writes `text` (null: removes the file); `invalid`: as it came first."""
        self._step += 1
        step = self._step
        self._record(StepStarted(step, 1, ["a"], self.head))
        texts = [text] if invalid is None else [invalid, text]
        made, objects, parent = [], [], self.head
        for one in texts:
            files = {**self.files, path: Content(one if isinstance(one, bytes) else (one or "").encode())}
            if one is None:
                files.pop(path)
            if files != self.files:
                commit, new = self._commit(parent, f"step {step} (epoch 1) [toy]: {summary}\n", files)
                made.append(commit)
                objects += new
                parent, self.files = commit.sha, files
        unit = f"step:{step}/learner"
        self._record(
            EvolverStarted(unit, 1, "step", step),
            EvolverReturned(
                unit, 1, "step", step, "done", summary, "", None, [], None, None, 5, entries_of(self.files),
                [], [],
            ),
            StepCommitted(step, 1, "done", None, self.head, made, [], None, list(tags), step * SECOND),
        )  # fmt: skip
        self.head = parent
        self._to_tree(
            objects,
            {f"refs/heads/{self.name}": parent} | {f"refs/tags/{self.name}/{tag}": parent for tag in tags},
        )
        return parent

    def final(self, how="last"):
        """The last adapter is chosen."""
        files = {**self.files, "CARD.md": Content(b"# A card\n")}
        commit, objects = self._commit(self.head, f"final: {self.name}\n", files)
        tag = f"{self.name}/final"
        self._record(
            FinalSelected(self._step, self.head, how, None, None, "completed all epochs", commit, tag)
        )
        self._to_tree(
            objects, {f"refs/heads/{self.name}": commit.sha, f"refs/tags/{self.name}/final": commit.sha}
        )
        return commit.sha

    def finish(self):
        """The run is over."""
        self._record(RunFinished({}), SessionClosed(1, "finished", None, 1))
        self.close()

    def close(self):
        """Give the log up."""
        self._writer.close()

    def read(self, use):
        """What `use(training state, reader, blobs)` gives."""
        with closing(LogReader.open(self.run / "log")) as reader:
            state = fold_log(reader).training
            return use(state, reader, Blobs(state, reader))

    def git(self, *arguments):
        """What the git program says of the tree."""
        return git(self.tree, *arguments)

    def _commit(self, parent, message, files):
        contents = {hashlib.sha256(one.data).digest(): one.data for one in files.values()}
        self._record(*(BlobStored(*one) for one in contents.items() if one[0] not in self._known))
        self._known |= contents.keys()
        return make_commit(parent, message, self._now // SECOND, entries_of(files), contents.__getitem__)

    def _record(self, *events):
        if events:
            self._writer.append([encode_event(event) for event in events])

    def _to_tree(self, objects, refs):
        if self.write_tree:
            with Tree.create(self.tree) as tree:
                tree.add(objects)
                for name, commit in refs.items():
                    tree.set_ref(name, commit)

    def _clock(self):
        self._now += SECOND // 4
        return self._now


def git(tree, *arguments, check=True):
    """What the git program says of a tree."""
    done = subprocess.run(["git", "-C", tree, *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")
