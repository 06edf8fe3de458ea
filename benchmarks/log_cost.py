"""What the chain, HEAD, the checksums and the fence cost: each switched off by itself.

python benchmarks/log_cost.py [--rounds 7]

The switches are in this file and nowhere else: a function of the storage is replaced for the time of one
measurement. Logs written so are no logs any more; they are read back under the same switch.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from _log_bench import MEBIBYTE, fresh, heading, in_turn, median_ratio, open_log, scratch, typical_events

from eventlog.storage import framing, head
from eventlog.storage.head_file import HeadFile
from eventlog.storage.lock import Lock

SINGLE = 150
WIDTH, EACH = 64, 60
FRAMES = 3000


def no_chain(_stamp: object, before: framing.Place, *_: object) -> bytes:
    """Instead of a SHA-256, the value before it."""
    return before.chain


def no_checksum(*_: object) -> int:
    """Instead of an xxh3-64."""
    return 0


def no_note(self: HeadFile, _: object) -> None:
    """Instead of writing HEAD."""
    self.unsynced = False


CHAIN = (framing, "next_chain", no_chain)
CHECKSUMS = ((framing, "xxh3_64_intdigest", no_checksum), (head, "xxh3_64_intdigest", no_checksum))
HEAD = (HeadFile, "write", no_note)
FENCE = (Lock, "is_ours", lambda _: True)

SWITCHED_OFF: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "nothing": (),
    "the chain": (CHAIN,),
    "HEAD": (HEAD,),
    "the checksums": CHECKSUMS,
    "the fence": (FENCE,),
    "all four": (CHAIN, HEAD, *CHECKSUMS, FENCE),
}


class Cost(NamedTuple):
    """One measurement, all in µs: a single append, an event of 64 waiting clients, an event read back."""

    single: float
    grouped: float
    read: float


def measure(directory: Path, events: list[bytes]) -> Cost:
    """A fresh log: appends one by one, appends of clients, reading."""
    with open_log(fresh(directory), first_segment_bytes=16 * MEBIBYTE) as log:
        log.append([b"the segment is made"])
        single = statistics.median(timed(partial(log.append, (event,))) for event in events[:SINGLE])

        async def client() -> None:
            for event in events[:EACH]:
                await log.submit_async((event,))

        async def clients() -> None:
            await asyncio.gather(*(client() for _ in range(WIDTH)))

        grouped = timed(lambda: asyncio.run(clients())) / (WIDTH * EACH)
        many = [log.submit((event,)) for event in events[:FRAMES]]
        many[-1].wait()
        reader = log.reader()
        read = min(timed(lambda: sum(1 for _ in reader.read())) for _ in range(3)) / reader.end.sequence
    return Cost(single * 1e6, grouped * 1e6, read * 1e6)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def without(switches: tuple[tuple[Any, str, Any], ...], work: Callable[[], Cost]) -> Cost:
    """Measure with these replaced."""
    patches = [mock.patch.object(owner, name, replacement) for owner, name, replacement in switches]
    for patch in patches:
        patch.start()
    try:
        return work()
    finally:
        for patch in patches:
            patch.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    events = typical_events(FRAMES)
    heading(
        f"What each costs, on events of {len(events[0])} bytes. `to all on`: median of the ratios of one "
        "round; below 1 is what switching off saves."
    )
    costs: dict[str, list[Cost]] = {name: [] for name in SWITCHED_OFF}

    def side(name: str, directory: Path) -> Callable[[], float]:
        def run() -> float:
            cost = without(SWITCHED_OFF[name], lambda: measure(directory, events))
            costs[name].append(cost)
            return cost.single

        return run

    with scratch() as directory:
        in_turn({name: side(name, directory / "log") for name in SWITCHED_OFF}, given.rounds)
    print(f"{'switched off':<15}" + "".join(f"{what:>17}{'to all on':>11}" for what in
          ("one append µs", f"of {WIDTH} clients µs", "read back µs")))  # fmt: skip
    for name, found in costs.items():
        line = f"{name:<15}"
        for field in range(len(Cost._fields)):
            values, base = ([cost[field] for cost in them] for them in (found, costs["nothing"]))
            line += f"{statistics.median(values):>17.1f}{median_ratio(values, base):>11.2f}"
        print(line)


if __name__ == "__main__":
    main()
