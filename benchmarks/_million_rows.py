"""The prompts of the million: the example's real ones, again and again with a number in front."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def prompts(count: int) -> Iterator[str]:
    """As many different prompts, one at a time; the same ones each time."""
    lines = (ROOT / "examples/gsm8k_20.jsonl").read_text("utf-8").splitlines()
    real = [json.loads(line)["prompt"] for line in lines]
    numbered = (f"({n}) {real[n % len(real)]}" for n in range(len(real), max(count, len(real))))
    yield from islice(real, count)
    yield from numbered


def rows(count: int) -> Iterator[bytes]:
    """The lines of their dataset, without the line ends."""
    for prompt in prompts(count):
        yield json.dumps({"prompt": prompt}).encode()


def write_dataset(path: Path, count: int) -> Path:
    """The dataset as a file."""
    with path.open("wb") as file:
        file.writelines(row + b"\n" for row in rows(count))
    return path
