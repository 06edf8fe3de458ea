"""`evrun export`: the rows of the views in the files of other tools, whole or not at all."""

import csv
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.events import PlannedRow, PromptsPlanned, SessionOpened
from evrun.errors import UsageFault
from evrun.export import Target
from projections import EXPORT_COLUMNS, EXPORT_KINDS, unit_name
from tests.cli.shell import ENVIRONMENT, ROOT, Said, evrun
from tests.exports import NASTY, PICTURE, judged, make_run, story, typed, view_row
from tests.projections.histories import answered, begun, discarded, kept, reserve, spent, started
from tests.runs import rows_of, views_of

ALL = "kept,discarded,failed"
FORMATS = ["parquet", "jsonl", "csv", "openai", "hf"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """`data/r`: the rich run."""
    return make_run(tmp_path / "data/r")


def export(place: Path, how: str, *more: object, run: object = "r") -> Said:
    """Export to `place/out`."""
    return evrun("export", run, "--format", how, "-o", "out", *more, cwd=place)


def expected(run: Path, *names: str) -> list[dict[str, Any]]:
    """The rows of these views, one after another."""
    return [row for name in names for row in rows_of(run / f"{name}.jsonl")]


def read(how: str, path: Path) -> list[dict[str, Any]]:
    """What stands in an export, by the plainest reader there is."""
    if how == "parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path).to_pylist()
    if how == "csv":
        with path.open(newline="", encoding="utf-8") as file:
            return [typed(record) for record in csv.DictReader(file, strict=True)]
    return rows_of(path)


def content(place: Path) -> dict[str, bytes | None]:
    """Everything in a directory: files with their bytes, directories without."""
    return {
        str(path.relative_to(place)): path.read_bytes() if path.is_file() else None
        for path in sorted(place.rglob("*"))
    }


@pytest.mark.parametrize("how", ["parquet", "jsonl", "csv"])
def test_exported_rows_are_those_of_the_views_in_their_order(run: Path, tmp_path: Path, how: str) -> None:
    """Kept rows as in trajectories.jsonl, then discarded.jsonl, then failed.jsonl: every field."""
    assert export(tmp_path, how).code == 0
    rows = expected(run, "trajectories")
    assert [view_row(row) for row in read(how, tmp_path / "out")] == rows
    assert len(rows) == 6
    said = export(tmp_path, how, "--outcomes", ALL, "--force", "--json").json
    assert said["outcomes"] == {"kept": 6, "discarded": 2, "failed": 1}
    assert said["rows"] == 9
    found = read(how, tmp_path / "out")
    assert [view_row(row) for row in found] == expected(run, "trajectories", "discarded", "failed")
    assert [row["outcome"] for row in found] == ["kept"] * 6 + ["discarded"] * 2 + ["failed"]


def test_the_schema_is_the_same_whatever_the_rows(run: Path, tmp_path: Path) -> None:
    """A run without a row has the columns and types of any other; JSON texts are those of the view."""
    import pyarrow.parquet as pq

    make_run(tmp_path / "data/empty", story()[:1])
    for name in ("r", "empty"):
        for how in ("parquet", "csv"):
            assert evrun("export", name, "--format", how, "-o", f"{name}.{how}", cwd=tmp_path).code == 0
    full, empty = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("r", "empty"))
    assert full.schema.equals(empty.schema)
    assert empty.num_rows == 0
    assert full.column_names == (tmp_path / "empty.csv").read_text("utf-8").rstrip().split(",")
    line = (run / "trajectories.jsonl").read_text("utf-8").splitlines()[0]
    assert f'"metadata":{full["metadata"][0].as_py()},' in line


def test_openai_lines_hold_messages_calls_results_and_tools(run: Path, tmp_path: Path) -> None:
    """As they would be sent: ids paired, arguments as JSON text, and what is no JSON is said to be none."""
    assert export(tmp_path, "openai").code == 0
    lines = rows_of(tmp_path / "out")
    assert len(lines) == 6
    (tooled,) = [line for line in lines if any(message["role"] == "tool" for message in line["messages"])]
    asked, called, *results, last = tooled["messages"]
    assert asked == {"role": "user", "content": "three"}
    assert [call["id"] for call in called["tool_calls"]] == [result["tool_call_id"] for result in results]
    given = [json.loads(call["function"]["arguments"]) for call in called["tool_calls"]]
    assert given == [{"at": [1, {"b": None}]}, {"invalid_json": "no JSON"}, {"text": "</tool_call>"}]
    assert [result["content"] for result in results] == ['{"found": {"x": [1]}}', "", NASTY]
    assert last == {"role": "assistant", "content": "looked"}
    assert tooled["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "look",
                "description": "Look at a place.",
                "parameters": {"type": "object"},
            },
        }
    ]
    (nasty,) = [line for line in lines if line["messages"][0]["content"] == "four"]
    assert nasty["messages"][1] == {"role": "assistant", "content": NASTY}


