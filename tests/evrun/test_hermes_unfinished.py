"""An import is there whole or not at all, and nobody is disturbed by one that was cut short."""

from contextlib import closing

import pytest

from eventlog.errors import LogLocked, NotWritten
from eventlog.storage import RealFileSystem
from evrun.batch.opening import open_writer
from evrun.errors import UsageFault
from evrun.hermes import Import, import_hermes
from evrun.hermes.survey import lines_again, survey
from tests.cli.shell import evrun
from tests.hermes import row, write


def asked(directory):
    """The import of `old` as `data/r`."""
    return Import(source=directory / "old", run_name="r", output_dir=directory / "data")


@pytest.fixture
def old(tmp_path):
    """A directory with two rows."""
    write(tmp_path / "old", {"batch_0.jsonl": [row(0, "a"), row(1, "b")]})
    return tmp_path


def test_what_a_killed_import_left_is_no_run_and_is_taken_away(old):
    """Half a log under another name: no command takes it for a run, and the next import begins anew."""
    with closing(open_writer(old / "data/r", print, "log.unfinished")) as writer:
        writer.append([b"half"])
    assert evrun("status", "r", cwd=old).code == 2
    made = import_hermes(asked(old), lambda _: None)
    assert made.state.batch.counts["kept"] == 2
    assert sorted(path.name for path in (old / "data/r").iterdir() if path.is_dir()) == ["log"]
    assert evrun("verify", "r", cwd=old).code == 0


def test_two_imports_at_once_do_not_write_over_each_other(old):
    """The second is told who is at it; what the first one wrote stays."""
    with closing(open_writer(old / "data/r", print, "log.unfinished")) as writer:
        writer.append([b"half"])
        with pytest.raises(LogLocked):
            import_hermes(asked(old), lambda _: None)
        assert (old / "data/r/log.unfinished").is_dir()
        assert not (old / "data/r/log").exists()
        assert evrun("import", "hermes", "old", "--run-name", "r", cwd=old).code == 6


def test_a_file_that_changes_while_it_is_read_is_refused_and_leaves_nothing(old):
    """A line that is not the one that was surveyed: Hermes may still be at work."""
    what = survey(old / "old")
    path = old / "old/batch_0.jsonl"
    path.write_bytes(path.read_bytes().replace(b"41 lines", b"42 lines"))
    with pytest.raises(UsageFault, match=r"batch_0\.jsonl changed while it was read"):
        list(lines_again(what))


def test_a_disk_that_takes_nothing_leaves_no_half_run(old, monkeypatch):
    """The log cannot be written: nothing stays behind."""
    monkeypatch.setattr(RealFileSystem, "rename", refuse)
    with pytest.raises(NotWritten, match="no room"):
        import_hermes(asked(old), lambda _: None)
    assert not (old / "data/r").exists()


def refuse(*_):
    """A rename that fails."""
    raise OSError(28, "no room")
