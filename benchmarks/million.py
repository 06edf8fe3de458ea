"""A million prompts on one machine: killed twice, resumed, finished, then read in every way.

python benchmarks/million.py [--prompts 1000000] [--sizes 100000,1000000] [--in-flight 64] [--generate]
                             [--directory DIR] [--json FILE]

At a tenth of the prompts and at all of them (or at `--sizes`), so that growth is seen. `evrun run` works
against the endpoint (tests/endpoint, a process of its own, no latency); SIGKILL after a third and after two
thirds of the calls. The first resume is not given the dataset, the second one is. Then, each in a process of
its own: a resume with nothing to do, status, list, audit, verify, replay into another directory,
replay --check, compact, and verify again. Each process: seconds, CPU, peak memory; of a run also the seconds
to its first call. At the end every call of the log is compared with what the endpoint served. With
`--generate` the log is made without calls (benchmarks/million_log.py) but for the last thousandth, which a
resume finishes by calls.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from _log_bench import heading, scratch  # noqa: E402
from _million_rows import write_dataset  # noqa: E402
from _million_steps import Machine, Step  # noqa: E402
from _million_table import table  # noqa: E402

from tests.endpoint.client import RunningEndpoint, running_endpoint  # noqa: E402

ACCOUNT = ROOT / "benchmarks/_million_account.py"
GENERATOR = ROOT / "benchmarks/million_log.py"
CALLED = ("--run-name", "r", "--output-dir", "data")


def by_calls(machine: Machine, endpoint: RunningEndpoint, prompts: int, in_flight: int) -> None:
    """The run itself, in three sessions."""

    def served() -> int:
        return int(endpoint.totals()["requests"])

    options = (
        "--model", "m", "--base-url", endpoint.base_url, "--toolsets", "none", "--keep-all",
        "--concurrency", in_flight, "--quiet",
    )  # fmt: skip
    third = prompts // 3
    machine.evrun("run, killed", "run", "rows.jsonl", *CALLED, *options, served=served, kill_at=third)
    machine.evrun("resume, killed", "run", *CALLED, "--resume", "--quiet", served=served, kill_at=2 * third)
    machine.evrun("resume, finished", "run", "rows.jsonl", *CALLED, "--resume", "--quiet", served=served)


def generated(machine: Machine, endpoint: RunningEndpoint, prompts: int, in_flight: int) -> None:
    """A log made without calls, ended as by a kill; the rest by calls."""

    def served() -> int:
        return int(endpoint.totals()["requests"])

    pending = max(1, prompts // 1000)
    left_open = min(in_flight, max(1, prompts // 10))
    finished = prompts - pending - left_open
    command = [
        sys.executable, GENERATOR, "data/r", "--prompts", finished, "--open", left_open,
        "--pending", pending, "--dataset", "rows.jsonl", "--base-url", endpoint.base_url,
    ]  # fmt: skip
    machine.run("log generated", [str(word) for word in command])
    machine.evrun("resume, finished", "run", *CALLED, "--resume", "--quiet", served=served)


def read(machine: Machine) -> None:
    """All that reads the log of a finished run."""
    machine.evrun("resume, nothing to do", "run", *CALLED, "--resume", "--quiet")
    machine.evrun("status", "status", "data/r")
    machine.evrun("list", "list", "--output-dir", "data")
    machine.evrun("audit", "audit", "data/r")
    machine.evrun("verify", "verify", "data/r")
    machine.evrun("replay --out", "replay", "data/r", "--out", "again")
    machine.evrun("replay --check", "replay", "data/r", "--check")


def at(prompts: int, directory: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Everything at one size: the steps, and the accounts before and after compaction."""
    print(f"{prompts} prompts", flush=True)
    directory.mkdir(parents=True)
    machine = Machine(directory, lambda text: print(text, flush=True))
    with running_endpoint(counts_only=True) as endpoint:
        if given.generate:
            generated(machine, endpoint, prompts, given.in_flight)
        else:
            write_dataset(directory / "rows.jsonl", prompts)
            by_calls(machine, endpoint, prompts, given.in_flight)
        first = 2 if given.generate else 1
        account = asked(machine, directory, endpoint, first)
        read(machine)
        machine.evrun("compact", "compact", "data/r")
        machine.evrun("verify, compacted", "verify", "data/r")
        compacted = asked(machine, directory, endpoint, first)
    steps = [step._asdict() for step in machine.steps]
    return {"prompts": prompts, "steps": steps, "account": account, "compacted": compacted["log"]}


def asked(machine: Machine, directory: Path, endpoint: RunningEndpoint, first: int) -> dict[str, Any]:
    """The comparison with the endpoint's account, by a process of its own."""
    out = directory / "account.json"
    command = [sys.executable, str(ACCOUNT), "data/r", endpoint.root_url, str(first), str(out)]
    step: Step = machine.aside("calls compared", command)
    found: dict[str, Any] = json.loads(out.read_text())
    return {**found, "seconds": step.seconds}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--generate", action="store_true")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sizes = given.sizes or [given.prompts // 10, given.prompts]
    heading(f"{sizes[-1]} prompts, {given.in_flight} in flight")
    with scratch() as made:
        place = given.directory or made
        found = [at(count, place / str(count), given) for count in sizes]
    print(table(found))
    if given.json is not None:
        given.json.write_text(json.dumps({"generated": given.generate, "found": found}, indent=1) + "\n")
    wrong = [one["prompts"] for one in found if not fits(one["account"])]
    if wrong:
        sys.exit(f"the log and the endpoint's account do not agree at {wrong}")


def fits(account: dict[str, Any]) -> bool:
    """Whether every call of the log and every request of the endpoint has its other half."""
    calls = account["calls"]
    return not (calls["wrong"] or calls["unknown_to_the_log"] or calls["open"])


if __name__ == "__main__":
    main()