def test_openai_lines_keep_reasoning_under_a_name_that_is_asked_for(run: Path, tmp_path: Path) -> None:
    """Left out otherwise: hosted fine-tuning takes no unknown fields."""
    assert export(tmp_path, "openai").code == 0
    assert "reasoning" not in (tmp_path / "out").read_text("utf-8")
    assert export(tmp_path, "openai", "--reasoning-field", "reasoning_content", "--force").code == 0
    thoughts = [line["messages"][-1]["reasoning_content"] for line in rows_of(tmp_path / "out")]
    assert "and thought" in thoughts
    said = export(tmp_path, "jsonl", "--reasoning-field", "x", "--force")
    assert (said.code, "--reasoning-field is for --format openai" in said.err) == (2, True)


def test_openai_lines_leave_out_and_count_what_does_not_end_with_an_answer(run: Path, tmp_path: Path) -> None:
    """A failed row has nothing to learn from."""
    said = export(tmp_path, "openai", "--outcomes", ALL, "--json")
    assert said.json["unfinished"] == 1
    assert said.json["outcomes"] == {"kept": 6, "discarded": 2, "failed": 0}
    assert "left out: 1 rows whose conversation does not end with an answer" in said.err
    assert len(rows_of(tmp_path / "out")) == 8


def test_the_same_log_gives_the_same_bytes_and_an_earlier_moment_its_own(run: Path, tmp_path: Path) -> None:
    """An export says in itself what it was made from, so that `verify --anchor` can prove it."""
    import pyarrow.parquet as pq

    for how in FORMATS:
        made = []
        for place in (tmp_path / f"{how}-1", tmp_path / f"{how}-2"):
            place.mkdir()
            assert export(place, how, run=run).code == 0
            made.append(content(place))
        assert made[0] == made[1]
    said = export(tmp_path, "parquet", "--force", "--json").json
    made_from = pq.read_schema(tmp_path / "out").metadata
    anchor = f"{int(made_from[b'evrun_sequence'])}:{made_from[b'evrun_chain'].decode()}"
    assert anchor == f"{said['sequence']}:{said['chain']}"
    assert evrun("verify", "r", "--anchor", anchor, cwd=tmp_path).code == 0
    # Then nothing was kept yet but the first prompt that ended.
    assert export(tmp_path, "jsonl", "--to", 9, "--force").code == 0
    assert [row["prompt_index"] for row in rows_of(tmp_path / "out")] == [5]


@pytest.mark.parametrize("how", FORMATS)
def test_exports_are_private_and_leave_nothing_beside_them_nor_in_the_run(
    run: Path, tmp_path: Path, how: str
) -> None:
    """Mode 0600 (0700 for a directory), no temporary file left, every byte of the run as it was."""
    before = content(run)
    assert export(tmp_path, how).code == 0
    out = tmp_path / "out"
    files = [out] if out.is_file() else list(out.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(out.stat().st_mode) == (0o700 if how == "hf" else 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]
    assert content(run) == before


@pytest.mark.parametrize("how", FORMATS)
def test_what_is_there_is_replaced_only_by_force_and_only_by_its_like(
    run: Path, tmp_path: Path, how: str
) -> None:
    """A path that is taken is refused; --force replaces a file by a file and a dataset by a dataset."""
    assert export(tmp_path, how).code == 0
    said = export(tmp_path, how)
    assert (said.code, said.err) == (2, "evrun: -o out is there already\n  hint: --force replaces it\n")
    assert export(tmp_path, how, "--force").code == 0
    other = "jsonl" if how == "hf" else "hf"
    said = export(tmp_path, other, "--force")
    assert said.code == 2
    assert "so it is not replaced" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["r", "--format", "xml", "-o", "out"],
            "--format xml: expected one of parquet, jsonl,",
        ),
        (
            ["r", "--format", "csv", "-o", "out", "--outcomes", "kept,open"],
            "--outcomes open: expected some",
        ),
        (["r", "--format", "csv", "-o", "gone/out"], "-o gone/out: there is no directory gone"),
        (["r", "--format", "csv", "-o", "-"], "expected the path of what is to be made"),
        (["r", "--format", "csv", "-o", "data/r/failed.jsonl", "--force"], "belongs to a run"),
        (["r", "--format", "csv", "-o", "data/r/log/x"], "belongs to a run"),
        (["r", "--format", "hf", "-o", "data/r", "--force"], "is no saved dataset"),
        (["r", "--format", "csv", "-o", "out", "--to", "9999"], "--to 9999: the log ends at event"),
        (["gone", "--format", "csv", "-o", "out"], "no run 'gone'"),
        (["r", "--format", "jsonl", "-o", "out", "--best"], "--best: no row has a score (rows: 6 kept)"),
    ],
)
def test_wrong_input_is_told_and_writes_nothing(
    run: Path, tmp_path: Path, arguments: list[str], says: str
) -> None:
    """Exit 2, one line that says what and where, and nothing new on the disk."""
    before = sorted(tmp_path.rglob("*"))
    views = views_of(run)
    said = evrun("export", *arguments, cwd=tmp_path)
    assert said.code == 2
    assert says in said.err
    assert sorted(tmp_path.rglob("*")) == before
    assert views_of(run) == views


