"""A runner as it is written in a hurry: answers into a JSONL file, resumed by what the file has.

It is there to show that the money table can fail: the file is buffered, the total is that of its rows, and it
claims to know exactly what was spent.
"""

import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks._money import Bracket, Job, Report, Unavailable
from tests.house import ROOT

ROWS = Path("rows.jsonl")


class NaiveJsonl:
    """The runner, as the table sees it."""

    name = "naive JSONL"

    def install(self, _cache: Path) -> str:
        """It is here."""
        return "naive JSONL 1"

    def environment(self, _job: Job) -> dict[str, str]:
        """This checkout."""
        return {"PYTHONPATH": str(ROOT)}

    def start(self, job: Job) -> list[str]:
        """This file as a program."""
        return [sys.executable, "-m", __name__, job.base_url, str(job.dataset), str(job.in_flight)]

    def resume(self, job: Job) -> list[str]:
        """The same again."""
        return self.start(job)

    def report(self, job: Job) -> Report:
        """The rows, and no doubt about anything."""
        rows = rows_in(job.directory / ROWS)
        tokens = sum(row["tokens"] for row in rows)
        prompts = {row["prompt"] for row in rows}
        return Report(len(prompts), tokens, tokens, token_bracket=Bracket(tokens, 0))


class DiesAtOnce(NaiveJsonl):
    """One that never gets to its first call."""

    name = "dies at once"

    def start(self, _job: Job) -> list[str]:
        """No start at all."""
        return [sys.executable, "-c", "raise SystemExit('no model today')"]


class NotToBeHad(NaiveJsonl):
    """One that cannot be installed."""

    name = "not to be had"

    def install(self, _cache: Path) -> str:
        """It is not here."""
        raise Unavailable("the registry has no such package")


def rows_in(path):
    """The rows of a file that may not be there."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def ask(base_url, prompt):
    """One call, as a row."""
    body = {"model": "test-model", "messages": [{"role": "user", "content": prompt}]}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{base_url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        usage = json.load(response)["usage"]
    return {"prompt": prompt, "tokens": usage["total_tokens"]}


def main(base_url, dataset, in_flight):
    """Ask for what the file does not have."""
    prompts = [row["prompt"] for row in rows_in(Path(dataset))]
    have = {row["prompt"] for row in rows_in(ROWS)}
    with ROWS.open("a") as out, ThreadPoolExecutor(int(in_flight)) as pool:
        for answer in as_completed([pool.submit(ask, base_url, p) for p in prompts if p not in have]):
            out.write(json.dumps(answer.result()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
