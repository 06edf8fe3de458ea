"""Run directories that Hermit 0.1.0 left (tests/training/hermit_runs), unpacked, and made runs of ours."""

import hashlib
import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import evrun
from evrun.hermit import HermitImport, HermitImported, import_hermit

PACKED = Path(__file__).parent / "hermit_runs" / "toy.tar.gz"
BOUNDS: dict[str, Any] = {"agent": {"bound": {"usd": 0.1}}, "evolver": {"bound": {"usd": 0.1}}}


class HermitToy:
    """The task, the learners and the runs of Hermit in a directory of a test's own.

    `account` is where the agent and the learner count what is paid, once they were `moved`.
    """

    def __init__(self, directory: Path) -> None:
        with tarfile.open(PACKED) as packed:
            packed.extractall(directory, filter="data")
        self.directory = directory / "toy"
        self.runs = self.directory / "runs"
        self.account = directory / "account.txt"
        self.output = directory / "data"
        self.environment: dict[str, str] = {}

    def moved(self) -> None:
        """Change the import lines of the user's code, and have it count what it is paid."""
        for path in self.directory.rglob("*.py"):
            text = path.read_text().replace("from hermit.task import", "from evrun import")
            text = text.replace("from hermit.evolver.base import", "from evrun import")
            text = text.replace('"/tmp/toy-logs"', repr(str(self.directory / "logs")))
            text = text.replace(_SLEEPS, self._counted("'rollout ' + task['id']", 4) + _SLEEPS)
            path.write_text(text.replace(_NOTES, self._counted("f'learner {step}'", 8) + _NOTES))

    def _counted(self, what: str, indent: int) -> str:
        lines = [f"with open({str(self.account)!r}, 'a') as account:", f"    account.write({what} + '\\n')"]
        return "".join(f"{' ' * indent}{line}\n" for line in lines)

    def paid(self) -> Counter[str]:
        """What was paid since, as they counted it who were paid."""
        return Counter(self.account.read_text().splitlines() if self.account.exists() else [])

    def imported(self, run: str, **options: Any) -> HermitImported:
        """A run made of one of Hermit's; what is warned of is an error here."""
        asked = HermitImport(source=self.runs / run, output_dir=self.output, **options)
        return import_hermit(asked, self.environment, _refuse)

    def told(self, run: str) -> list[dict[str, Any]]:
        """The lines of steps.jsonl of Hermit."""
        return _lines(self.runs / run / "steps.jsonl")

    def steps(self, run: str) -> list[dict[str, Any]]:
        """The lines of steps.jsonl of ours."""
        return _lines(self.output / run / "steps.jsonl")

    def go_on(self, run: str, **overrides: Any) -> evrun.TrainResult:
        """What `evrun train --config RUN/run.yaml` does."""
        return evrun.train(
            self.output / run / "run.yaml", progress=False, environment={}, **{**BOUNDS, **overrides}
        )

    def digests(self) -> dict[str, str]:
        """Every file below Hermit's output directory, by its content."""
        return {
            str(path.relative_to(self.runs)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.runs.rglob("*"))
            if path.is_file()
        }


_SLEEPS = "    time.sleep(float"
_NOTES = '        with (ctx.workspace.state / "calls'


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _refuse(text: str) -> None:
    raise AssertionError(text)
