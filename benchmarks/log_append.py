"""One durable append, and many waiting clients: the log beside the raw calls and SQLite, in turn.

python benchmarks/log_append.py [--blocks 60] [--rounds 7]
"""

import argparse
import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import count, cycle
from pathlib import Path

from _log_bench import MEBIBYTE, PlainFile, heading, in_turn, median_ratio, open_log, scratch, typical_events
from _log_sqlite import INSERT, GroupCommit, connect, insert_group

from eventlog.storage.framing import Place, Stamp, build_commit

BLOCK = 25  # appends of one side before it is another one's turn
WIDTHS = {64: 150, 1024: 20}  # clients: appends of each in one measurement


class OtherThread:
    """The raw calls in a thread of their own, handed over by two bare locks: what any writer thread costs."""

    def __init__(self, file: PlainFile) -> None:
        self._file = file
        self._data = b""
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        threading.Thread(target=self._work, daemon=True).start()

    def append(self, data: bytes) -> None:
        """Make the bytes durable, over there."""
        self._data = data
        self._go.release()
        self._done.acquire()

    def _work(self) -> None:
        while True:
            self._go.acquire()
            self._file.append(self._data)
            self._done.release()


def block_of(
    append: Callable[[bytes], object], events: list[bytes], every: list[float]
) -> Callable[[], float]:
    """A measurement: the median of a block of appends; each single one is kept in `every`."""
    source = cycle(events)

    def measure() -> float:
        times = []
        for _ in range(BLOCK):
            event = next(source)
            began = time.perf_counter()
            append(event)
            times.append(time.perf_counter() - began)
        every.extend(times)
        return statistics.median(times)

    return measure


def single(directory: Path, blocks: int) -> None:
    """Figure 2: one durable append."""
    events = typical_events(1000)
    frames = [build_commit(Stamp(bytes(16), 1, 1), Place(0, bytes(32), 0, 0), 1, [one])[0] for one in events]
    raw, other = (PlainFile(directory / name, 16 * MEBIBYTE) for name in ("raw", "other"))
    database = connect(directory / "single.db")
    with open_log(directory / "single", first_segment_bytes=16 * MEBIBYTE) as log:
        log.append([b"the segment is made"])
        sides: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
            "raw pwrite + fdatasync": (raw.append, frames),
            "the same in another thread": (OtherThread(other).append, frames),
            "evrun, append()": (lambda event: log.append((event,)), events),
            "SQLite WAL FULL, INSERT": (lambda event: database.execute(INSERT, (event,)), events),
        }
        every: dict[str, list[float]] = {name: [] for name in sides}
        said = in_turn({name: block_of(*side, every[name]) for name, side in sides.items()}, blocks)
    print(
        f"\none durable append of {len(events[0])} bytes (a frame of {len(frames[0])}), {blocks * BLOCK} each"
    )
    print(f"{'':<30}{'p10 µs':>9}{'p50 µs':>9}{'p90 µs':>9}{'to raw':>8}")
    base = said["raw pwrite + fdatasync"]
    for name, times in every.items():
        tenths = [value * 1e6 for value in statistics.quantiles(times, n=10)]
        goal = "   goal: at most 1.3" if name.startswith("evrun") else ""
        print(
            f"{name:<30}{tenths[0]:>9.0f}{tenths[4]:>9.0f}{tenths[8]:>9.0f}"
            f"{median_ratio(said[name], base):>8.2f}{goal}"
        )


def clients_rate(
    append: Callable[[bytes], Awaitable[object]], events: list[bytes], width: int, each: int
) -> Callable[[], float]:
    """A measurement: events a second of so many clients, each waiting for its own append before the next."""

    async def client(start: int) -> None:
        for at in range(start, start + each):
            await append(events[at % len(events)])

    async def measure() -> float:
        clients = [asyncio.ensure_future(client(number * each)) for number in range(width)]
        began = time.perf_counter()
        await asyncio.gather(*clients)
        return width * each / (time.perf_counter() - began)

    return lambda: asyncio.run(measure())


def groups_rate(write: Callable[[list[bytes]], None], events: list[bytes], width: int, each: int) -> float:
    """Events a second of one caller that has the whole group in its hand."""
    began = time.perf_counter()
    for number in range(each):
        start = number * width % len(events)
        write(events[start : start + width])
    return width * each / (time.perf_counter() - began)


class NothingWritten:
    """Futures that are done as soon as all clients wait: what asyncio alone costs."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def append(self, _: bytes) -> "asyncio.Future[None]":
        """A future, done two turns of the loop after the first one of its group."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            loop.call_soon(loop.call_soon, self._tell)
        return future

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_result(None)


def waiting_clients(directory: Path, width: int, rounds: int) -> None:
    """Figure 3: events a second at `width` waiting clients."""
    events = typical_events(8192)
    each = WIDTHS[width]
    names = count()
    raw = PlainFile(directory / f"raw-{width}", 1024 * MEBIBYTE)
    one, other = (connect(directory / f"{width}-{next(names)}.db") for _ in range(2))
    together = GroupCommit(other)
    with open_log(directory / f"log-{width}") as log:
        sides: dict[str, Callable[[], float]] = {
            "raw, one write a group": lambda: groups_rate(
                lambda group: raw.append(b"".join(group)), events, width, each
            ),
            "SQLite, executemany": lambda: groups_rate(
                lambda group: insert_group(one, group), events, width, each
            ),
            "SQLite, a future each": clients_rate(together.append, events, width, each),
            "evrun, a future each": clients_rate(
                lambda event: log.submit_async((event,)), events, width, each
            ),
            "asyncio alone, no disk": clients_rate(NothingWritten().append, events, width, each),
        }
        said = in_turn(sides, rounds)
    together.close()
    raw.close()
    print(f"\n{width} waiting clients, {len(events[0])} bytes an event, {rounds} rounds of {width * each}")
    print(f"{'':<26}{'events/s':>10}{'to executemany':>16}{'to raw':>9}")
    for name, rates in said.items():
        goal = "   goal: at least 1.0 of executemany" if name.startswith("evrun") else ""
        print(
            f"{name:<26}{statistics.median(rates):>10,.0f}"
            f"{median_ratio(rates, said['SQLite, executemany']):>16.2f}"
            f"{median_ratio(rates, said['raw, one write a group']):>9.2f}{goal}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    heading("Appending. `to`: the median of the ratios of measurements made side by side.")
    with scratch() as directory:
        single(directory, given.blocks)
        for width in WIDTHS:
            waiting_clients(directory, width, given.rounds)


if __name__ == "__main__":
    main()
