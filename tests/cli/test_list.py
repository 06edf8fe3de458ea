"""`evrun list`: every run is a line, also a damaged one, and views are believed only at the log's end."""

import json

import pytest

from eventlog.events import SessionClosed, SessionOpened, SpendCorrected, TrajectoryCompleted, encode_event
from tests.cli.shell import evrun, evrun_process
from tests.cli.story import COUNTS, UNITS, crashed, finished, tell, writer

KEYS = {"run", "dir", "kind", "state", "reason", "counts", "settled_usd", "sequence", "last_change"}


def listed(tmp_path):
    """The runs by name."""
    said = evrun("list", "--json", cwd=tmp_path)
    assert said.code == 0
    return {run["run"]: run for run in said.json["runs"]}


def damage(run):
    """Flip one bit of an event that is promised durable."""
    (path,) = (run / "log").glob("*.evl")
    data = bytearray(path.read_bytes())
    data[data.index(b"Let me add")] ^= 1
    path.write_bytes(data)


def test_each_run_is_a_line(crash, done, tmp_path):
    """Name, kind, state, counts, money, and when it changed last."""
    said = evrun("list", cwd=tmp_path)
    header, *rows = said.out.splitlines()
    assert header.split()[:7] == ["run", "kind", "state", "kept", "discarded", "failed", "left"]
    assert [row.split()[:8] for row in rows] == [
        ["crash", "batch", "interrupted", "1", "0", "0", "2", "0.00185"],
        ["done", "batch", "done", "1", "1", "1", "0", "0.0037"],
    ]
    runs = listed(tmp_path)
    assert all(set(run) == KEYS for run in runs.values())
    assert runs["done"]["last_change"].startswith("2026-11-29T12:0")
    assert runs["done"]["dir"] == "data/done"


def test_a_damaged_run_is_a_line_and_the_others_are_listed(crash, done, tmp_path):
    """Exit 0: a list is not the place to fail; `evrun verify` is."""
    damage(done)
    (tmp_path / "data/empty/log").mkdir(parents=True)
    (tmp_path / "data/no-run").mkdir()
    (tmp_path / "data/refused/log").mkdir(parents=True)
    (tmp_path / "data/refused/log/LOCK").touch()
    runs = listed(tmp_path)
    assert {name: run["state"] for name, run in runs.items()} == {
        "crash": "interrupted",
        "done": "unreadable",
        "empty": "unreadable",
    }
    assert "lost" in runs["done"]["reason"]
    assert runs["done"]["counts"] is None
    assert evrun("list", cwd=tmp_path).code == 0


def test_an_event_of_a_newer_evrun_makes_one_run_unreadable(crash, done, tmp_path):
    """Where only the fold says how a run stands, and it cannot be folded."""
    import msgspec

    with writer(crash) as log:
        log.append([msgspec.msgpack.encode(["FromTheFuture", 1, []])])
    runs = listed(tmp_path)
    assert runs["crash"]["state"] == "unreadable"
    assert "upgrade evrun" in runs["crash"]["reason"]
    assert runs["done"]["state"] == "done"


def test_a_run_that_is_held_is_running(crash, tmp_path):
    """Whatever its last event says."""
    with writer(crash):
        assert listed(tmp_path)["crash"]["state"] == "running"
    assert listed(tmp_path)["crash"]["state"] == "interrupted"


@pytest.mark.parametrize("views", ["none", "of the end", "older", "of a longer run", "of another", "torn"])
def test_views_never_change_what_is_said(done, tmp_path, views):
    """With the right views, stale ones, foreign ones, torn ones and none, the line is the same."""
    bare = listed(tmp_path)["done"]
    if views == "older":
        assert evrun("replay", "done", "--to", "12", "--out", "old", cwd=tmp_path).code == 0
        for name in ("checkpoint.json", "statistics.json"):
            (done / name).write_bytes((tmp_path / "old" / name).read_bytes())
    elif views != "none":
        other = done
        if views == "of a longer run":
            other = tell(tmp_path / "other/r", [*finished(), *finished()[-1:]])
        if views == "of another":
            kept = TrajectoryCompleted(UNITS[1], 1, True, False, "stop", COUNTS)  # noqa: FBT003
            story = [[kept] if commit == finished()[8] else commit for commit in finished()]
            assert len(story) == len(finished())
            assert story != finished()
            other = tell(tmp_path / "other/r", story)
        assert evrun("replay", other, cwd=tmp_path).code == 0
        for name in ("checkpoint.json", "statistics.json"):
            data = (other / name).read_bytes()
            (done / name).write_bytes(data[:60] if views == "torn" else data)
    assert listed(tmp_path)["done"] == bare


def test_a_run_at_rest_is_not_folded_if_its_views_are_those_of_the_end(done, tmp_path):
    """Shown by a number that only the view has: the log's digest says that the view is the log's own."""
    assert evrun("replay", "done", cwd=tmp_path).code == 0
    statistics = json.loads((done / "statistics.json").read_text("utf-8"))
    statistics["cost"]["settled_usd"] = "12.34"
    (done / "statistics.json").write_text(json.dumps(statistics))
    assert listed(tmp_path)["done"]["settled_usd"] == "12.34"
    with writer(done) as log:
        log.append([encode_event(SpendCorrected("s1.c3", 7_000_000, "invoice"))])
    assert listed(tmp_path)["done"]["settled_usd"] == "0.0107"


@pytest.mark.parametrize("reason", ["finished", "paused", "interrupted", "failed"])
@pytest.mark.parametrize("story", ["with work left", "with none left"])
def test_the_state_by_views_is_the_state_by_the_log(tmp_path, reason, story):
    """However the newest session ended, with and without the short way the same state and reason."""
    commits = crashed() if story == "with work left" else finished()
    closed = [SessionOpened(2, 1, "h", "0.1.0"), SessionClosed(2, reason, "why", 1)]
    tell(tmp_path / "data/r", [*commits, closed])
    slow = listed(tmp_path)["r"]
    assert evrun("replay", "r", cwd=tmp_path).code == 0
    quick = listed(tmp_path)["r"]
    status = evrun("status", "r", "--json", cwd=tmp_path).json
    assert quick == slow
    assert (quick["state"], quick["reason"], quick["counts"]) == (
        status["state"],
        status["reason"],
        status["counts"],
    )


def test_a_directory_without_runs_is_said_to_be_so(tmp_path):
    """No runs is an answer; a directory that is not there, and was named, is a mistake."""
    said = evrun_process("list", cwd=tmp_path)
    assert (said.code, said.out) == (0, "there are no runs in data\n")
    assert evrun("list", "--json", cwd=tmp_path).json == {"output_dir": "data", "runs": []}
    said = evrun("list", "--output-dir", "gone", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert "gone" in said.err


def test_listing_changes_no_byte(crash, done, tmp_path):
    """A look, nothing more."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    listed(tmp_path)
    evrun("show", "crash", "0", cwd=tmp_path)
    evrun("stats", "crash", cwd=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
