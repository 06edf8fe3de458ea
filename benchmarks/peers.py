"""evrun beside its peers: the same endpoint without delay, the same prompts, start-up included.

python benchmarks/peers.py [--samples 1000,2000,10000,50000] [--rounds 3] [--in-flight 64] [--limit-s 120]
                           [--runners evrun,bare,httpx,lines,inspect_ai,curator] [--steps 2000]
                           [--venvs DIR] [--markdown] [--json FILE]

In each round every runner works through every number of samples, one after the other; medians and ratios
count. Numbers above 10,000 are measured in one round. A runner that is not done at the limit is killed, and
its rate is what it came to by then; such a cell is marked with a star. Then durable steps a second, without a
network, in as many rounds (`--steps 0`: none). Peers are installed from PyPI into environments of their own
under --venvs, once.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks._log_bench import heading, scratch  # noqa: E402
from benchmarks._money import Unavailable  # noqa: E402
from benchmarks._peers import Runner, Taken, take  # noqa: E402
from benchmarks._peers_runners import (  # noqa: E402
    BareLoop,
    Curator,
    Evrun,
    HttpxLoop,
    InspectAi,
    LineAndCheckpoint,
)
from benchmarks._peers_steps import STEPPERS, Pace, pace  # noqa: E402
from tests.runs import gsm8k  # noqa: E402

RUNNERS: Mapping[str, Callable[[], Runner]] = {
    "evrun": Evrun,
    "bare": BareLoop,
    "httpx": HttpxLoop,
    "lines": LineAndCheckpoint,
    "inspect_ai": InspectAi,
    "curator": Curator,
}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evrun-bench"
ONE_ROUND = 10_000
AT_ONCE = (1, 64)

Cells = dict[tuple[str, int], list[Taken]]
Paces = dict[tuple[str, int], list[Pace]]


class Installed(Protocol):
    """Whatever has a name and can be made ready."""

    name: str

    def install(self, cache: Path) -> str:
        """Its name and version."""
        ...


class Table:
    """What was measured so far, and who is not in it, with the reason."""

    def __init__(self, venvs: Path, room: Path) -> None:
        self.cells: Cells = {}
        self.paces: Paces = {}
        self.versions: list[str] = []
        self.absent: dict[str, str] = {}
        self._venvs = venvs
        self._room = room
        self._trials = 0

    def ready(self, one: Installed) -> bool:
        """Whether it is here."""
        try:
            version = one.install(self._venvs)
        except Unavailable as reason:
            self.absent[one.name] = str(reason)
            return False
        if version not in self.versions:
            self.versions.append(version)
        return True

    def take(self, runner: Runner, samples: int, in_flight: int, limit_s: float) -> None:
        """One trial; a runner that fails leaves the table."""
        if runner.name in self.absent:
            return
        try:
            dataset = gsm8k(self._room / f"{samples}.jsonl", samples)
            found = take(runner, self._place(), dataset, in_flight, limit_s)
        except RuntimeError as error:
            self.absent[runner.name] = str(error)
            return
        print(f"{runner.name}, {samples} samples: {found}", file=sys.stderr, flush=True)
        self.cells.setdefault((runner.name, samples), []).append(found)

    def step(self, steps: int) -> None:
        """One round of durable steps."""
        for stepper in STEPPERS:
            for at_once in AT_ONCE:
                if stepper.name in self.absent:
                    continue
                try:
                    found = pace(stepper, self._place(), steps, at_once)
                except Unavailable as reason:
                    self.absent[stepper.name] = str(reason)
                    continue
                self.paces.setdefault((stepper.name, at_once), []).append(found)

    def _place(self) -> Path:
        self._trials += 1
        return self._room / f"trial-{self._trials}"


def median(found: Sequence[Taken], say: Callable[[Taken], float]) -> float:
    """The middle of the rounds."""
    return statistics.median(say(one) for one in found)


MEASURES: Mapping[str, tuple[Callable[[Taken], float], str]] = {
    "samples/s": (lambda one: one.rate, ",.0f"),
    "CPU s per 1,000 samples": (lambda one: one.cpu_s_per_1000, ",.2f"),
    "peak memory, MiB": (lambda one: one.peak_kib / 1024, ",.0f"),
    "bytes on disk per sample": (lambda one: one.disk_per_sample, ",.0f"),
}


def rows_of(
    cells: Cells, samples: Sequence[int], say: Callable[[Taken], float], form: str
) -> Iterator[list[str]]:
    """One row for each runner: the medians, then evrun's first rates in relation where they are rates."""
    for name in dict.fromkeys(name for name, _ in cells):
        row = [name]
        for count in samples:
            found = cells.get((name, count))
            stopped = "*" if found and any(one.stopped for one in found) else ""
            row.append(format(median(found, say), form) + stopped if found else "-")
        yield row


