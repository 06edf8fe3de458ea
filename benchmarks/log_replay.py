"""Replay beside bare decoding of the same bytes, and opening after an unclean end.

python benchmarks/log_replay.py [--events 100000] [--mebibytes 64] [--rounds 5]
"""

import argparse
import shutil
import statistics
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec
from _log_bench import (
    MEBIBYTE,
    NeverSynced,
    fresh,
    heading,
    in_turn,
    median_ratio,
    open_log,
    scratch,
    typical_events,
)

from eventlog.events import ModelAnswered, decode_event
from eventlog.storage import LogReader, verify

GROUPS = (1, 8, 64)  # events a commit


def make_log(directory: Path, events: list[bytes], group: int) -> None:
    """A log of these events, so many a commit, ended as a kill ends it: nothing is closed."""
    made = directory.with_suffix(".made")
    with open_log(made, filesystem=NeverSynced()) as log:
        for start in range(0, len(events), group):
            log.submit(events[start : start + group]).wait()
        shutil.copytree(made, fresh(directory))
    shutil.rmtree(made)


def rate(count: int, work: Callable[[], object]) -> float:
    """Events a second."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def run_through(reader: LogReader) -> None:
    """Read and verify every event; decode none."""
    for _ in reader.read():
        pass


def replay(reader: LogReader) -> None:
    """Read, verify and decode every event, as every fold does."""
    for record in reader.read():
        decode_event(record.payload)


def replaying(directory: Path, events: list[bytes], rounds: int) -> None:
    """Figure 5."""
    decode = msgspec.msgpack.Decoder(tuple[str, int, ModelAnswered]).decode
    print(f"\nreplay of {len(events)} events of {len(events[0])} bytes")
    print(f"{'events a commit':>15}  {'':<32}{'events/s':>10}{'to bare':>9}")
    for group in GROUPS:
        log = directory / "replay"
        make_log(log, events, group)
        reader = LogReader.open(log)

        def bare() -> None:
            for event in events:
                decode(event)

        def by_codec() -> None:
            for event in events:
                decode_event(event)

        sides: dict[str, Callable[[], float]] = {
            "bare msgspec decode": lambda: rate(len(events), bare),
            "the same by evrun's codec": lambda: rate(len(events), by_codec),
            "read and verify": lambda: rate(len(events), lambda: run_through(reader)),  # noqa: B023
            "read, verify, decode": lambda: rate(len(events), lambda: replay(reader)),  # noqa: B023
        }
        said = in_turn(sides, rounds)
        for name, rates in said.items():
            goal = "   goal: at least 0.5" if name.endswith("decode") and "," in name else ""
            print(
                f"{group:>15}  {name:<32}{statistics.median(rates):>10,.0f}"
                f"{median_ratio(rates, said['bare msgspec decode']):>9.2f}{goal}"
            )
        shutil.rmtree(log)


def opening(directory: Path, mebibytes: int, rounds: int) -> None:
    """Figure 6: opening for writing after an unclean end."""
    print(f"\nopening for writing after an unclean end, {mebibytes} MiB of log")
    print(f"{'events a commit':>15}  {'':<32}{'s per 64 MiB':>13}{'to SHA-256':>11}")
    for group in (1, 64):
        events = typical_events(mebibytes * MEBIBYTE // (512 if group == 1 else 316))
        log, copy = directory / "open", directory / "copy"
        make_log(log, events, group)
        size = sum(len(path.read_bytes().rstrip(b"\0")) for path in log.glob("*.evl"))
        scale = 64 * MEBIBYTE / size

        def opened() -> float:
            shutil.copytree(log, fresh(copy))  # noqa: B023
            began = time.perf_counter()
            writer = open_log(copy)  # noqa: B023
            took = time.perf_counter() - began
            writer.close()
            return took * scale  # noqa: B023

        def hashed() -> float:
            began = time.perf_counter()
            for path in log.glob("*.evl"):  # noqa: B023
                sha256(path.read_bytes()).digest()
            return (time.perf_counter() - began) * scale  # noqa: B023

        assert verify(log).opens
        said = in_turn({"LogWriter.open": opened, "read and SHA-256": hashed}, rounds)
        for name, times in said.items():
            print(
                f"{group:>15}  {name:<32}{statistics.median(times):>13.2f}"
                f"{median_ratio(times, said['read and SHA-256']):>11.1f}"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--mebibytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    heading("Reading. `to`: the median of the ratios of measurements made side by side.")
    with scratch() as directory:
        replaying(directory, typical_events(given.events), given.rounds)
        opening(directory, given.mebibytes, min(3, given.rounds))


if __name__ == "__main__":
    main()
