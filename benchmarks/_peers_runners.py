"""The runners of the peers' table: evrun, peers, and loops that keep nothing or little."""

import sys
from importlib.metadata import version
from pathlib import Path

from tests.runs import ROOT

from . import _money_peers
from ._money import Job
from ._money_evrun import Evrun as MoneyEvrun

HERE = Path(__file__).resolve().parent


class Evrun(MoneyEvrun):
    """`evrun run`: intent and result durable for every call."""

    def start(self, job: Job) -> list[str]:
        """A new run."""
        options = {
            "--run-name": "r", "--model": "m", "--base-url": job.base_url, "--toolsets": "none",
            "--concurrency": str(job.in_flight),
        }  # fmt: skip
        words = [word for pair in options.items() for word in pair]
        return [*self._evrun, "run", str(job.dataset), *words, "--keep-all", "--quiet"]


class InspectAi(_money_peers.InspectAi):
    """`inspect eval` of one task with one sample for each prompt."""


class Curator(_money_peers.Curator):
    """A curator.LLM over the dataset."""


class _Loop:
    """A script beside this file, run by this interpreter: `[script, mode]`."""

    name: str
    program: tuple[str, ...]

    def install(self, _cache: Path) -> str:
        """It is here."""
        return f"{self.name} (aiohttp {version('aiohttp')}, httpx {version('httpx')})"

    def environment(self, _job: Job) -> dict[str, str]:
        """This checkout."""
        return {"PYTHONPATH": str(ROOT)}

    def start(self, job: Job) -> list[str]:
        """The loop over all prompts."""
        script, *mode = self.program
        return [sys.executable, str(HERE / script), *mode, job.base_url, str(job.dataset), str(job.in_flight)]


class BareLoop(_Loop):
    """The client that evrun uses, and nothing else: answers are read and dropped."""

    name = "bare loop"
    program = ("_bare_loop.py",)


class HttpxLoop(_Loop):
    """httpx as it comes: what runners on the usual SDKs stand on."""

    name = "httpx loop"
    program = ("_peers_loops.py", "httpx")


class LineAndCheckpoint(_Loop):
    """A line and a sync for each result, the whole checkpoint anew for each batch of ten; evrun's client."""

    name = "line + checkpoint"
    program = ("_peers_loops.py", "line-and-checkpoint")
