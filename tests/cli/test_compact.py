"""`evrun compact`: less space, the same run."""

import hashlib

from tests.cli.shell import evrun, evrun_process
from tests.cli.story import writer


def views(run):
    """Every file of the run outside its log, by digest."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in run.iterdir() if path.is_file()
    }


def test_a_run_is_compressed_and_everything_says_the_same(done, tmp_path):
    """Verify, audit, status, events and the views before and after; only the log's size differs."""
    commands = (
        ("audit", "done", "--json"),
        ("status", "done", "--json"),
        ("events", "done", "--json"),
        ("replay", "done", "--check", "--json"),
    )
    before = [evrun(*command, cwd=tmp_path).out for command in commands]
    chain = evrun("verify", "done", "--json", cwd=tmp_path).json["chain"]
    files = views(done)
    said = evrun_process("compact", "done", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    report = said.json
    assert [one["number"] for one in report["segments"]] == [1]
    assert report["after_bytes"] < report["before_bytes"]
    assert [path.suffix for path in (done / "log").glob("*.ev*")] == [".evz"]
    assert [evrun(*command, cwd=tmp_path).out for command in commands] == before
    assert evrun("verify", "done", "--json", cwd=tmp_path).json["chain"] == chain
    assert views(done) == files


def test_people_see_what_it_gave(done, tmp_path):
    """A line a segment and the sum; the second time there is nothing to do."""
    said = evrun("compact", "done", cwd=tmp_path)
    assert said.code == 0
    assert "bytes became" in said.out.splitlines()[-1]
    assert evrun("compact", "done", cwd=tmp_path).out == "every segment is compressed already\n"


def test_a_run_that_is_worked_on_is_refused_with_6(done, tmp_path):
    """Somebody holds the log: nothing is changed, and the message says who."""
    with writer(done):
        said = evrun("compact", "done", cwd=tmp_path)
    assert said.code == 6
    assert "Another process holds the log" in said.err
    assert [path.suffix for path in (done / "log").glob("*.ev*")] == [".evl"]


def test_a_run_that_is_not_there_is_a_usage_error(tmp_path):
    """Exit 2, where was looked, and nothing is made."""
    said = evrun("compact", "nothing", cwd=tmp_path)
    assert said.code == 2
    assert "no run 'nothing'" in said.err
    assert not list(tmp_path.iterdir())


def test_a_damaged_log_is_refused_with_5(done, tmp_path):
    """Compression never makes damage look whole."""
    (path,) = (done / "log").glob("*.evl")
    data = bytearray(path.read_bytes())
    data[4096 + 150] ^= 1
    path.write_bytes(data)
    said = evrun("compact", "done", cwd=tmp_path)
    assert said.code == 5
    assert path.read_bytes() == data
