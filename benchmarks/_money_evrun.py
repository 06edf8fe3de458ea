"""evrun in the money table: `evrun run`, `evrun run --resume`, and what `evrun audit --json` says."""

import json
import sys
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from tests.runs import ROOT

from ._money import MODEL, USD_PER_MILLION, Bracket, Job, Report, output_of


class Evrun:
    """The runner of this project, at this commit, in this environment."""

    name = "evrun"

    def install(self, _cache: Path) -> str:
        """It is here."""
        return f"evrun {version('evrun')}"

    def environment(self, _job: Job) -> dict[str, str]:
        """This checkout."""
        return {"PYTHONPATH": str(ROOT)}

    def start(self, job: Job) -> list[str]:
        """A run under caps that are far away, so that each call has a bound in tokens and USD."""
        price = f"{MODEL}={USD_PER_MILLION[0]},{USD_PER_MILLION[1]}"
        options = {
            "--run-name": "r", "--model": MODEL, "--base-url": job.base_url, "--toolsets": "none",
            "--concurrency": str(job.in_flight), "--price": price, "--budget-usd": "100",
            "--max-tokens": "256",
        }  # fmt: skip
        words = [word for pair in options.items() for word in pair]
        return [*self._evrun, "run", str(job.dataset), *words, "--keep-all", "--quiet"]

    def resume(self, _job: Job) -> list[str]:
        """The same run by its name."""
        return [*self._evrun, "run", "--run-name", "r", "--resume", "--quiet"]

    def report(self, job: Job) -> Report:
        """The audit; a unit in doubt is a prompt by the id that its trajectory has."""
        audit = output_of([*self._evrun, "audit", "r", "--json"], self, job)
        lines = (job.directory / "data/r/trajectories.jsonl").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        prompt_of = {row["prompt_id"]: _prompt(row) for row in rows}
        units = (call["unit"].removeprefix("prompt:").rpartition(".")[0] for call in audit["in_doubt"])
        tokens = audit["tokens"]
        settled = tokens["input"] + tokens["output"]
        open_usd = Decimal(audit["in_doubt_usd"]) + Decimal(audit["reserved_usd"])
        return Report(
            len(set(prompt_of.values())),
            settled,
            sum(row["usage"]["input_tokens"] + row["usage"]["output_tokens"] for row in rows),
            frozenset(prompt_of[unit] for unit in units),
            Bracket(settled, tokens["in_doubt"] + tokens["reserved"]),
            Bracket(_nano(Decimal(audit["settled_usd"])), _nano(open_usd)),
        )

    _evrun = (sys.executable, "-m", "cli.main")


def _prompt(row: dict[str, list[dict[str, str]]]) -> str:
    return next(turn["value"] for turn in row["conversations"] if turn["from"] == "human")


def _nano(usd: Decimal) -> int:
    return int(usd * 10**9)
