"""What runners know of the money after a kill -9: each one's own account beside the endpoint's.

python benchmarks/money_table.py [--prompts 240] [--in-flight 24] [--latency-ms 300] [--seeds 1,2]
                                 [--runners evrun,inspect_ai,…] [--venvs DIR] [--markdown] [--json FILE]

Each trial: prompts to a loopback endpoint that bills every request that reached it; the runner's whole
process group is killed at a moment drawn from the seed, about half-way; then its own way to resume, to the
end. The trials of a seed follow one another, runner by runner. Peers are installed through pip and npm into
environments of their own under --venvs. `--runners` takes names below or `module:Class`.
"""

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks._money import Outcome, Plan, Runner, Unavailable, kill_test  # noqa: E402

RUNNERS = {
    "evrun": "benchmarks._money_evrun:Evrun",
    "inspect_ai": "benchmarks._money_peers:InspectAi",
    "curator": "benchmarks._money_peers:Curator",
    "dbos": "benchmarks._money_peers:Dbos",
    "promptfoo": "benchmarks._money_peers:Promptfoo",
}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evrun-bench"

Trials = Mapping[str, Sequence[Outcome]]


def load(name: str) -> Runner:
    """The runner that a name stands for."""
    module, _, cls = RUNNERS.get(name, name).partition(":")
    if not cls:
        sys.exit(f"no such runner: {name}; there are {', '.join(RUNNERS)}, and module:Class")
    runner: Runner = getattr(importlib.import_module(module), cls)()
    return runner


def ready(runners: Sequence[Runner], cache: Path) -> tuple[list[Runner], list[str], dict[str, str]]:
    """Those that can be had, their versions, and for the others why not."""
    there, versions, absent = [], [], {}
    for runner in runners:
        try:
            versions.append(runner.install(cache))
            there.append(runner)
        except Unavailable as reason:
            absent[runner.name] = str(reason)
    return there, versions, absent


def measure(
    runners: Sequence[Runner], given: argparse.Namespace, seeds: Sequence[int], absent: dict[str, str]
) -> Trials:
    """Every runner for every seed, interleaved. One that does not come to its end leaves the table."""
    table: dict[str, list[Outcome]] = {runner.name: [] for runner in runners}
    with tempfile.TemporaryDirectory() as scratch:
        for seed in seeds:
            for n, runner in enumerate(runners):
                where = Path(scratch) / f"{seed}-{n}"
                plan = Plan(seed, given.prompts, given.in_flight, given.latency_ms)
                if runner.name in absent:
                    continue
                try:
                    found = kill_test(runner, plan, where)
                except RuntimeError as error:
                    absent[runner.name] = f"seed {seed}: {error}"
                    table.pop(runner.name)
                    continue
                print(f"{runner.name}: {found}", file=sys.stderr, flush=True)
                table[runner.name].append(found)
    return table


def each(outcomes: Sequence[Outcome], say: Callable[[Outcome], object]) -> str:
    """One value for each seed, or one alone if all agree."""
    said = [str(say(outcome)) for outcome in outcomes]
    return said[0] if len(set(said)) == 1 else " / ".join(said)


def inside(outcome: Outcome) -> str:
    """Whether the truth lies in the bracket, in tokens and in USD."""
    if outcome.tokens_inside is None:
        return "no bracket"
    held = outcome.tokens_inside and outcome.usd_inside is not False
    return "inside" if held else "OUTSIDE"


COLUMNS: Mapping[str, Callable[[Outcome], object]] = {
    "calls served": lambda o: o.served,
    "rows": lambda o: o.rows,
    "calls repeated": lambda o: o.repeated,
    "of these named (named in all)": lambda o: f"{o.repeated_named} ({o.named})",
    "tokens, truth": lambda o: o.true_tokens,
    "tokens reported": lambda o: o.tokens,
    "its rows add up to": lambda o: o.row_tokens,
    "missing": lambda o: o.missing,
    "own bracket, in tokens": lambda o: o.bracket or "none",
    "truth": inside,
}


def lines(table: Trials, *, markdown: bool) -> Iterator[str]:
    """The table, a row for each runner."""
    rows = [["runner", *COLUMNS]]
    rows += [[name, *(each(found, say) for say in COLUMNS.values())] for name, found in table.items()]
    if markdown:
        yield "| " + " | ".join(rows[0]) + " |"
        yield "| " + " | ".join("---" for _ in rows[0]) + " |"
        yield from ("| " + " | ".join(row) + " |" for row in rows[1:])
        return
    for title, *cells in zip(*rows, strict=True):  # sideways: a runner is a column
        widths = [max(map(len, row)) for row in rows[1:]]
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{title:<30}  {'  '.join(padded)}".rstrip()


def head(given: argparse.Namespace, versions: Sequence[str]) -> str:
    """The machine, the commit, the versions and what was asked for."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return (
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"commit {commit.stdout.strip()}\n{', '.join(versions)}\n"
        f"{given.prompts} prompts, {given.in_flight} in flight, answers after {given.latency_ms} to "
        f"{2 * given.latency_ms} ms, one kill -9 each, seeds {given.seeds}"
    )


def show(table: Trials, absent: Mapping[str, str], top: str, *, markdown: bool) -> None:
    """Print all."""
    print(f"```\n{top}\n```\n" if markdown else f"{top}\n")
    print("\n".join(lines(table, markdown=markdown)))
    print("\nOne value for each seed, or one for all. Missing: billed, and not in the runner's total.")
    for name, reason in absent.items():
        print(f"{name} is not in the table: {reason}")
    for name, found in table.items():
        codes = {outcome.exit_code for outcome in found} - {0}
        ended = f", exit codes {sorted(codes)}" if codes else ""
        print(f"{name}: {statistics.median(o.seconds for o in found):.0f} s for a trial{ended}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=240)
    parser.add_argument("--in-flight", type=int, default=24)
    parser.add_argument("--latency-ms", type=int, default=300)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--runners", default=",".join(RUNNERS), help="names, or module:Class")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where peers are installed")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path, help="write every outcome there")
    given = parser.parse_args()
    wanted = [load(name) for name in given.runners.split(",")]
    runners, versions, absent = ready(wanted, given.venvs)
    table = measure(runners, given, [int(seed) for seed in given.seeds.split(",")], absent)
    show(table, absent, head(given, versions), markdown=given.markdown)
    if given.json:
        found = {name: [o._asdict() | {"missing": o.missing} for o in row] for name, row in table.items()}
        given.json.write_text(json.dumps({"trials": found, "absent": absent}, indent=1), "utf-8")


if __name__ == "__main__":
    main()
