"""What grows with what: the log with turns, linearly; memory with rows, hardly.

`EVRUN_ROWS=5000 EVRUN_CELL_MB=60 scripts/test tests/e2e/test_growth.py` does it at the size of a real run;
without them it does as much as shows a leak.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.events import ModelAnswered, ToolFinished, decode_event
from eventlog.storage import LogReader
from tests import hermes
from tests.e2e.case import Case
from tests.endpoint.client import running_endpoint
from tests.runs import environment

pytestmark = pytest.mark.timeout(3600)  # at full size the loopback endpoint alone takes minutes
ROWS = int(os.environ.get("EVRUN_ROWS", "400"))
IMPORTED_ROWS = int(os.environ.get("EVRUN_ROWS", "1000"))
CELL_MB = int(os.environ.get("EVRUN_CELL_MB", "12"))
ROW_BYTES = 100_000
FEW = 100
TURNS = 200
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def payloads(run: Path) -> Iterator[bytes]:
    """The bytes of all events of a run."""
    with LogReader.open(run / "log") as reader:
        for record in reader.read():
            yield record.payload


def test_the_log_grows_by_the_same_with_each_turn(tmp_path: Path) -> None:
    """Two hundred turns with tools: the second hundred takes what the first took; no request is stored."""
    written = {"tool_calls": [{"name": "write_file", "arguments": {"path": "f", "content": "w" * 500}}]}
    read = {"tool_calls": [{"name": "read_file", "arguments": {"path": "f"}}], "text": "turn {turn}"}
    rules = [{"match": {"turn": 1}, "then": written}, {"match": {}, "then": read}]
    prompt = "a prompt that is told from everything else"
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "file", "--max-turns", TURNS)
        case.write(prompt)
        ended = case.first()
        assert ended.code == 0, ended
    turns: list[int] = []
    mentioned = 0
    for payload in payloads(case.run_directory):
        event = decode_event(payload)
        mentioned += payload.count(prompt.encode()) if not isinstance(event, ModelAnswered) else 0
        if isinstance(event, ModelAnswered):
            turns.append(0)
        if turns:
            turns[-1] += len(payload)
    assert len(turns) == TURNS == case.rows()[0]["api_calls"]
    first, second = sum(turns[: TURNS // 2]), sum(turns[TURNS // 2 :])
    assert second < 1.1 * first
    assert mentioned == 1, "the prompt is in its plan, and nowhere else"
    assert len(case.events(ToolFinished)) == TURNS


def measured(directory: Path, *command: str) -> int:
    """The peak memory in bytes of an `evrun` command."""
    # Linux counts what a process was before it became another program: so a small one starts it.
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, sys.executable, "-m", "cli.main", *command],
        cwd=directory, env=environment(), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


def peak_of(directory: Path, rows: int, cell_bytes: int = 0) -> int:
    """The peak memory in bytes of the process that runs so many rows, and one more of a size of its own."""
    directory.mkdir()
    with (directory / "d.jsonl").open("w", encoding="utf-8") as dataset:
        for number in range(rows):
            dataset.write(json.dumps({"prompt": f"{number} " + "x" * ROW_BYTES}) + "\n")
        if cell_bytes:
            dataset.write(json.dumps({"prompt": "y" * cell_bytes}) + "\n")
    with running_endpoint(text="ok", reasoning="hm") as endpoint:
        peak = measured(
            directory, "run", "d.jsonl", "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "none", "--concurrency", "4", "--quiet",
        )  # fmt: skip
    with (directory / "data/r/trajectories.jsonl").open("rb") as trajectories:
        assert sum(1 for _ in trajectories) == rows + bool(cell_bytes)
    return peak


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Rows of 100 KB, a few and very many: of a row only its identity stays."""
    few, many = peak_of(tmp_path / "few", FEW), peak_of(tmp_path / "many", ROWS)
    assert many - few < min((ROWS - FEW) * ROW_BYTES / 4, 40_000_000)


def test_one_huge_row_costs_its_own_size_a_few_times_and_no_more_among_many(tmp_path: Path) -> None:
    """One cell of many megabytes, alone and among the rows: it is one row, held once at a time."""
    cell = CELL_MB * 1_000_000
    none, alone = peak_of(tmp_path / "none", 4), peak_of(tmp_path / "alone", 4, cell)
    among = peak_of(tmp_path / "among", ROWS // 10, cell)
    assert alone - none < 10 * cell
    assert among - alone < 2 * cell


def test_memory_of_an_import_does_not_grow_with_its_rows(tmp_path: Path) -> None:
    """A directory of Hermes with few and with many trajectories of 100 KB: read row by row."""
    # An import takes rows much faster than a run does, so its buffers are full only after some hundred rows.
    peaks = {}
    for rows in (FEW, IMPORTED_ROWS):
        lines: list[object] = [hermes.row(number, f"{number} " + "x" * ROW_BYTES) for number in range(rows)]
        hermes.write(tmp_path / str(rows), {"batch_0.jsonl": lines})
        peaks[rows] = measured(tmp_path, "import", "hermes", str(rows), "--run-name", f"r{rows}")
    assert peaks[IMPORTED_ROWS] - peaks[FEW] < min((IMPORTED_ROWS - FEW) * ROW_BYTES / 4, 40_000_000)
