"""Exports of real runs: while they go on, after their process was killed, and when they are done."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.events import Event
from tests.e2e.case import Case, hang
from tests.endpoint.client import running_endpoint
from tests.exports import judged, make_run, story, view_row
from tests.runs import ROOT, environment, evrun, finish, rows_of, start, wait_until


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """A run whose fourth prompt is not answered until it is asked again."""
    with running_endpoint(rules=[hang(prompt="d")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--batch-size", "2", "--concurrency", "2")
        case.write("a", "b", "c", "d", "e")
        yield case


def exported(case: Case, name: str) -> list[dict[str, object]]:
    """The rows of an export made now, as rows of a view."""
    ended = evrun("export", "r", "--format", "jsonl", "-o", name, cwd=case.directory)
    assert ended.code == 0, ended
    return [view_row(row) for row in rows_of(case.directory / name)]


def test_a_run_is_exported_while_it_goes_on_after_a_kill_and_when_it_is_done(case: Case) -> None:
    """Each time what is durable then; the run does not notice, and at the end all rows are there."""
    process = start(*case.command(), cwd=case.directory)
    batch = case.run_directory / "batch_3.jsonl"
    wait_until(batch.exists, "the last prompt to be kept while the fourth one hangs")
    going_on = exported(case, "going-on.jsonl")
    prompts = [row["conversations"][1]["value"] for row in going_on]  # type: ignore[index]
    assert sorted(prompts) == ["a", "b", "c", "e"]
    assert prompts[2:] == ["c", "e"]
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert exported(case, "killed.jsonl") == going_on
    assert case.resume().code == 0
    done = exported(case, "done.jsonl")
    assert done == case.rows()
    assert len(done) == 5
    assert evrun("audit", "r", cwd=case.directory).code == 0


MEBIBYTE = 1 << 20
# Of this process alone: what getrusage tells begins with the memory of the one that started it.
LIMIT = """
import re, sys
sys.path.insert(0, {root!r})
from cli.main import call
from evrun.export import tables
tables.need_pyarrow()
tables.GROUP_BYTES = 2 << 20
code = call(["export", "r", "--format", {how!r}, "-o", {how!r}])
print(re.search("VmHWM:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1])
sys.exit(code)
"""


def large_story(rows: int) -> list[list[Event]]:
    """So many rows of three mebibytes."""
    commits = story()[:1]
    for number in range(rows):
        commits += judged(number % 6, 1 + number // 6, None, text=f"{number % 10}" * (3 * MEBIBYTE))
    return commits


@pytest.mark.parametrize("how", ["jsonl", "parquet"])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, how: str) -> None:
    """Twelve rows of megabytes need hardly more than three; all are written."""
    peaks = []
    for rows in (3, 12):
        place = tmp_path / str(rows)
        make_run(place / "data/r", large_story(rows))
        code = LIMIT.format(root=str(ROOT), how=how)
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=place, env=environment(), capture_output=True, text=True, check=True
        )
        said, peak = done.stdout.splitlines()
        assert said.startswith(f"{rows} rows")
        peaks.append(int(peak))
    assert peaks[1] - peaks[0] < 16 * 1024, peaks
