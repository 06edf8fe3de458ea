"""Learners as tests make them: a workspace, a call, and tools that only count."""

import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from evrun.batch.control import Control
from evrun.effects.clock import random_bytes
from evrun.effects.secrets import Redactor
from evrun.training.authoring import Access, ToolError, Workspace
from evrun.training.config import EvolverConfig
from evrun.training.learner import LearnerCall, Place, load_learner
from tests.training.configured import config_in

SECRET = "sk-0123456789abcdef"
LONG_S = 60.0


class Tools:
    """A tool that counts, one that fails, and one that never ends."""

    def __init__(self):
        self.count = 0
        self.ended = []

    def describe(self):
        """The tools that there are."""
        return [
            {"name": name, "description": "d", "source": "run", "input_schema": {}, "output_schema": {}}
            for name in ("count", "fail", "hang")
        ]

    async def invoke(self, name, arguments):
        """Count, fail, or hang."""
        if name == "fail":
            raise ToolError(f"no: {arguments}")
        if name == "hang":
            try:
                await anyio.sleep_forever()
            finally:
                self.ended.append(name)
        self.count += arguments.get("by", 1)
        return {"count": self.count}


class Bench:
    """A learner at work in a directory, with all that its calls need."""

    def __init__(self, directory, name, params):
        self.directory = directory
        self.control = Control()
        self.marker = f"test-{random_bytes(8).hex()}"
        self.params = params
        self.tools = Tools()
        place = Place(self.marker, Redactor({"KEY": SECRET}), self.control, ["m"], directory)
        config = config_in(directory)
        evolver = EvolverConfig(name=name, params=params)
        self.learner = load_learner(type(config)(**{**_fields(config), "evolver": evolver}), place)
        self.workspace = None
        self.task_info = None

    async def call(self, method="step", *, timeout_s=LONG_S, ask=None, tools=None, session=None, **params):
        """Call it, in a new workspace."""
        self.workspace = workspace(Path(tempfile.mkdtemp(dir=self.directory)))
        call = LearnerCall(
            method,
            "step:3/learner",
            3,
            2,
            True,  # noqa: FBT003
            1,
            self.workspace,
            Access(None, self.task_info),
            "do better",
            session,
            {**self.params, **params},
            timeout_s,
        )
        return await self.learner.call(call, tools or self.tools, ask)

    @property
    def log(self):
        """What the last call's learner printed; null where it printed nothing."""
        file = self.workspace.output / "learner.log"
        return file.read_text() if file.exists() else None


def workspace(root: Path) -> Workspace:
    """A workspace with an adapter of one file."""
    places = {name: root / name for name in ("adapter", "state", "output", "scratch", "history")}
    for place in places.values():
        place.mkdir(parents=True)
    (places["adapter"] / "ADAPTER.md").write_text("be brief\n")
    return Workspace(root=root, learning_material=root / "material", **places)


@asynccontextmanager
async def bench(directory, name, **params):
    """A learner that was started."""
    made = Bench(directory, name, params)
    async with made.learner:
        await made.learner.start()
        yield made


@asynccontextmanager
async def python(directory, body, **params):
    """A learner whose class `Mine` has this body."""
    file = directory / "mine.py"
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    file.write_text(f"{HEAD}\n\nclass Mine(Evolver):\n{lines}\n")
    async with bench(directory, f"{file}:Mine", **params) as made:
        yield made


async def once(directory, body, method="step", **options):
    """One call of a learner with this body; what came back, and the bench."""
    async with python(directory, body) as made:
        return await made.call(method, **options), made


def run(main, *arguments, **named):
    """Run an async function to its end."""
    return anyio.run(partial(main, *arguments, **named))


HEAD = """\
import os, subprocess, sys, time
from evrun import Evolver, FinalResult, StepResult, ToolError, Usage"""


def _fields(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
