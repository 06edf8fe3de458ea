"""Trainers for tests of the training benchmark."""

import sys

from benchmarks._money import Unavailable
from benchmarks._training import Trainer


class NotToBeHad(Trainer):
    """Cannot be installed."""

    name = "not to be had"

    def install(self, cache):
        """It cannot."""
        raise Unavailable("it is nowhere")


class DiesAtOnce(Trainer):
    """Ends before its first step."""

    name = "dies at once"
    imports = ""

    def install(self, cache):
        """Nothing to do."""
        return "dies at once 1"

    def command(self, config):
        """Say why, and end."""
        return [sys.executable, "-c", "import sys; sys.exit('no such thing')"]


class Grows(Trainer):
    """Each step takes it longer."""

    name = "grows"
    imports = "Evolver, StepResult = object, dict"
    output = "None"

    def install(self, cache):
        """Nothing to do."""
        return "grows 1"

    def command(self, config):
        """Call the learner, and wait longer each time."""
        return [sys.executable, "-c", GROWS, str(config)]


GROWS = """
import sys, time, yaml
from pathlib import Path
from types import SimpleNamespace as Names
from learner import Toy
config = yaml.safe_load(Path(sys.argv[1]).read_text())
for step in range(1, 2 * config["trainer"]["epochs"] + 1):
    where = Names(adapter=Path("."))
    Toy().step(Names(progress=Names(step=step), params=config["evolver"]["params"], workspace=where))
    time.sleep(0.03 * step)
"""
