"""What must be true of snapshots of a fold: property 17. A plain function that raises."""

import shutil
import tempfile
from pathlib import Path
from random import Random

from eventlog.storage import LogReader
from projections import RunState, Snapshots, fold_from_snapshot, fold_log, recorded
from projections.snapshot import freeze
from tests.projections.forged_snapshots import forge
from tests.projections.random_history import History
from tests.projections.states import plain

from .views import write


def check_snapshots(histories):
    """17. The state from a snapshot is that of the whole log: at every position, whatever the snapshot is."""
    for seed in range(histories):
        with tempfile.TemporaryDirectory() as place:
            _check_one(Path(place), Random(seed))


def _check_one(place, random):
    commits = History(random, 4).run(40)
    log, held = place / "log", Snapshots(place / "log", least_events=1)
    write(log, commits, 0)
    with LogReader.open(log) as reader:
        whole, state = plain(fold_log(reader)), RunState()
        ends = _ends(commits)
        for record in recorded(reader):
            state.apply(record)
            if state.sequence in ends:
                assert held.save(reader, state.sequence, freeze(state))
                assert plain(fold_from_snapshot(reader, held)) == whole, f"from {state.sequence}"
        newest = max(held.directory.iterdir())
        _check_strangers(reader, held, newest, whole)
    _check_other_logs(place, commits, newest, random)


def _ends(commits):
    """Where commits end."""
    ends, sequence = set(), 0
    for commit in commits:
        sequence += len(commit)
        ends.add(sequence)
    return ends


def _check_strangers(reader, held, newest, whole):
    """A wrong state under the name of other code; damaged bytes; half a file."""
    right = newest.read_bytes()
    wrong = fold_log(reader)
    wrong.batch.unexplained += 7
    forge(newest, freeze(wrong), fingerprint=b"other code")
    assert plain(fold_from_snapshot(reader, held)) == whole, "a snapshot of other code was used"
    for at in range(0, len(right), len(right) // 20):
        for changed in (right[:at] + bytes([right[at] ^ 4]) + right[at + 1 :], right[:at]):
            newest.write_bytes(changed)
            assert plain(fold_from_snapshot(reader, held)) == whole, "a damaged snapshot was used"
    newest.write_bytes(right)


def _check_other_logs(place, commits, newest, random):
    """The snapshot of a log's end beside a log that does not reach so far, and one with another past."""
    end = sum(map(len, commits))
    half, other = commits[: len(commits) // 2], History(random, 4)
    while sum(map(len, other.commits)) <= end:
        other.step()
    for name, told in (("half", half), ("other", other.commits)):
        log = place / name / "log"
        write(log, told, 0)
        held = Snapshots(log)
        held.directory.mkdir()
        shutil.copy(newest, held.directory)
        with LogReader.open(log) as reader:
            # The same id, as if a backup had been put in the log's place.
            assert plain(fold_from_snapshot(reader, held)) == plain(fold_log(reader)), f"{name}: was used"
