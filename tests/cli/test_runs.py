"""Where a run is: a directory, or a name in the output directory; and what is said when it is neither."""

from pathlib import Path

import pytest

from cli.runs import find_run, run_names
from evrun.errors import UsageFault


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working directory, and how to make an (empty) run in it."""
    monkeypatch.chdir(tmp_path)

    def make(*names: str) -> None:
        for name in names:
            (tmp_path / name / "log").mkdir(parents=True)

    return make


def test_a_name_is_found_in_the_output_directory(place):
    """`data` by default, any other when it is given."""
    place("data/a", "elsewhere/b")
    assert find_run("a") == Path("data/a")
    assert find_run("b", Path("elsewhere")) == Path("elsewhere/b")


def test_a_directory_is_taken_as_it_is(place, tmp_path):
    """Relative, absolute, or with a slash at its end."""
    place("out/a")
    assert find_run("out/a") == Path("out/a")
    assert find_run("out/a/") == Path("out/a")
    assert find_run(str(tmp_path / "out/a")) == tmp_path / "out/a"


def test_a_run_here_comes_before_one_of_the_same_name_in_the_output_directory(place):
    """RUN is a run directory first, a name second."""
    place("a", "data/a")
    assert find_run("a") == Path("a")


def test_a_directory_without_a_log_is_no_run(place, tmp_path):
    """A folder that happens to have the name does not hide the run in the output directory."""
    place("data/a")
    (tmp_path / "a").mkdir()
    assert find_run("a") == Path("data/a")


@pytest.mark.parametrize(
    ("there", "asked", "hint"),
    [
        ([], "a", "there are no runs in data; --output-dir says where they are"),
        (["my_first_run", "other"], "my_frist_run", "did you mean my_first_run?"),
        (["b", "c"], "zzzzz", "the runs in data: b, c"),
        ([f"r{n}" for n in range(8)], "zzzzz", "the runs in data: r0, r1, r2, r3, r4 and 3 more"),
    ],
)
def test_no_such_run_says_where_was_looked_and_what_is_there(place, there, asked, hint):
    """Exit 2: both places that were tried, then the nearest name, or the names that exist."""
    place(*(f"data/{name}" for name in there))
    with pytest.raises(UsageFault) as caught:
        find_run(asked)
    assert str(caught.value) == f"no run {asked!r}: looked for {asked}/log and data/{asked}/log"
    assert (caught.value.hint, caught.value.exit_code) == (hint, 2)


def test_only_directories_with_a_log_are_runs(place, tmp_path):
    """Other files and folders of the output directory are not offered; one that is not there offers none."""
    place("data/b", "data/a")
    (tmp_path / "data/notes").mkdir()
    (tmp_path / "data/file").write_text("x")
    assert run_names(Path("data")) == ["a", "b"]
    assert run_names(Path("nowhere")) == []
