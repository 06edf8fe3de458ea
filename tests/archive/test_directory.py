"""An archive in a directory: what is in it, what is sent, what is refused, and what can be read from it."""

import json
import shutil

import pytest

from tests.archive.logs import damage, first_half, second_half, segments
from tests.cli.shell import evrun
from tests.cli.story import UNITS, finished, tell, writer


def archived(tmp_path, run="run", to="kept"):
    """Archive a run of `data`, and give the report."""
    said = evrun("archive", run, to, "--json", cwd=tmp_path)
    assert said.code == 0, said.err
    return said.json


@pytest.fixture
def run(tmp_path):
    """A run of two sessions, hence of two segments."""
    return second_half(first_half(tmp_path / "data/run"))


@pytest.fixture
def kept(run, tmp_path):
    """Its archive."""
    archived(tmp_path)
    return tmp_path / "kept"


def objects(kept):
    """The stored files by their name in the log."""
    return {path.name.rpartition(".")[0]: path for path in (kept / "files").iterdir()}


READERS = [
    ("audit", "--by", "prompt"),
    ("events",),
    ("stats",),
    ("show", UNITS[0]),
]


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_what_only_reads_says_of_the_archive_what_it_says_of_the_run(words, kept, tmp_path):
    """The same bytes on stdout, whether the run or its archive is named."""
    command, *rest = words
    of_run = evrun(command, "run", *rest, "--json", cwd=tmp_path)
    of_archive = evrun(command, "kept", *rest, "--json", cwd=tmp_path)
    assert (of_run.code, of_archive.err) == (0, "")
    assert of_archive.out == of_run.out


def test_status_names_the_archive_as_the_place(kept, tmp_path):
    """All else is what the run's own status says."""
    of_run, of_archive = (evrun("status", name, "--json", cwd=tmp_path).json for name in ("run", "kept"))
    assert (of_run.pop("dir"), of_archive.pop("dir")) == ("data/run", "kept")
    assert of_archive == of_run


def test_views_from_the_archive_are_those_of_the_run_byte_for_byte(kept, tmp_path):
    """`replay DEST --out` makes the files that `replay RUN --out` makes; --check agrees."""
    for name in ("run", "kept"):
        assert evrun("replay", name, "--out", f"of_{name}", cwd=tmp_path).code == 0
    made = {path.name: path.read_bytes() for path in (tmp_path / "of_run").iterdir()}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "of_kept").iterdir()}
    assert made
    assert evrun("replay", "kept", "--check", "--out", "of_run", cwd=tmp_path).code == 0


