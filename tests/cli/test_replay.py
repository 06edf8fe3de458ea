"""`evrun replay`: every view again from the log, the same bytes wherever and whenever."""

import json
import os

import pytest

from eventlog.events import encode_event
from tests.cli.shell import evrun, evrun_process
from tests.cli.story import asked, crashed, tell, writer

VIEWS = [
    "batch_1.jsonl",
    "checkpoint.json",
    "discarded.jsonl",
    "failed.jsonl",
    "statistics.json",
    "trajectories.jsonl",
]


def views(directory):
    """The files of a run or an output directory, but the log, with their bytes."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def log_bytes(run):
    """Every byte of the log."""
    return {path.name: path.read_bytes() for path in (run / "log").iterdir()}


def test_views_are_made_from_nothing_but_the_log(done, tmp_path):
    """All of them, in the run directory, readable by their owner alone; the log is not touched."""
    before = log_bytes(done)
    said = evrun_process("replay", "done", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    assert (said.json["dir"], said.json["sequence"], sorted(said.json["files"])) == ("data/done", 21, VIEWS)
    assert sorted(views(done)) == VIEWS
    assert {path.stat().st_mode & 0o777 for path in done.iterdir() if path.is_file()} == {0o600}
    assert log_bytes(done) == before
    (row,) = [json.loads(line) for line in views(done)["trajectories.jsonl"].splitlines()]
    assert [turn["from"] for turn in row["conversations"]] == ["system", "human", "gpt"]


def test_replaying_again_makes_the_same_bytes(done, tmp_path):
    """Here, elsewhere, and after every view was deleted or spoiled."""
    evrun("replay", "done", cwd=tmp_path)
    first = views(done)
    assert evrun("replay", "done", "--out", "elsewhere", cwd=tmp_path).code == 0
    assert views(tmp_path / "elsewhere") == first
    (done / "statistics.json").write_bytes(b"{}")
    (done / "batch_1.jsonl").unlink()
    assert evrun("replay", "done", cwd=tmp_path).code == 0
    assert views(done) == first


def test_people_are_told_what_was_made(done, tmp_path):
    """Where, from how many events, and each file."""
    lines = evrun("replay", "done", "--out", "x", cwd=tmp_path).out.splitlines()
    assert lines[0] == "6 files in x, made from 21 events:"
    assert sorted(line.strip() for line in lines[1:]) == VIEWS


@pytest.mark.parametrize(
    "at", [["--to", "8"], ["--to", "9"], ["--to", "11"], ["--to", "2026-11-29T12:00:00Z"]]
)
def test_the_run_as_it_was_at_a_point(at, done, tmp_path):
    """The views of the past are those of a log that ends there; the run directory is left alone."""
    assert evrun("replay", "done", *at, "--out", "past", cwd=tmp_path).code == 0
    assert views(done) == {}
    kept = len(views(tmp_path / "past")["trajectories.jsonl"].splitlines())
    assert kept == (at[1] in ("9", "11"))
    assert evrun("replay", "done", *at, "--out", "past", "--check", cwd=tmp_path).code == 0


def test_the_past_of_a_longer_log_is_the_present_of_a_shorter_one(done, crash, tmp_path):
    """Up to the crash both runs are the same events, so they are the same files, to the byte."""
    assert evrun("replay", "done", "--to", 11, "--out", "past", cwd=tmp_path).code == 0
    assert evrun("replay", "crash", "--out", "present", cwd=tmp_path).code == 0
    assert views(tmp_path / "past") == views(tmp_path / "present")


def test_check_says_identical_and_exits_with_0(done, tmp_path):
    """The contracts' shape, one entry a view, and not a byte written."""
    evrun("replay", "done", cwd=tmp_path)
    said = evrun("replay", "done", "--check", "--json", cwd=tmp_path)
    assert (said.code, said.json["identical"]) == (0, True)
    files = sorted(said.json["files"], key=lambda file: file["path"])
    assert files == [{"path": name, "same": True, "why": None} for name in VIEWS]
    told = evrun("replay", "done", "--check", cwd=tmp_path)
    assert (told.code, told.out.splitlines()[-1]) == (0, "identical")


