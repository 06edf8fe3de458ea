"""The `datasets` package, in a process of its own and offline, reads the rows that `evrun export` wrote."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from eventlog.events import Event
from tests.cli.shell import ENVIRONMENT, evrun
from tests.exports import judged, make_run, story, typed, view_row
from tests.runs import rows_of

READER = """
import json, os, sys
import datasets

ways = {
    "hf": lambda features: datasets.load_from_disk("out.hf"),
    "parquet": lambda features: datasets.load_dataset("parquet", data_files="out.parquet", split="train"),
    "json": lambda features: datasets.load_dataset(
        "json", data_files="out.jsonl", split="train", features=features),
    # CSV has no types; without these pandas takes a digest of digits for a number.
    "csv": lambda features: datasets.load_dataset(
        "csv", data_files="out.csv", split="train", keep_default_na=False,
        features=datasets.Features(dict.fromkeys(columns, datasets.Value("string")))),
}
columns = datasets.load_from_disk("out.hf").column_names
features = datasets.load_from_disk("out.hf").features if "--features" in sys.argv else None
found = {}
if os.path.exists("empty.hf"):
    empty = datasets.load_from_disk("empty.hf")
    found["empty"] = {"rows": empty.to_list(), "columns": empty.column_names}
for way, how in ways.items():
    loaded = how(features)
    found[way] = {"rows": loaded.to_list(), "columns": loaded.column_names}
json.dump(found, sys.stdout)
"""


def loaded(place: Path, *more: str, features: bool = False) -> dict[str, dict[str, Any]]:
    """Export the run in every way; what `datasets` makes of that, JSON with `features` if asked."""
    for how, name in (("hf", "hf"), ("parquet", "parquet"), ("jsonl", "jsonl"), ("csv", "csv")):
        said = evrun("export", "r", "--format", how, "-o", f"out.{name}", *more, cwd=place)
        assert said.code == 0, said
    home = {"HF_HOME": str(place / "cache"), "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    environment = ENVIRONMENT | home | {"PYTHONWARNINGS": "default"}
    done = subprocess.run(
        [sys.executable, "-c", READER, *(["--features"] if features else [])], cwd=place, env=environment,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def expected(run: Path) -> list[dict[str, Any]]:
    """The rows of all row views."""
    names = ("trajectories", "discarded", "failed")
    files = [run / f"{name}.jsonl" for name in names]
    return [row for file in files if file.exists() for row in rows_of(file)]


def test_datasets_reads_the_rows_of_the_views_in_every_format(tmp_path: Path) -> None:
    """Rows with fields of their own, tool calls of all shapes, nasty text; and a run without rows."""
    run = make_run(tmp_path / "data/r")
    make_run(tmp_path / "data/empty", story()[:1])
    assert evrun("export", "empty", "--format", "hf", "-o", "empty.hf", cwd=tmp_path).code == 0
    found = loaded(tmp_path, "--outcomes", "kept,discarded,failed")
    rows = expected(run)
    assert len(rows) == 9
    for way in ("hf", "parquet", "json"):
        assert [view_row(row) for row in found[way]["rows"]] == rows, way
    assert [view_row(typed(row)) for row in found["csv"]["rows"]] == rows
    assert found["empty"]["rows"] == []
    assert len({tuple(one["columns"]) for one in found.values()}) == 1


def large_story() -> list[list[Event]]:
    """More rows than one block of a JSON reader holds, and only the last ones with a score and a feedback."""
    commits = story()[:1]
    for index in range(4):
        commits += judged(index, 1, None, text="x" * 2_800_000)
    return commits + judged(4, 1, 0.5) + judged(4, 2, 0.25)


def test_datasets_reads_rows_of_megabytes_whose_columns_fill_late(tmp_path: Path) -> None:
    """JSON lines too, with the features that the others carry: a guess from the first block would fail."""
    run = make_run(tmp_path / "data/r", large_story())
    found = loaded(tmp_path, features=True)
    rows = expected(run)
    assert [row["score"] for row in rows].count(None) == 4
    for way in ("hf", "parquet", "json"):
        assert [view_row(row) for row in found[way]["rows"]] == rows, way
    assert [view_row(typed(row)) for row in found["csv"]["rows"]] == rows
