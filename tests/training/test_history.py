"""What a learner reads of earlier versions, and the patches of it: `git apply` takes them."""

import json
import subprocess
from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.storage import LogReader
from evrun.training.blobs import Blobs, Content, read_files, write_files
from evrun.training.history import History
from evrun.training.patches import changes, patch
from projections import RunState, recorded
from tests.training.versions import Made, git


def written(made, directory, newest=50):
    """The lines of log.jsonl, with the files in the directory."""
    made.read(lambda *run: History(*run, newest).write(directory))
    lines = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
    assert {one.name for one in directory.iterdir()} == {"log.jsonl", *(line["patch"] for line in lines)}
    return lines


def test_each_version_is_a_line_and_a_patch_the_newest_first(tmp_path):
    """What was changed, in which step, whether it passed, and the patch that git would show."""
    made = Made(tmp_path)
    made.step("one\n")
    made.step("two\n", invalid="x" * 50_000)
    made.step("two\n")
    made.step(b"four", summary="the last")
    made.close()
    lines = written(made, tmp_path / "history")
    assert [(line["step"], line["valid"], line["changed"]) for line in lines] == [
        (4, True, ["ADAPTER.md"]),
        (2, True, ["ADAPTER.md"]),
        (2, False, ["ADAPTER.md"]),
        (1, True, ["ADAPTER.md"]),
    ]
    assert [line["commit"] for line in lines] == made.git("rev-list", "toy").splitlines()[:-1]
    assert lines[0]["summary"] == "the last"
    for line in lines:
        shown = (tmp_path / "history" / line["patch"]).read_text()
        of_git = git(made.tree, "show", "--format=", "--no-color", line["commit"]).splitlines()
        assert shown.splitlines() == [one for one in of_git if not one.startswith("index ")]


def test_a_history_that_grows_is_the_one_that_is_read_at_once(tmp_path):
    """Each version is looked at once while a run goes on; a resumed run shows the same."""
    made, state = Made(tmp_path), RunState()
    with closing(LogReader.open(made.run / "log")) as reader:
        one = History(state.training, reader, Blobs(state.training, reader), 3)
        for number in range(6):
            reader.refresh()
            for record in recorded(reader, state.sequence + 1):
                state.apply(record)
            one.write(tmp_path / f"grown-{number}")
            lines = written(made, tmp_path / f"whole-{number}", newest=3)
            assert [line["step"] for line in lines] == [*range(number, max(0, number - 3), -1)]
            assert read_files(tmp_path / f"grown-{number}") == read_files(tmp_path / f"whole-{number}")
            made.step(f"{number}\n")
    made.close()


def test_a_history_that_has_fallen_behind_begins_anew(tmp_path):
    """More versions than it shows came at once: the first of them is compared with the one before it."""
    made, state = Made(tmp_path), RunState()
    with closing(LogReader.open(made.run / "log")) as reader:
        one = History(state.training, reader, Blobs(state.training, reader), 2)
        for number in range(6):
            made.step(f"{number}\n")
            if number in {1, 5}:
                reader.refresh()
                for record in recorded(reader, state.sequence + 1):
                    state.apply(record)
                one.write(tmp_path / f"behind-{number}")
    made.close()
    written(made, tmp_path / "whole", newest=2)
    assert read_files(tmp_path / "behind-5") == read_files(tmp_path / "whole")


def test_learners_share_the_files_and_get_them_as_they_ought_to_be(tmp_path):
    """Each call's directory leads to the same files; what a learner did to them is gone at the next call."""
    made = Made(tmp_path)
    for number in range(3):
        made.step(f"{number}\n")
    made.close()
    written(made, tmp_path / "whole")
    shared = tmp_path / "shared"
    (shared / "old").mkdir(parents=True)

    def calls(*run):
        one = History(*run, shared=shared)
        (tmp_path / "a").mkdir()
        one.write(tmp_path / "a")
        patch = min(shared.glob("*.patch"))
        patch.chmod(0o600)
        patch.write_text("spoilt")
        (shared / "log.jsonl").unlink()
        (shared / "mine").mkdir()
        (shared / "mine/x").touch()
        (shared / "link").symlink_to("/etc")
        one.write(tmp_path / "b")

    made.read(calls)
    for name in ("a", "b"):
        assert (tmp_path / name).is_symlink()
        assert read_files(tmp_path / name) == read_files(tmp_path / "whole")


NAMES = st.sampled_from(["a", "b/c", "with blank", 'quote"d', "tab\tbed", "ünï", "back\\slash", "a.md"])
TEXTS = st.lists(st.sampled_from(["one", "two", "", " ", "\r", "\u2028", "-- x", "+++ y"]), max_size=6).map(
    "\n".join
)
CONTENTS = st.builds(Content, TEXTS.map(str.encode), st.booleans())
TREES = st.dictionaries(NAMES, CONTENTS, max_size=4).filter(lambda found: found)


@settings(max_examples=30)
@given(before=TREES, after=TREES)
def test_git_applies_a_patch_and_gets_the_other_version(tmp_path_factory, before, after):
    """Added, removed and changed files, modes, odd names, and last lines that do not end."""
    place = tmp_path_factory.mktemp("patch")
    write_files(place, before)
    (place.parent / f"{place.name}.patch").write_bytes(patch(changes(before, after)).encode())
    if changes(before, after):
        done = subprocess.run(
            ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", f"../{place.name}.patch"],
            cwd=place,
            env={"GIT_CEILING_DIRECTORIES": str(place.parent), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (done.stderr, patch(changes(before, after)))
    assert read_files(place) == dict(sorted(after.items()))


def test_what_is_no_text_is_named_and_not_shown():
    """A picture that changed is a line."""
    found = changes({"a": Content(b"\0"), "b": Content(b"x")}, {"a": Content(b"\1\0")})
    assert [(one.path, one.kind) for one in found] == [("a", "changed"), ("b", "removed")]
    assert patch(found).startswith("Binary file a changed\ndiff --git a/b b/b\ndeleted file mode 100644\n")