def test_check_names_what_is_missing_and_what_differs(done, tmp_path):
    """Exit 1, and a reason for each file; nothing is mended by looking."""
    evrun("replay", "done", cwd=tmp_path)
    (done / "failed.jsonl").unlink()
    (done / "statistics.json").write_bytes(b"{}\n")
    before = views(done)
    said = evrun("replay", "done", "--check", "--json", cwd=tmp_path)
    assert (said.code, said.json["identical"]) == (1, False)
    why = {file["path"]: file["why"] for file in said.json["files"] if not file["same"]}
    assert why == {"failed.jsonl": "missing", "statistics.json": "differs"}
    assert views(done) == before
    told = evrun("replay", "done", "--check", cwd=tmp_path)
    assert told.code == 1
    assert "NOT identical" in told.out


def test_views_that_a_crash_left_behind_are_behind_not_different(done, tmp_path):
    """The files of an earlier moment hold what was true then: `replay` brings them up."""
    assert evrun("replay", "done", "--to", 11, "--out", "past", cwd=tmp_path).code == 0
    for name, data in views(tmp_path / "past").items():
        (done / name).write_bytes(data)
    said = evrun("replay", "done", "--check", "--json", cwd=tmp_path)
    why = {file["path"]: file["why"] for file in said.json["files"] if not file["same"]}
    assert said.code == 1
    assert (why["checkpoint.json"], why["failed.jsonl"]) == ("behind", "missing")
    assert "differs" not in why.values()
    assert evrun("replay", "done", cwd=tmp_path).code == 0
    assert evrun("replay", "done", "--check", cwd=tmp_path).code == 0


def test_a_point_without_a_place_to_show_it_is_refused(done, tmp_path):
    """Exit 2: the run directory shows the run as it is now, never as it was."""
    assert evrun("replay", "done", "--to", 5, cwd=tmp_path) == (
        2,
        "",
        "evrun: --to needs --out DIR or --check\n  hint: the run directory shows the run as it is now\n",
    )


@pytest.mark.parametrize("point", ["22", "soon", "2026-11-29"])
def test_a_point_that_is_none_is_refused_before_anything_is_written(point, done, tmp_path):
    """Exit 2, and no output directory appears."""
    said = evrun("replay", "done", "--to", point, "--out", "past", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"evrun: --to {point}: ")
    assert not (tmp_path / "past").exists()


def test_a_run_that_is_going_on_keeps_its_views_itself(crash, tmp_path):
    """Exit 6, naming the holder, when it would be written into; elsewhere and --check are allowed."""
    with writer(crash) as log:
        log.append([encode_event(event) for event in asked(2, "s2.c1")])
        said = evrun("replay", "crash", cwd=tmp_path)
        assert (said.code, said.out) == (6, "")
        assert f"in use by process {os.getpid()}" in said.err
        assert evrun("replay", "crash", "--out", "data/crash", cwd=tmp_path).code == 6
        assert evrun("replay", "crash", "--out", "elsewhere", cwd=tmp_path).code == 0
        assert evrun("replay", "crash", "--check", cwd=tmp_path).code == 1
    assert views(crash) == {}
    assert evrun("replay", "crash", cwd=tmp_path).code == 0


def test_the_directory_of_another_run_is_never_written_over(done, crash, tmp_path):
    """Exit 2: its views say what its log says."""
    said = evrun("replay", "done", "--out", "data/crash", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("evrun: --out data/crash is the directory of another run\n")
    assert views(crash) == {}


def test_replay_does_not_depend_on_the_process_it_runs_in(done, tmp_path):
    """Another hash seed, time zone and locale: the same bytes."""
    surroundings = [
        {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"},
    ]
    made = []
    for number, environment in enumerate(surroundings):
        out = f"out{number}"
        assert evrun_process("replay", "done", "--out", out, cwd=tmp_path, environment=environment).code == 0
        made.append(views(tmp_path / out))
    assert made[0] == made[1]


def test_an_event_from_a_newer_evrun_stops_replay_with_5(tmp_path):
    """Unknown is not damaged, and not skipped either: the message says to upgrade, nothing is written."""
    import msgspec

    run = tell(tmp_path / "data/newer", crashed())
    with writer(run) as log:
        log.append([msgspec.msgpack.encode(("PromptBlessed", 1, []))])
    said = evrun("replay", "newer", cwd=tmp_path)
    assert (said.code, said.out) == (5, "")
    assert "event type 'PromptBlessed' is not known to this evrun; upgrade evrun" in said.err
    assert views(run) == {}
    assert evrun("verify", "newer", cwd=tmp_path).code == 0
