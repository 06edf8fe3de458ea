"""The event loop while the disk is slow: the longest gap between two of its turns.

python benchmarks/log_stall.py [--rounds 3] [--syncs 8]

Each fdatasync of the log takes 300 ms. Clients append and wait; a timer of 1 ms notes when it gets its turn.
In turn with it the same clients wait for a sleep of 300 ms instead of the log: what the machine, the timer
and asyncio add by themselves. `CPU` is how much of the gap the loop's own thread was at work; the rest it
waited for a core, for the interpreter's lock or, if the log were to block it, for the disk.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

from _log_bench import fresh, heading, in_turn, open_log, scratch, typical_events

from eventlog.storage import RealFileSystem

SYNC_S = 0.3
TICK_S = 0.001
WIDTHS = (64, 256, 1024)
GOAL_MS = 5


class SlowDisk(RealFileSystem):
    """Real files; each fdatasync takes 300 ms more."""

    def fdatasync(self, fd: int) -> None:
        """Sleep, then sync."""
        time.sleep(SYNC_S)
        super().fdatasync(fd)


async def longest_gap(work: Coroutine[object, object, object], cpu_ms: list[float]) -> float:
    """The longest time between two turns of the loop until the work is done, in ms; the CPU time, noted."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(TICK_S)  # the turn in which all clients are made counts for nobody
    longest = longest_cpu = 0.0
    before, cpu_before = time.perf_counter(), time.thread_time()
    while not task.done():
        await asyncio.sleep(TICK_S)
        now, cpu_now = time.perf_counter(), time.thread_time()
        longest, before = max(longest, now - before), now
        longest_cpu, cpu_before = max(longest_cpu, cpu_now - cpu_before), cpu_now
    cpu_ms.append(longest_cpu * 1000)
    return longest * 1000


async def clients(wait: Callable[[bytes], Awaitable[object]], width: int, each: int) -> None:
    """So many clients, each waiting so often."""
    events = typical_events(100)

    async def client(start: int) -> None:
        for number in range(each):
            await wait(events[(start + number) % len(events)])

    await asyncio.gather(*(client(number) for number in range(width)))


def with_log(directory: Path, width: int, syncs: int, cpu_ms: list[float]) -> float:
    """Clients of a log on a slow disk."""
    with open_log(fresh(directory), filesystem=SlowDisk(), first_segment_bytes=64 << 20) as log:
        work = clients(lambda event: log.submit_async((event,)), width, syncs)
        return asyncio.run(longest_gap(work, cpu_ms))


def without_log(width: int, syncs: int, cpu_ms: list[float]) -> float:
    """Clients of a clock."""
    return asyncio.run(longest_gap(clients(lambda _: asyncio.sleep(SYNC_S), width, syncs), cpu_ms))


def measure(directory: Path, width: int, syncs: int, rounds: int) -> None:
    """Both sides at one width, in turn."""
    cpu_ms: dict[str, list[float]] = {"log": [], "sleep": []}
    sides: dict[str, Callable[[], float]] = {
        "log": lambda: with_log(directory / "log", width, syncs, cpu_ms["log"]),
        "sleep": lambda: without_log(width, syncs, cpu_ms["sleep"]),
    }
    for name, gaps in in_turn(sides, rounds).items():
        goal = f"   goal: under {GOAL_MS}" if name == "log" else ""
        cpu = statistics.median(cpu_ms[name])
        print(f"{width:>8} {name:<8}{statistics.median(gaps):>8.1f}{max(gaps):>10.1f}{cpu:>9.1f}{goal}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--syncs", type=int, default=8)
    given = parser.parse_args()
    heading(
        f"The longest gap between two turns of the loop, {given.syncs} syncs of {SYNC_S * 1000:.0f} ms each"
    )
    print(f"{'clients':>8}{'':>4}{'median ms':>13}{'worst ms':>10}{'CPU ms':>9}")
    with scratch() as directory:
        for width in WIDTHS:
            measure(directory, width, given.syncs, given.rounds)


if __name__ == "__main__":
    main()
