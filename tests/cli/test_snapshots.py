"""Which commands go on from a snapshot of the fold, and which read the whole log."""

import msgspec
import pytest

from eventlog.storage import LogReader
from projections import Snapshots, fold_log, open_views
from projections.snapshot import freeze
from tests.cli.shell import evrun
from tests.projections.forged_snapshots import forge


@pytest.fixture
def lying(done):
    """`data/done` with a snapshot that is right in everything, but that a fourth prompt was discarded."""
    held = Snapshots(done / "log", least_events=1)
    with LogReader.open(done / "log") as reader:
        open_views(done, reader, held).finish()
        state = fold_log(reader)
        state.batch.counts["discarded"] += 7
    (path,) = held.directory.iterdir()
    forge(path, freeze(state))
    return done


def discarded(said):
    """How many prompts a command says were set aside."""
    return said.json["counts"]["discarded"]


def test_status_goes_on_from_a_snapshot(lying, tmp_path):
    """It need not read a log of millions of events to say how far a run is; without snapshots it does."""
    assert discarded(evrun("status", "done", "--json", cwd=tmp_path)) == 8
    for path in (lying / "log" / "snapshots").iterdir():
        path.unlink()
    assert discarded(evrun("status", "done", "--json", cwd=tmp_path)) == 1


def test_list_goes_on_from_a_snapshot(lying, tmp_path):
    """Where the views do not stand for the log's end."""
    (lying / "checkpoint.json").unlink()
    (run,) = evrun("list", "--json", cwd=tmp_path).json["runs"]
    assert run["counts"]["discarded"] == 8


def test_what_proves_a_run_never_looks_at_a_snapshot(lying, tmp_path):
    """Replay, its check, audit and verify read the whole log: a snapshot that lies deceives none of them."""
    assert evrun("replay", "done", "--check", cwd=tmp_path).code == 0
    out = evrun("replay", "done", "--out", "again", "--json", cwd=tmp_path)
    assert out.code == 0
    numbers = msgspec.json.decode((tmp_path / "again" / "statistics.json").read_bytes())
    assert numbers["prompts_filtered"] == 1
    assert evrun("verify", "done", cwd=tmp_path).code == 0
    audit = evrun("audit", "done", "--json", cwd=tmp_path)
    assert all(check["ok"] for check in audit.json["checks"])


def test_a_snapshot_changes_nothing_of_the_log(done, tmp_path):
    """Verify says the same with and without: its directory is no part of the log."""
    before = evrun("verify", "done", "--json", cwd=tmp_path).json
    with LogReader.open(done / "log") as reader:
        open_views(done, reader, Snapshots(done / "log", least_events=1)).finish()
    assert evrun("verify", "done", "--json", cwd=tmp_path).json == before
    assert evrun("compact", "done", "--json", cwd=tmp_path).code == 0
    assert evrun("status", "done", "--json", cwd=tmp_path).json["counts"]["discarded"] == 1
