"""Bytes an event: raw, in the log, compressed, and against `zstd -19` of the same events as JSON lines.

python benchmarks/log_size.py [--prompts 400] [--tiny 20000]

The log of a real `evrun run` against the loopback endpoint, each prompt two to four turns with tool calls
and an answer of some hundred words; and a log of tiny events in groups of 64.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from _log_bench import ROOT, NeverSynced, heading, open_log, scratch

from eventlog.events import BudgetSpent, Usage, decode_event, encode_event, event_type
from eventlog.storage import LogReader, compact
from tests.endpoint.client import running_endpoint
from tests.runs import environment, write_prompts

WORDS = (ROOT / "README.md").read_text("utf-8").split()


def prose(draw: random.Random, words: int) -> str:
    """So many words: short runs of real text in a random order, so that it compresses much as text does."""
    text: list[str] = []
    while len(text) < words:
        start = draw.randrange(len(WORDS))
        text += WORDS[start : start + draw.randrange(2, 9)]
    return " ".join(text[:words])


def rules(count: int, draw: random.Random) -> list[dict[str, Any]]:
    """For each prompt: a file is written and mostly read again, then comes an answer of 100 to 400 words."""
    made: list[dict[str, Any]] = []
    for number in range(count):
        steps: list[dict[str, Any]] = [
            {"name": "write_file", "arguments": {"path": "notes.txt", "content": prose(draw, 150)}},
            {"name": "read_file", "arguments": {"path": "notes.txt"}},
        ]
        steps = steps[: draw.randrange(1, 4)]
        for turn, call in enumerate(steps, 1):
            then = {"tool_calls": [call], "reasoning": prose(draw, draw.randrange(20, 120))}
            made.append({"match": {"contains": f"({number})", "turn": turn}, "then": then})
        answer = {
            "text": prose(draw, draw.randrange(100, 400)),
            "reasoning": prose(draw, draw.randrange(50, 200)),
        }
        made.append({"match": {"contains": f"({number})", "turn": len(steps) + 1}, "then": answer})
    return made


def real_log(directory: Path, count: int) -> Path:
    """The log of a whole run."""
    draw = random.Random(11)
    prompts = [f"({number}) {prose(draw, draw.randrange(30, 120))}" for number in range(count)]
    dataset = write_prompts(directory / "prompts.jsonl", prompts)
    with running_endpoint() as endpoint:
        endpoint.set_rules(rules(count, draw))
        command = [
            sys.executable, "-m", "cli.main", "run", str(dataset), "--run-name", "r",
            "--output-dir", str(directory), "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "file", "--keep-all", "--quiet", "--concurrency", "32",
        ]  # fmt: skip
        subprocess.run(
            command, env=environment(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    return directory / "r/log"


def tiny_log(directory: Path, count: int) -> Path:
    """A log of spend events, 64 a commit."""
    draw = random.Random(12)
    with open_log(directory, filesystem=NeverSynced()) as log:
        for start in range(0, count, 64):
            log.append([tiny_event(draw, number) for number in range(start, min(count, start + 64))])
    return directory


def tiny_event(draw: random.Random, number: int) -> bytes:
    """A call that was settled."""
    usage = Usage(draw.randrange(50, 900), None, draw.randrange(1, 400), None)
    return encode_event(BudgetSpent(f"{draw.randbytes(16).hex()}:1:{number % 3 + 1}", usage, None, None))


def plain_copy(log: Path, copy: Path) -> list[bytes]:
    """The same commits in a log without compression (a run compresses as it goes); returns all events."""
    payloads: list[bytes] = []
    with LogReader.open(log) as reader, open_log(copy, filesystem=NeverSynced()) as writer:
        for _, commit in groupby(reader.read(), key=lambda record: (record.epoch, record.time_ns)):
            events = [record.payload for record in commit]
            writer.append(events)
            payloads += events
    return payloads


def describe(name: str, made: Path) -> None:
    """Measure the log as it is, compress it, and print both."""
    log = made.with_name("plain")
    payloads = plain_copy(made, log)
    count = len(payloads)
    plain = sum(len(path.read_bytes().rstrip(b"\0")) for path in log.glob("*.evl"))
    lines = b"".join(as_line(payload) for payload in payloads)
    began = time.perf_counter()
    compact(log, random_bytes=os.urandom)
    took = time.perf_counter() - began
    twin = sum(path.stat().st_size for path in log.glob("*.evz"))
    with LogReader.open(log) as reader:
        assert [record.payload for record in reader.read()] == payloads
    shutil.rmtree(log)
    rows = {
        "events as they are": sum(map(len, payloads)),
        "plain log (.evl)": plain,
        "compressed log (.evz)": twin,
        "JSON lines": len(lines),
        "JSON lines, zstd -3": len(zstandard.ZstdCompressor(3).compress(lines)),
        "JSON lines, zstd -19": len(zstandard.ZstdCompressor(19).compress(lines)),
    }
    print(f"\n{name}: {count} events; compacting took {took:.2f} s, {plain / took / 1e6:.0f} MB/s")
    print(f"{'':<26}{'bytes an event':>15}{'to zstd -19':>13}{'to raw events':>15}")
    best, raw = rows["JSON lines, zstd -19"], rows["events as they are"]
    for what, size in rows.items():
        print(f"{what:<26}{size / count:>15.1f}{size / best:>13.2f}{size / raw:>15.2f}")


def as_line(payload: bytes) -> bytes:
    """The event as one line of JSON; bytes as text, since nearly all of it is."""
    event = msgspec.to_builtins(decode_event(payload), builtin_types=(bytes,))
    return msgspec.json.encode([event_type(payload), text_in(event)]) + b"\n"


def text_in(value: Any) -> Any:
    """The same with text for bytes."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, list | tuple):
        return [text_in(one) for one in value]
    if isinstance(value, dict):
        return {key: text_in(one) for key, one in value.items()}
    return value


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--tiny", type=int, default=20_000)
    given = parser.parse_args()
    heading("Sizes.")
    with scratch() as directory:
        describe(f"a run of {given.prompts} prompts with tool calls", real_log(directory, given.prompts))
        describe("tiny events, 64 a commit", tiny_log(directory / "tiny", given.tiny))


if __name__ == "__main__":
    main()
