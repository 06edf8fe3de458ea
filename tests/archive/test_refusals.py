"""Places that an archive cannot have, archives that were only begun, and disks that are full."""

import resource
import subprocess

import pytest

from tests.archive.logs import first_half, large, second_half
from tests.cli.shell import ENVIRONMENT, EVRUN, evrun

MIB = 1 << 20


@pytest.fixture
def run(tmp_path):
    """A run of two segments."""
    return second_half(first_half(tmp_path / "data/run"))


def tree(tmp_path):
    """All that there is, files with their bytes."""
    return {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}


def evrun_in_little_room(*words, cwd, room=MIB):
    """The command where no file may be larger than so many bytes."""
    return subprocess.run(
        [*EVRUN, *words],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )


def killed_early(tmp_path):
    """Leave in `kk` what an archiving leaves that was killed before its first manifest."""
    assert evrun("archive", "run", "kk", cwd=tmp_path).code == 0
    (tmp_path / "kk/archive.json").unlink()
    (tmp_path / f"kk/files/HEAD.{'0' * 64}.77.partial").write_bytes(b"half")


@pytest.mark.parametrize("place", ["newdir/../data/other", "data/run/../other", "data/other/log"])
def test_a_run_s_directory_is_refused_however_it_is_written(place, run, tmp_path):
    """Exit 2, nothing in it is touched, and no directory is left that was not there."""
    first_half(tmp_path / "data/other")
    before = tree(tmp_path)
    said = evrun("archive", "run", place, cwd=tmp_path)
    assert (said.code, "holds a run" in said.err) == (2, True)
    assert tree(tmp_path) == before


def test_a_restore_onto_a_run_is_refused_however_it_is_written(run, tmp_path):
    """Exit 2, and no directory is left that was not there; beside it, it is where it was meant."""
    assert evrun("archive", "run", "kept", cwd=tmp_path).code == 0
    before = tree(tmp_path)
    said = evrun("archive", "--restore", "kept", "newdir/../data/run", cwd=tmp_path)
    assert (said.code, "holds a run already" in said.err) == (2, True)
    assert tree(tmp_path) == before
    assert evrun("archive", "--restore", "kept", "newdir/../data/back", cwd=tmp_path).code == 0
    assert evrun("verify", "data/back", cwd=tmp_path).code == 0
    assert not (tmp_path / "newdir").exists()


@pytest.mark.parametrize("inside", ["photo.jpg", "files/photo.jpg", ".git/HEAD"])
def test_a_directory_of_something_else_is_refused(inside, run, tmp_path):
    """Exit 2, what is there is named, and nothing is changed."""
    (tmp_path / "mine" / inside).parent.mkdir(parents=True)
    (tmp_path / "mine" / inside).write_text("mine")
    before = tree(tmp_path)
    said = evrun("archive", "run", "mine", cwd=tmp_path)
    assert (said.code, "mine is not empty and holds no archive" in said.err) == (2, True)
    assert inside.partition("/")[0] in said.err
    assert tree(tmp_path) == before


@pytest.mark.parametrize("inside", [None, "lost+found", "files"])
def test_an_empty_directory_takes_an_archive(inside, run, tmp_path):
    """Also the root of a disk, and where the first file was not there yet when an archiving was killed."""
    (tmp_path / "mine" / (inside or "")).mkdir(parents=True)
    assert evrun("archive", "run", "mine", cwd=tmp_path).code == 0
    assert evrun("verify", "mine", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    "words", [("verify", "kk"), ("status", "kk"), ("archive", "--restore", "kk", "back")]
)
def test_half_an_archive_is_called_one(words, run, tmp_path):
    """Exit 2; there is no archive.json yet, and the same command, which goes on, is the way to it."""
    killed_early(tmp_path)
    said = evrun(*words, cwd=tmp_path)
    assert (said.code, "no archive in kk: there is no archive.json yet" in said.err) == (2, True)
    assert "evrun archive RUN kk" in said.err
    assert evrun("archive", "run", "kk", "--json", cwd=tmp_path).json["sent"] == []
    assert evrun("verify", "kk", cwd=tmp_path).code == 0


def test_a_place_with_a_password_is_refused_without_showing_it(run, tmp_path):
    """Exit 2 wherever a place may stand; neither name nor password is repeated."""
    for place in ("s3://some:pw6@bucket/x", "s3://some:p/w6@bucket/x", "https://some:pw6@host/x"):
        for words in (("archive", "run", place), ("archive", "--restore", place, "back")):
            said = evrun(*words, cwd=tmp_path)
            assert said.code == 2, said.err
            assert not [part for part in ("some", "pw6", "w6") if part in said.err + said.out]
    for command in ("verify", "compact"):
        said = evrun(command, "s3://some:pw6@bucket/x", cwd=tmp_path)
        assert (said.code, "pw6" in said.err + said.out) == (2, False)


def test_a_bucket_as_the_directory_of_runs_is_repeated_as_it_was_typed(tmp_path):
    """With both of its slashes, in the list and where a run is looked for."""
    for words in (("list",), ("status", "run")):
        said = evrun(*words, "--output-dir", "s3://bkt/runs", cwd=tmp_path)
        assert (said.code, "s3://bkt/runs" in said.err, "s3:/bkt" in said.err) == (2, True, False)


def test_a_full_disk_is_named_and_the_same_command_goes_on(tmp_path):
    """Exit 1 with the file that found no room, and what was sent before; then all of it is there."""
    large(tmp_path / "data/run", [MIB // 2, 3 * MIB])
    done = evrun_in_little_room("archive", "run", "kept", cwd=tmp_path)
    assert (done.returncode, "None" in done.stderr) == (1, False), done.stderr
    assert f"{tmp_path}/kept/files/" in done.stderr
    assert "before that 1 files with" in done.stderr
    assert evrun("archive", "run", "kept", cwd=tmp_path).code == 0
    assert evrun("verify", "kept", cwd=tmp_path).code == 0


def test_a_restore_on_a_full_disk_says_what_is_left_and_is_done_again(tmp_path):
    """Exit 1 with the file and the directory that are left; the command in the hint makes the run."""
    large(tmp_path / "data/run", [MIB // 2, 3 * MIB])
    assert evrun("archive", "run", "kept", cwd=tmp_path).code == 0
    done = evrun_in_little_room("archive", "--restore", "kept", "data/back", cwd=tmp_path)
    assert (done.returncode, "data/back/log.restoring is left" in done.stderr) == (1, True), done.stderr
    assert ".evl: File too large" in done.stderr
    assert "`evrun archive --restore kept data/back` again" in done.stderr
    assert not (tmp_path / "data/back/log").exists()
    assert evrun("archive", "--restore", "kept", "data/back", cwd=tmp_path).code == 0
    assert evrun("verify", "data/back", cwd=tmp_path).code == 0
    assert [path.name for path in (tmp_path / "data/back").iterdir()] == ["log"]
