"""A run whose history was forged, every checksum right: only an anchor tells."""

import pytest

from tests.cli.shell import evrun, evrun_process
from tests.eventlog.forger import commits_of, forge


@pytest.fixture(name="anchor")
def _anchor(done, tmp_path):
    """The position of the finished run, noted before anybody touched it."""
    noted = evrun("verify", "done", "--json", cwd=tmp_path).json
    return f"{noted['sequence']}:{noted['chain']}"


def forge_history(run, change):
    """Let the forger write the log anew."""
    (commits,) = commits_of(run / "log")
    change(commits)
    forge(run / "log", [commits])


def reword(commits):
    """What the model thought, in as many letters."""
    for at, commit in enumerate(commits):
        payloads = tuple(payload.replace(b"Let me add", b"Let me lie") for payload in commit.payloads)
        commits[at] = commit._replace(payloads=payloads)


def forget_the_end(commits):
    """The last four commits never were."""
    del commits[-4:]


def put_in(commits):
    """The session's end comes twice."""
    commits.append(commits[-1])


@pytest.mark.parametrize("change", [reword, forget_the_end], ids=lambda change: change.__name__)
def test_a_forged_history_is_shown_by_the_anchor_alone(change, done, anchor, tmp_path):
    """Exit 5 and "tampered" with it; without it every command takes the log for what it is: whole."""
    forge_history(done, change)
    said = evrun_process("verify", "done", "--anchor", anchor, "--json", cwd=tmp_path)
    assert (said.code, said.json["class"]) == (5, "tampered")
    assert anchor.split(":")[1] in said.json["problem"]["what"]
    assert evrun("verify", "done", cwd=tmp_path).code == 0
    for command in ("audit", "events", "status"):
        assert evrun(command, "done", "--json", cwd=tmp_path).code == 0
    assert ("lie" in evrun("events", "done", "--json", cwd=tmp_path).out) == (change is reword)


def test_what_came_after_the_anchor_is_not_proven_by_it(done, anchor, tmp_path):
    """A longer history goes through the anchor: exit 0."""
    forge_history(done, put_in)
    assert evrun("verify", "done", "--anchor", anchor, cwd=tmp_path).code == 0


def test_a_log_that_is_cut_without_care_is_lost_with_an_anchor_or_without(done, anchor, tmp_path):
    """HEAD promises what is gone: the anchor is not even needed."""
    (path,) = (done / "log").glob("*.evl")
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"\xe5EVF")].ljust(len(data), b"\0"))
    for options in ([], ["--anchor", anchor]):
        said = evrun("verify", "done", *options, "--json", cwd=tmp_path)
        assert (said.code, said.json["class"]) == (5, "lost")


def test_a_salvage_keeps_what_the_anchor_proves(done, anchor, tmp_path):
    """The saved log has the old chain values: an anchor from before the gap proves it."""
    (path,) = (done / "log").glob("*.evl")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"Let me add")] ^= 1
    path.write_bytes(data)
    said = evrun("salvage", "done", "--out", "saved", "--json", cwd=tmp_path)
    assert said.code == 3
    end = said.json["log"]
    assert evrun("verify", "saved", "--anchor", f"{end['sequence']}:{end['chain']}", cwd=tmp_path).code == 0
    assert evrun("verify", "saved", "--anchor", anchor, "--json", cwd=tmp_path).json["class"] == "tampered"
