"""`evrun verify`: the verdict, its exit code and its shape, for a whole log and for each way it is not."""

import hashlib

import pytest

from tests.cli.shell import evrun, evrun_process
from tests.cli.story import crashed, encode_event, tell, writer


def segment(run):
    """The only segment of a run's log."""
    (path,) = (run / "log").glob("*.evl")
    return path


def contents(run):
    """Every file of the log with its bytes, to see that nothing was changed."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (run / "log").iterdir()}


def test_a_whole_log_is_clean(done, tmp_path):
    """Exit 0, the contracts' shape exactly, and nothing else on stdout."""
    said = evrun_process("verify", "done", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    shape = said.json
    assert len(shape.pop("chain")) == 64
    assert shape == {
        "class": "clean",
        "sequence": 21,
        "segments": 1,
        "bytes": segment(done).stat().st_size,
        "torn_bytes": 0,
        "problem": None,
    }


def test_people_are_told_in_words(done, tmp_path):
    """The same, one fact a line, without colours or boxes when it is no terminal."""
    said = evrun("verify", "done", cwd=tmp_path)
    lines = said.out.splitlines()
    assert lines[0] == "log       clean: every event that was made durable is there, and nothing else"
    assert lines[1] == "events    21"
    assert [line.split()[0] for line in lines] == ["log", "events", "chain", "segments", "bytes"]


def test_torn_bytes_behind_the_last_commit_are_no_loss(crash, tmp_path):
    """A crash that cut a commit short is exit 0: that commit was never acknowledged."""
    with writer(crash) as log:
        log.append([encode_event(crashed()[0][1])])
    last = max((crash / "log").glob("*.evl"))
    data = bytearray(last.read_bytes())
    behind = 4096 * (len(data.rstrip(b"\x00")) // 4096 + 1)
    data[behind : behind + 9] = b"half of a"
    last.write_bytes(data)
    said = evrun("verify", "crash", "--json", cwd=tmp_path)
    assert (said.code, said.json["class"], said.json["sequence"]) == (0, "torn", 12)
    assert said.json["torn_bytes"] > 0
    assert "torn bytes" in evrun("verify", "crash", cwd=tmp_path).out


def test_a_flipped_bit_is_a_loss_with_its_place(done, tmp_path):
    """Exit 5, and segment, offset, last good and promised event; the log is left exactly as it was found."""
    path = segment(done)
    data = bytearray(path.read_bytes())
    data[data.index(b"Let me add")] ^= 1
    path.write_bytes(data)
    before = contents(done)
    said = evrun_process("verify", "done", "--json", cwd=tmp_path)
    assert (said.code, said.json["class"]) == (5, "lost")
    problem = said.json["problem"]
    assert sorted(problem) == ["last_good_sequence", "offset_bytes", "promised_sequence", "segment", "what"]
    assert (problem["segment"], problem["last_good_sequence"]) == (path.name, 6)
    assert problem["promised_sequence"] == 21
    assert contents(done) == before
    told = evrun("verify", "done", cwd=tmp_path)
    assert told.code == 5
    assert "LOST: events that were made durable are gone or altered" in told.out
    assert f"segment {path.name}, offset {problem['offset_bytes']}" in told.out


@pytest.mark.parametrize("command", ["status", "audit", "events", "replay"])
def test_a_lost_log_stops_every_reading_command(command, done, tmp_path):
    """Exit 5 with the place of the damage; none of them goes on with what is left as if it were all."""
    path = segment(done)
    data = bytearray(path.read_bytes())
    data[data.index(b"Let me add")] ^= 1
    path.write_bytes(data)
    said = evrun(command, "done", "--json", cwd=tmp_path)
    assert (said.code, said.out) == (5, "")
    assert path.name in said.err
    assert "Traceback" not in said.err


def test_an_anchor_kept_elsewhere_proves_the_past(crash, tmp_path):
    """With the position that was noted earlier: exit 0 as long as the log still goes through it."""
    noted = evrun("verify", "crash", "--json", cwd=tmp_path).json
    anchor = f"{noted['sequence']}:{noted['chain']}"
    with writer(crash) as log:
        log.append([encode_event(crashed()[0][1])])
    assert evrun("verify", "crash", "--anchor", anchor, cwd=tmp_path).code == 0


def test_an_anchor_of_another_log_shows_tampering(crash, done, tmp_path):
    """The same length, another past: only the digest that was kept elsewhere can tell, and does."""
    noted = evrun("verify", "crash", "--json", cwd=tmp_path).json
    other = tell(tmp_path / "data/other", [[*commit] for commit in crashed()[::-1]])
    anchor = f"{noted['sequence']}:{noted['chain']}"
    said = evrun("verify", other, "--anchor", anchor, "--json", cwd=tmp_path)
    assert (said.code, said.json["class"]) == (5, "tampered")


@pytest.mark.parametrize(
    "anchor", ["", "7", "7:", "x:" + "00" * 32, "7:" + "00" * 31, "-7:" + "00" * 32, "7:zz"]
)
def test_what_is_no_anchor_is_a_usage_error(anchor, done, tmp_path):
    """Exit 2 and how one looks; it is never taken for a log that was tampered with."""
    said = evrun("verify", "done", f"--anchor={anchor}", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        f"evrun: --anchor {anchor}: expected SEQUENCE:CHAIN, a number and 64 hex digits\n"
        "  hint: `evrun verify RUN --json` prints both\n"
    )


def test_no_such_run_is_a_usage_error(done, tmp_path):
    """Exit 2, where was looked, and the run that was probably meant."""
    assert evrun("verify", "dome", cwd=tmp_path) == (
        2,
        "",
        "evrun: no run 'dome': looked for dome/log and data/dome/log\n  hint: did you mean done?\n",
    )


def test_a_live_run_can_be_verified(crash, tmp_path):
    """No lock is needed to read: whoever writes is not disturbed."""
    with writer(crash) as log:
        log.append([encode_event(crashed()[0][1])])
        said = evrun_process("verify", "crash", "--json", cwd=tmp_path)
        assert (said.code, said.json["sequence"]) == (0, 12)
        assert log.append([encode_event(crashed()[0][1])]) == 13