@pytest.mark.parametrize(
    ("how", "early"), [*((how, True) for how in FORMATS), ("jsonl", False), ("hf", False)]
)
def test_a_full_disk_leaves_nothing_at_the_path(run: Path, tmp_path: Path, how: str, *, early: bool) -> None:
    """Exit 1 with the reason; what an earlier export had made is still there, byte for byte, and alone.

    There is no room for the rows on their way (`early`), or for them and no more.
    """
    room = 1024 if early else (run / "trajectories.jsonl").stat().st_size
    (tmp_path / "full").mkdir()
    assert evrun("export", "r", "--format", how, "-o", "full/out", cwd=tmp_path).code == 0
    before = content(tmp_path / "full")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        said = evrun("export", "r", "--format", how, "-o", "full/out", "--force", cwd=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert said.code == 1, said
    assert "File too large" in said.err
    assert content(tmp_path / "full") == before


SLOW = """
import sys, time
sys.path.insert(0, {root!r})
import evrun.export.exporting as exporting
from cli.main import call
lines = exporting.jsonl_line
def slowly(values):
    sys.stderr.write("one\\n")
    sys.stderr.flush()
    time.sleep(0.2)
    return lines(values)
exporting.jsonl_line = slowly
sys.exit(call(["export", "r", "--format", "jsonl", "-o", "out"]))
"""


def test_ctrl_c_leaves_nothing_at_the_path(run: Path, tmp_path: Path) -> None:
    """Exit 130, and neither the file nor a part of it under another name."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(root=str(ROOT))],
        cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "one\n"
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_the_page_lists_every_column_with_its_type_and_unit() -> None:
    """`docs/export.md` has the table that the code has."""
    page = (ROOT / "docs/export.md").read_text("utf-8")
    table = [f"| `{one.name}` | {EXPORT_KINDS[one.kind]} | {one.says} |\n" for one in EXPORT_COLUMNS]
    assert "".join(table) in page


@pytest.mark.parametrize("how", ["jsonl", "openai", "parquet"])
def test_best_is_the_sample_with_the_highest_score_of_those_that_are_exported(
    tmp_path: Path, how: str
) -> None:
    """Equal scores: the first sample, whichever ended first; a prompt without any score is left out."""
    commits = story()[:1]
    commits += judged(2, 1, 0.5, discarded) + judged(2, 2, -1.0)
    commits += judged(0, 2, 0.9) + judged(0, 1, 0.9)
    commits += judged(1, 1, None) + judged(1, 2, None)
    commits += judged(3, 1, None) + judged(3, 2, 0.0)
    make_run(tmp_path / "data/r", commits)
    said = export(tmp_path, how, "--best", "--json")
    assert (said.json["rows"], said.json["unscored"]) == (3, 1)
    assert "left out: 1 prompts without a score" in said.err
    if how != "openai":
        best = [(row["prompt_index"], row["sample"]) for row in read(how, tmp_path / "out")]
        assert best == [(0, 1), (2, 2), (3, 2)]
    assert export(tmp_path, "jsonl", "--best", "--outcomes", "kept,discarded", "--force").code == 0
    found = [(row["prompt_index"], row["sample"], row["score"]) for row in read("jsonl", tmp_path / "out")]
    assert found == [(0, 1, 0.9), (3, 2, 0.0), (2, 1, 0.5)]


def test_openai_lines_have_images_as_the_dataset_row_had_them(tmp_path: Path) -> None:
    """In trajectories.jsonl an image is only named; to learn from it, it has to be there."""
    row = PlannedRow(b"p" * 16, 1, 0, 1, json.dumps(PICTURE).encode())
    unit = unit_name(row.content, 1, 1)
    plan = PromptsPlanned([row], complete=True)
    make_run(
        tmp_path / "data/r",
        [
            [SessionOpened(1, 1, "host", "0"), started("r"), plan],
            [begun(unit), reserve("c", unit)],
            [spent("c"), answered("c", "A dot.", "hm")],
            [kept(unit)],
        ],
    )
    assert "[image_url]" in (tmp_path / "data/r/trajectories.jsonl").read_text("utf-8")
    assert export(tmp_path, "openai").code == 0
    (line,) = rows_of(tmp_path / "out")
    assert line["messages"] == [*PICTURE["messages"], {"role": "assistant", "content": "A dot."}]


def test_what_comes_into_being_meanwhile_is_not_replaced(run: Path, tmp_path: Path) -> None:
    """The path is looked at again when all is written."""
    target = Target(tmp_path / "out", force=False)
    target.check_file()

    def chunks() -> Iterator[bytes]:
        yield b"ours"
        (tmp_path / "out").write_bytes(b"theirs")

    with pytest.raises(UsageFault, match="is there already"):
        target.write_file(chunks())
    assert content(tmp_path)["out"] == b"theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]
