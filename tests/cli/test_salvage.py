"""`evrun salvage`: what is saved, what it says is missing, and that commands work on what was saved."""

import hashlib
import json
import os

import pytest

from tests.cli.shell import evrun, evrun_process
from tests.cli.story import answered, asked, crashed, encode_event, finished, tell, writer


def segment(run):
    """The only segment of a run's log."""
    (path,) = (run / "log").glob("*.evl")
    return path


def contents(run):
    """Every file of a run with its bytes, to see that nothing was changed."""
    files = (path for path in run.rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def spoil(run, text=b"Let me add", nth=1):
    """Flip a bit in the n-th place where a text stands."""
    path = segment(run)
    data = bytearray(path.read_bytes())
    at = -1
    for _ in range(nth):
        at = data.index(text, at + 1)
    data[at] ^= 1
    path.write_bytes(data)


def lines_of(path):
    """The values of a JSONL file."""
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_a_whole_log_is_saved_whole(done, tmp_path):
    """Exit 0, no gap, the same chain value: what was saved is the run, to the last view."""
    said = evrun_process("salvage", "done", "--out", "saved", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    noted = evrun("verify", "done", "--json", cwd=tmp_path).json
    assert said.json["complete"]
    assert (said.json["gaps"], said.json["missing"]) == ([], {"events": 0, "unknown": False})
    assert said.json["log"] == {"sequence": 21, "chain": noted["chain"]}
    assert said.json["source"]["class"] == "clean"
    anchor = f"{noted['sequence']}:{noted['chain']}"
    assert evrun("verify", "saved", "--anchor", anchor, cwd=tmp_path).code == 0
    for command in (["events"], ["audit"], ["replay", "--out", "views", "--check"]):
        evrun("replay", "done", "--out", "views", cwd=tmp_path)
        saved = evrun(command[0], "saved", *command[1:], "--json", cwd=tmp_path)
        assert saved == evrun(command[0], "done", *command[1:], "--json", cwd=tmp_path)
        assert saved.code == 0


def test_a_damaged_log_is_saved_with_its_gap(done, tmp_path):
    """Exit 3: the log up to the gap, the events behind it beside it, and the account of both."""
    listed = [json.loads(line) for line in evrun("events", "done", "--json", cwd=tmp_path).out.splitlines()]
    spoil(done)
    before = contents(done)
    said = evrun_process("salvage", "done", "--out", "saved", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (3, "")
    assert contents(done) == before
    report = said.json
    assert json.loads((tmp_path / "saved/salvage.json").read_text("ascii")) == report
    assert not report["complete"]
    assert report["missing"] == {"events": 2, "unknown": False}
    (gap,) = report["gaps"]
    assert (gap["from_sequence"], gap["to_sequence"], gap["missing"]) == (7, 8, 2)
    assert (gap["segment"], gap["why"]) == (
        segment(done).name,
        "the frame's body does not match its checksum",
    )
    assert report["events"]["found"] == 19
    assert report["events"]["proven"] == report["log"]["sequence"] == 6
    assert report["source"]["class"] == "lost"
    lines = lines_of(tmp_path / "saved/events.jsonl")
    assert lines[6] == {"gap": gap}
    events = lines[:6] + lines[7:]
    assert [event["proven"] for event in events] == [True] * 6 + [False] * 13
    assert [event["proof"] for event in events[5:8]] == ["chain", "checksums", "stretch"]
    for event in events:
        listed_event = {**listed[event["seq"] - 1], "proven": event["proven"], "proof": event["proof"]}
        assert event == listed_event
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == [
        "events.jsonl",
        "log",
        "salvage.json",
    ]


def test_commands_work_on_what_was_saved_as_on_any_run(done, tmp_path):
    """It is the run as it was just before the gap: `replay --to` of the whole log gives the same files."""
    assert evrun("replay", "done", "--to", 6, "--out", "then", cwd=tmp_path).code == 0
    spoil(done)
    assert evrun("salvage", "done", "--out", "data/saved", cwd=tmp_path).code == 3
    assert evrun("verify", "saved", "--json", cwd=tmp_path).json["class"] == "clean"
    assert evrun("replay", "saved", cwd=tmp_path).code == 0
    for path in (tmp_path / "then").iterdir():
        assert (tmp_path / "data/saved" / path.name).read_bytes() == path.read_bytes()
    status = evrun("status", "saved", "--json", cwd=tmp_path).json
    assert (status["sequence"], status["counts"]["open"]) == (6, 1)


def test_a_call_whose_settlement_was_lost_is_in_doubt_and_the_rest_is_said(done, tmp_path):
    """Reserved before the gap, settled in it: in doubt. What was paid behind it is counted, not booked."""
    spoil(done)
    told = evrun("salvage", "done", "--out", "saved", cwd=tmp_path)
    audit = evrun("audit", "saved", "--json", cwd=tmp_path)
    assert audit.code == 0
    assert (audit.json["calls"]["settled"], audit.json["calls"]["in_doubt"]) == (0, 1)
    assert [doubt["call"] for doubt in audit.json["in_doubt"]] == ["s1.c1"]
    unproven = json.loads((tmp_path / "saved/salvage.json").read_text("ascii"))["unproven"]
    assert unproven == {
        "events": 13,
        "calls_reserved": 2,
        "calls_settled": 1,
        "calls_unpriced": 0,
        "settled_usd": "0.00185",
        "undecoded": 0,
    }
    assert "1 of them were found settled, for 0.00185 USD" in told.out
    assert "pay for them, again" in told.out


def test_people_are_told_what_is_missing(done, tmp_path):
    """In words, one fact a line, then the gaps."""
    spoil(done)
    said = evrun("salvage", "done", "--out", "saved", cwd=tmp_path)
    lines = said.out.splitlines()
    assert lines[0] == "saved    data/done (lost) into saved"
    assert lines[1].startswith("log      6 events, proven from the first on; chain ")
    assert lines[2] == "found    19 events in events.jsonl, 13 of them behind a gap"
    assert lines[3] == "missing  2 events, in 1 gap"
    assert any(line.startswith(f"7 to 8   {segment(done).name}") for line in lines)
    whole = evrun("salvage", "saved", "--out", "again", cwd=tmp_path)
    assert (whole.code, whole.out.splitlines()[3]) == (0, "missing  nothing")


def test_sessions_and_times_are_kept(crash, tmp_path):
    """A log of three sessions gives one of three sessions: call ids of a later one can never come twice."""
    for session in (2, 3):
        with writer(crash) as log:
            log.append([encode_event(event) for event in asked(2, f"s{session}.c1")])
    before = evrun("events", "crash", "--json", cwd=tmp_path).out
    noted = evrun("verify", "crash", "--json", cwd=tmp_path).json
    assert evrun("salvage", "crash", "--out", "saved", cwd=tmp_path).code == 0
    assert evrun("events", "saved", "--json", cwd=tmp_path).out == before
    assert evrun("verify", "saved", "--json", cwd=tmp_path).json["chain"] == noted["chain"]
    with writer(tmp_path / "saved") as log:
        assert log.epoch == 4


def test_a_saved_log_goes_on(done, tmp_path):
    """A writer opens it and appends behind the last proven event."""
    spoil(done)
    evrun("salvage", "done", "--out", "saved", cwd=tmp_path)
    with writer(tmp_path / "saved") as log:
        assert log.append([encode_event(event) for event in answered("s1.c1", "2")]) == 8
    assert evrun("verify", "saved", cwd=tmp_path).code == 0


def test_what_no_command_can_read_is_saved_as_bytes(tmp_path):
    """An event of a newer evrun is kept in hexadecimal, with the reason; the log holds it as it was."""
    import msgspec

    payload = msgspec.msgpack.encode(("PromptBlessed", 1, []))
    run = tell(tmp_path / "data/newer", crashed())
    with writer(run) as log:
        log.append([payload])
    said = evrun("salvage", "newer", "--out", "saved", "--json", cwd=tmp_path)
    assert (said.code, said.json["unproven"]["undecoded"]) == (0, 1)
    last = lines_of(tmp_path / "saved/events.jsonl")[-1]
    assert (last["seq"], last["type"], last["data"]["undecoded"]) == (12, None, payload.hex())
    assert "PromptBlessed" in last["data"]["why"]


def test_nothing_but_garbage_gives_an_empty_log_and_says_so(done, tmp_path):
    """Exit 3 and an empty log, which is whole."""
    path = segment(done)
    path.write_bytes(os.urandom(9000))
    said = evrun("salvage", "done", "--out", "saved", "--json", cwd=tmp_path)
    assert (said.code, said.json["events"]["found"]) == (3, 0)
    assert said.json["missing"] == {"events": 21, "unknown": False}
    assert evrun("verify", "saved", "--json", cwd=tmp_path).json["sequence"] == 0


def test_an_end_that_nobody_knows_is_unknown_and_not_nothing(done, tmp_path):
    """A header that is gone, and HEAD with it: how much there was cannot be said."""
    (done / "log/HEAD").unlink()
    segment(done).write_bytes(bytes(4096))
    said = evrun("salvage", "done", "--out", "saved", cwd=tmp_path)
    assert said.code == 3
    assert "missing  an unknown number of events, in 1 gap" in said.out
    assert "from 1 on, unknown" in said.out


def test_a_run_that_is_going_on_is_not_salvaged(crash, tmp_path):
    """Exit 6, naming the holder, and nothing is written."""
    with writer(crash) as log:
        log.append([encode_event(event) for event in asked(2, "s2.c1")])
        said = evrun("salvage", "crash", "--out", "saved", cwd=tmp_path)
    assert (said.code, said.out) == (6, "")
    assert f"in use by process {os.getpid()}" in said.err
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("full", "--out full is not empty"),
        ("file", "--out file: file is not a directory"),
        ("file/saved/here", "--out file/saved/here: file is not a directory"),
        ("data/done/saved", "--out data/done/saved lies in the run data/done, which is not to be changed"),
        ("data/done", "--out data/done lies in the run data/done, which is not to be changed"),
        ("data", "--out data is not empty"),
    ],
)
def test_nothing_is_ever_written_over(out, why, done, tmp_path):
    """Exit 2: what is saved goes to a place of its own."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/kept").write_bytes(b"kept")
    (tmp_path / "file").write_bytes(b"kept")
    before = contents(tmp_path)
    assert evrun("salvage", "done", "--out", out, cwd=tmp_path) == (
        2,
        "",
        f"evrun: {why}\n  hint: give a directory that is not there yet\n",
    )
    assert contents(tmp_path) == before


def test_an_empty_directory_is_good_enough(done, tmp_path):
    """Somebody has made it, for instance on another disk."""
    (tmp_path / "saved").mkdir()
    assert evrun("salvage", "done", "--out", "saved", cwd=tmp_path).code == 0


def test_without_a_place_to_save_to_it_does_nothing(done, tmp_path):
    """Exit 2: salvage is an explicit act."""
    said = evrun("salvage", "done", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert "--out" in said.err


def test_files_are_for_their_owner_alone(done, tmp_path):
    """As in the run itself: 0600, directories 0700."""
    evrun("salvage", "done", "--out", "saved", cwd=tmp_path)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert (tmp_path / "saved").stat().st_mode & 0o777 == 0o700


def test_a_salvage_that_fails_leaves_no_log_behind(tmp_path):
    """A log of a newer evrun is not damaged: exit 5, and DIR is as empty as before."""
    run = tell(tmp_path / "data/newer", finished())
    path = segment(run)
    from xxhash import xxh3_64_intdigest

    data = bytearray(path.read_bytes())
    data[8] = 2
    data[4088:4096] = xxh3_64_intdigest(bytes(data[:4088])).to_bytes(8, "little")
    path.write_bytes(data)
    said = evrun("salvage", "newer", "--out", "saved", cwd=tmp_path)
    assert (said.code, said.out) == (5, "")
    assert "Upgrade evrun" in said.err
    assert list((tmp_path / "saved").iterdir()) == []