def test_nothing_is_left_of_what_was_made_for_reading(kept, tmp_path, monkeypatch):
    """The private directory goes with the command, also with one that fails."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    assert evrun("status", "kept", cwd=tmp_path).code == 0
    assert evrun("replay", "kept", cwd=tmp_path).code == 2
    assert evrun("verify", "kept", cwd=tmp_path).code == 0
    assert list((tmp_path / "scratch").iterdir()) == []


def test_verify_gives_the_position_of_the_run_and_takes_anchors(kept, tmp_path):
    """Clean, with sequence and chain; another anchor is tampering, exit 5."""
    of_run, of_archive = (evrun("verify", name, "--json", cwd=tmp_path) for name in ("run", "kept"))
    assert of_archive.code == 0
    assert [of_archive.json[key] for key in ("class", "sequence", "chain")] == [
        of_run.json[key] for key in ("class", "sequence", "chain")
    ]
    anchor = f"{of_run.json['sequence']}:{of_run.json['chain']}"
    assert evrun("verify", "kept", "--anchor", anchor, cwd=tmp_path).code == 0
    assert evrun("verify", "kept", "--anchor", f"1:{'00' * 32}", cwd=tmp_path).code == 5


def test_what_is_there_is_not_sent_again(run, tmp_path):
    """First all, then nothing; after a session only its segment and HEAD."""
    other = first_half(tmp_path / "data/growing")
    assert [one["name"] for one in archived(tmp_path, "growing")["sent"]] == [segments(other)[0].name, "HEAD"]
    assert archived(tmp_path, "growing")["sent"] == []
    second_half(other)
    assert [one["name"] for one in archived(tmp_path, "growing")["sent"]] == [segments(other)[1].name, "HEAD"]


def test_what_the_last_archive_held_stays_one_time_longer(tmp_path):
    """A reader of the old manifest finds its files until the next archiving; then they go."""
    run = first_half(tmp_path / "data/run")
    archived(tmp_path)
    old = objects(tmp_path / "kept")["HEAD"]
    second_half(run)
    assert archived(tmp_path)["removed"] == 0
    assert old.is_file()
    assert archived(tmp_path)["removed"] == 1
    assert not old.exists()
    assert evrun("verify", "kept", cwd=tmp_path).code == 0


def test_a_compressed_segment_takes_the_place_of_its_plain_one(kept, run, tmp_path):
    """It is sent once; the archive holds the same events under the same chain, in less space."""
    before = evrun("verify", "kept", "--json", cwd=tmp_path).json
    assert evrun("compact", "run", cwd=tmp_path).code == 0
    report = archived(tmp_path)
    assert [one["name"] for one in report["sent"]] == [path.name for path in segments(run)]
    after = evrun("verify", "kept", "--json", cwd=tmp_path).json
    assert (after["sequence"], after["chain"]) == (before["sequence"], before["chain"])


def test_a_run_that_is_worked_on_is_archived_up_to_what_is_durable(tmp_path):
    """The lock is held by a writer; what it was told to be durable is there, and nothing is changed."""
    with writer(tmp_path / "data/run") as log:
        log.append([b"one"])
        log.append([b"two", b"three"])
        report = archived(tmp_path)
        assert (report["sequence"], report["chain"]) == (log.durable.sequence, log.durable.chain.hex())
    assert evrun("verify", "kept", "--json", cwd=tmp_path).json["sequence"] == 3


def test_what_a_crash_left_behind_the_end_is_not_archived(run, tmp_path):
    """The archive of a torn log is clean, and ends where the log does."""
    last = segments(run)[-1]
    with last.open("r+b") as file:
        file.seek(-4096, 2)
        file.write(b"half a frame")
    torn = evrun("verify", "run", "--json", cwd=tmp_path).json
    assert torn["class"] == "torn"
    archived(tmp_path)
    clean = evrun("verify", "kept", "--json", cwd=tmp_path).json
    assert (clean["class"], clean["sequence"], clean["chain"]) == ("clean", torn["sequence"], torn["chain"])


def test_another_log_s_archive_is_refused(kept, tmp_path):
    """Exit 2, both are named, and the archive is as it was."""
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    log = tell(tmp_path / "data/other", finished())
    for segment in segments(log):
        segment.unlink()
    (log / "log/HEAD").unlink()
    from eventlog.storage import LogWriter

    with LogWriter.open(log / "log", clock_ns=lambda: 1, random_bytes=bytes) as other:
        other.append([b"another log"])
    said = evrun("archive", "other", "kept", cwd=tmp_path)
    assert said.code == 2
    assert "is the archive of another log: of run run," in said.err
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before


def test_a_log_that_ends_before_its_archive_is_refused_by_name(kept, run, tmp_path):
    """A log that lost its second segment and all evidence of it looks whole: the archive knows better."""
    segments(run)[-1].unlink()
    (run / "log/HEAD").unlink()
    assert evrun("verify", "run", cwd=tmp_path).code == 0
    said = evrun("archive", "run", "kept", cwd=tmp_path)
    assert said.code == 5
    assert "events are gone that were there" in said.err
    assert evrun("verify", "kept", cwd=tmp_path).code == 0


def test_a_log_with_another_history_than_its_archive_is_refused(tmp_path):
    """Two that went on from one beginning: the second one's events never replace the first one's."""
    run = first_half(tmp_path / "data/run")
    shutil.copytree(run, tmp_path / "data/fork")
    second_half(run)
    with writer(tmp_path / "data/fork") as log:
        for number in range(40):
            log.append([b"%d" % number])
    archived(tmp_path)
    said = evrun("archive", "fork", "kept", cwd=tmp_path)
    assert said.code == 5
    assert "another history" in said.err


@pytest.mark.parametrize("offset", [0, 4096 + 30, -1], ids=["first", "frame", "last"])
def test_a_flipped_bit_in_any_file_of_the_archive_is_found(offset, kept, tmp_path):
    """Exit 5, and the file is named; a restore makes no run of it."""
    for name, path in objects(kept).items():
        damage(path, offset)
        said = evrun("verify", "kept", "--json", cwd=tmp_path)
        assert (said.code, said.json["class"]) == (5, "lost"), name
        assert path.name in said.json["problem"]["segment"]
        assert evrun("archive", "--restore", "kept", f"back-{name}", cwd=tmp_path).code == 5
        assert not (tmp_path / f"back-{name}/log").exists()
        damage(path, offset)
    assert evrun("verify", "kept", cwd=tmp_path).code == 0


def test_a_file_that_is_missing_or_cut_is_found(kept, tmp_path):
    """By verify, and by whoever only wants to read."""
    for name, path in objects(kept).items():
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        assert evrun("verify", "kept", cwd=tmp_path).code == 5, name
        assert "bytes" in evrun("status", "kept", cwd=tmp_path).err
        path.unlink()
        assert "is missing" in evrun("status", "kept", cwd=tmp_path).err
        path.write_bytes(data)
    assert evrun("status", "kept", cwd=tmp_path).code == 0


def test_a_manifest_that_was_changed_is_not_believed(kept, tmp_path):
    """Not even where what it says would fit: its checksum covers all of it."""
    path = kept / "archive.json"
    whole = path.read_bytes()
    changed = json.loads(whole) | {"run": "renamed"}
    for data in (whole[: len(whole) // 2], b"", b"[]", json.dumps(changed).encode()):
        path.write_bytes(data)
        assert evrun("verify", "kept", "--json", cwd=tmp_path).json["problem"]["segment"] == "archive.json"
        said = evrun("status", "kept", cwd=tmp_path)
        assert (said.code, "archive.json cannot be believed" in said.err) == (5, True)


def test_a_newer_format_is_unsupported_and_not_damage(kept, tmp_path):
    """Exit 5, class unsupported, and the way out is an upgrade."""
    path = kept / "archive.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"format": 2}))
    assert evrun("verify", "kept", "--json", cwd=tmp_path).json["class"] == "unsupported"
    assert "upgrade evrun" in evrun("archive", "run", "kept", cwd=tmp_path).err


def test_what_is_gone_from_the_archive_is_sent_again(kept, tmp_path):
    """The listing tells; the run is still there."""
    for path in objects(kept).values():
        path.unlink()
    assert len(archived(tmp_path)["sent"]) == 3
    assert evrun("verify", "kept", cwd=tmp_path).code == 0


def test_what_went_bad_in_the_archive_is_sent_again_when_it_is_checked(kept, tmp_path):
    """Its size tells nothing, so an archiving by itself sends nothing; `--check` reads it back."""
    damage(objects(kept)["HEAD"], 20)
    assert archived(tmp_path)["sent"] == []
    assert evrun("verify", "kept", cwd=tmp_path).code == 5
    said = evrun("archive", "run", "kept", "--check", "--json", cwd=tmp_path)
    assert [one["name"] for one in said.json["sent"]] == ["HEAD"]
    assert evrun("verify", "kept", cwd=tmp_path).code == 0


def test_a_run_comes_back_as_it_was(kept, run, tmp_path):
    """The restored log is clean, has the same events, and a HEAD that makes a later cut visible."""
    said = evrun("archive", "--restore", "kept", "data/back", "--json", cwd=tmp_path)
    assert (said.code, said.json["dir"]) == (0, "data/back")
    of_run, of_back = (evrun("events", name, "--json", cwd=tmp_path).out for name in ("run", "back"))
    assert of_back == of_run
    assert evrun("verify", "back", "--json", cwd=tmp_path).json["class"] == "clean"
    segments(tmp_path / "data/back")[-1].unlink()
    assert evrun("verify", "back", "--json", cwd=tmp_path).json["class"] == "lost"


def test_a_restore_writes_over_nothing(kept, run, tmp_path):
    """A run, or any other file, in the way is exit 2; what a killed restore left is no hindrance."""
    assert evrun("archive", "--restore", "kept", "data/run", cwd=tmp_path).code == 2
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("mine")
    assert evrun("archive", "--restore", "kept", "notes", cwd=tmp_path).code == 2
    (tmp_path / "half/log.restoring").mkdir(parents=True)
    (tmp_path / "half/log.restoring/HEAD").write_bytes(b"half")
    assert evrun("archive", "--restore", "kept", "half", cwd=tmp_path).code == 0


@pytest.mark.parametrize("words", [("compact",), ("audit", "--settle", "s1.c3=0.1"), ("events", "--follow")])
def test_what_needs_the_run_itself_refuses_its_archive(words, kept, tmp_path):
    """Exit 2, and the hint says how to make a run of it."""
    command, *rest = words
    said = evrun(command, "kept", *rest, cwd=tmp_path)
    assert said.code == 2
    assert "evrun archive --restore kept DIR" in said.err


def test_places_that_cannot_be_an_archive_are_refused(run, tmp_path):
    """A run's directory, a scheme that nobody knows, a place without an archive, an empty bucket name."""
    for words in (("run", "data/run"), ("run", "ftp://x/y"), ("run", "s3://"), ("--restore", "nowhere", "x")):
        said = evrun("archive", *words, cwd=tmp_path)
        assert said.code == 2, said.err
    assert evrun("verify", "s3://", cwd=tmp_path).code == 2


def test_a_full_or_forbidden_place_ends_with_what_was_sent(run, tmp_path):
    """Exit 1 and the account; the same command goes on afterwards."""
    (tmp_path / "kept").write_text("a file in the way")
    said = evrun("archive", "run", "kept", cwd=tmp_path)
    assert said.code == 1
    assert "before that 0 files with 0 bytes were sent to kept" in said.err