def ratios(cells: Cells, samples: Sequence[int]) -> Iterator[list[str]]:
    """Evrun's samples a second over each other runner's."""
    for name in dict.fromkeys(name for name, _ in cells if name != Evrun.name):
        row = [name]
        for count in samples:
            ours, theirs = cells.get((Evrun.name, count)), cells.get((name, count))
            both = ours and theirs
            rate = MEASURES["samples/s"][0]
            row.append(
                f"{median(ours, rate) / median(theirs, rate):.2f}" if both and ours and theirs else "-"
            )
        yield row


def paces_of(paces: Paces) -> Iterator[list[str]]:
    """One row for each way of recording steps."""
    for name in dict.fromkeys(name for name, _ in paces):
        found = [paces.get((name, at_once)) for at_once in AT_ONCE]
        yield [
            name,
            *(f"{statistics.median(one.rate for one in some):,.0f}" if some else "-" for some in found),
        ]


def lines(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool
) -> Iterator[str]:
    """A table."""
    table = [[title, *heads], *map(list, rows)]
    if markdown:
        yield f"| {' | '.join(table[0])} |"
        yield f"| --- |{' ---: |' * len(heads)}"
        yield from (f"| {' | '.join(row)} |" for row in table[1:])
    else:
        widths = [max(len(row[n]) for row in table) for n in range(len(table[0]))]
        for first, *cells in table:
            padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            yield f"{first.ljust(widths[0])}  {'  '.join(padded)}"
    yield ""


def show(table: Table, samples: Sequence[int], *, markdown: bool) -> None:
    """Print all."""
    heads = [f"{count:,}" for count in samples]
    for title, (say, form) in MEASURES.items():
        found = list(rows_of(table.cells, samples, say, form))
        print("\n".join(lines(title, heads, found, markdown=markdown)))
    over = list(ratios(table.cells, samples))
    print("\n".join(lines("evrun's samples/s over those of", heads, over, markdown=markdown)))
    if table.paces:
        steps = [f"{at_once} at once" for at_once in AT_ONCE]
        found = list(paces_of(table.paces))
        print("\n".join(lines("durable steps a second", steps, found, markdown=markdown)))
    print("* killed at the time limit: the rate, CPU, memory and bytes of what it came to by then.")
    for name, reason in table.absent.items():
        print(f"{name} is not in the table: {reason}")


def as_json(table: Table) -> str:
    """Every trial, and who is not there."""
    trials = [
        {"runner": name, "samples": samples, **one._asdict()}
        for (name, samples), found in table.cells.items()
        for one in found
    ]
    steps = [
        {"stepper": name, "at_once": at_once, **one._asdict()}
        for (name, at_once), found in table.paces.items()
        for one in found
    ]
    return json.dumps({"trials": trials, "steps": steps, "absent": table.absent}, indent=1)


def measure(table: Table, given: argparse.Namespace, samples: Sequence[int]) -> None:
    """All rounds, interleaved."""
    wanted = [RUNNERS[name]() for name in given.runners.split(",")]
    there = [runner for runner in wanted if table.ready(runner)]
    for count in range(given.rounds):
        for number in samples:
            for runner in there if count == 0 or number <= ONE_ROUND else ():
                table.take(runner, number, given.in_flight, given.limit_s)
    if given.steps:
        for stepper in STEPPERS:
            table.ready(stepper)
        for _ in range(given.rounds):
            table.step(given.steps)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", default="1000,2000,10000,50000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--limit-s", type=float, default=120)
    parser.add_argument("--runners", default=",".join(RUNNERS))
    parser.add_argument("--steps", type=int, default=2000, help="durable steps a trial; 0: none")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where peers are installed")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path, help="write every trial there")
    given = parser.parse_args()
    unknown = set(given.runners.split(",")) - RUNNERS.keys()
    if unknown:
        parser.error(f"no such runner: {', '.join(sorted(unknown))}; there are {', '.join(RUNNERS)}")
    samples = [int(number) for number in given.samples.split(",")]
    with scratch() as room:
        table = Table(given.venvs, room)
        measure(table, given, samples)
        heading(f"{', '.join(table.versions)}; {given.in_flight} in flight, medians of {given.rounds}")
        show(table, samples, markdown=given.markdown)
    if given.json:
        given.json.write_text(as_json(table), "utf-8")


if __name__ == "__main__":
    main()
