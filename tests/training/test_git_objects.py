"""Git objects made from events are those that the git program makes."""

import hashlib
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import FileEntry
from projections import fits_git, git_id, is_ref_name, make_commit, parse_commit, parse_tree
from projections.git_objects import tree_objects

GIT = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=6
) | st.sampled_from(["a", "a.b", "a-b", "a0", "A", "skills", "ADAPTER.md"])
CONTENTS = st.tuples(st.binary(max_size=40), st.booleans())


def git(directory, *arguments, stdin=None, **environment):
    """What the git program says, without the last line end."""
    done = subprocess.run(
        [*GIT, *arguments],
        cwd=directory,
        input=stdin,
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(directory), **environment},
    )
    return done.stdout.rstrip(b"\n")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """An empty bare repository."""
    directory = tmp_path_factory.mktemp("git")
    git(directory, "init", "-q", "--bare", ".")
    return directory


@st.composite
def trees(draw):
    """Files by path: nested directories, some with names that sort next to those of files."""

    def flat(node, above=""):
        found = {}
        for name, child in node.items():
            if isinstance(child, dict):
                found |= flat(child, f"{above}{name}/")
            elif fits_git(f"{above}{name}"):
                found[f"{above}{name}"] = child
        return found

    nodes = st.recursive(CONTENTS, lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=8)
    return flat(draw(st.dictionaries(NAMES, nodes, max_size=5)))


def imported(repository, files, message, time_s):
    """The commit that git's own import makes of these files, and all of its objects."""
    who = f"evrun <evrun@localhost> {time_s} +0000"
    text = (message.replace("\0", "\ufffd").rstrip("\n") + "\n").encode()
    head = f"commit refs/heads/x\nmark :1\nauthor {who}\ncommitter {who}\ndata {len(text)}\n"
    stream = [b"reset refs/heads/x\n", head.encode(), text, b"\n"]
    for path, (data, executable) in files.items():
        quoted = path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        mode = b"100755" if executable else b"100644"
        stream += [b'M %s inline "%s"\ndata %d\n' % (mode, quoted, len(data)), data, b"\n"]
    git(repository, "fast-import", "--quiet", "--force", "--export-marks=marks", stdin=b"".join(stream))
    return (repository / "marks").read_text().split()[1]


@settings(max_examples=40)
@given(files=trees(), message=st.text(max_size=30), time_s=st.integers(0, 2**32))
def test_a_commit_has_the_hash_that_git_gives_it(repository, files, message, time_s):
    """Blobs, trees in git's own order and the commit are byte for byte git's: else the hash were another."""
    contents = {hashlib.sha256(data).digest(): data for data, _ in files.values()}
    entries = [
        FileEntry(path, hashlib.sha256(data).digest(), len(data), executable)
        for path, (data, executable) in files.items()
    ]
    made, objects = make_commit("", message, time_s, entries, contents.__getitem__)
    assert made.sha == imported(repository, files, message, time_s)
    assert made.sha == git_id(*objects[-1])
    assert parse_commit(objects[-1][1]).time_s == time_s


@given(files=trees())
def test_objects_come_after_what_they_name_and_can_be_read_again(files):
    """Whoever writes the objects in their order never leaves one whose parts are missing."""
    blobs = {path: (git_id("blob", data), executable) for path, (data, executable) in files.items()}
    root, objects = tree_objects(blobs)
    there, found = {blob for blob, _ in blobs.values()}, {}
    for kind, data in objects:
        assert kind == "tree"
        assert {member.id for member in parse_tree(data)} <= there
        found[git_id(kind, data)] = parse_tree(data)
        there.add(git_id(kind, data))

    def flat(tree, above=""):
        for mode, name, child in found[tree]:
            if mode == "40000":
                yield from flat(child, f"{above}{name}/")
            else:
                yield f"{above}{name}", (child, mode == "100755")

    assert dict(flat(root)) == blobs


def test_a_content_that_is_known_is_neither_read_nor_given_again():
    """A step costs what it changed, however large the adapter is."""
    one, other = hashlib.sha256(b"one").digest(), hashlib.sha256(b"other").digest()
    read, known = [], {}
    contents = {one: b"one", other: b"other"}

    def look(digest):
        read.append(digest)
        return contents[digest]

    first, _ = make_commit("", "first", 1, [FileEntry("a", one, 3)], look, known=known)
    files = [FileEntry("a", one, 3), FileEntry("b", other, 5)]
    second, objects = make_commit(first.sha, "second", 2, files, look, known=known)
    assert read == [one, other]
    assert [kind for kind, _ in objects] == ["blob", "tree", "commit"]
    assert second.sha == make_commit(first.sha, "second", 2, files, look)[0].sha
    assert parse_commit(objects[-1][1]).parents == [first.sha]


def test_what_git_cannot_keep_is_left_out_of_a_commit():
    """A learner that leaves a .git directory behind spoils no commit."""
    digest = hashlib.sha256(b"x").digest()
    paths = ["ADAPTER.md", ".git/config", "a/.GIT/x"]
    made, objects = make_commit("", "m", 1, [FileEntry(p, digest, 1) for p in paths], lambda _: b"x")
    assert [entry.path for entry in made.files] == ["ADAPTER.md"]
    assert [kind for kind, _ in objects] == ["blob", "tree", "commit"]


@pytest.mark.parametrize("files", [{"a": "1", "a/b": "2"}, {"a/b": "1", "a": "2"}, {"../a": "1"}, {"": "1"}])
def test_files_that_no_tree_can_hold_are_refused(files):
    """One path as file and directory, or one that leads out, is an error and no silent loss."""
    with pytest.raises(ValueError, match=r"git cannot hold|is a file"):
        tree_objects(dict.fromkeys(files, ("0" * 40, False)))


WRONG = [
    "",
    "a..b",
    "a.lock",
    "a.",
    ".a",
    "a/.b",
    "a b",
    "a~1",
    "a@{1",
    "a//b",
    "a/",
    "-a",
    "a\\b",
    "a\x7f",
]


@pytest.mark.parametrize(
    "name", [*WRONG, "a", "run-1", "a.b", "a@b", "run/ckpt-step-3", "locked", "a.lock.b", "@x"]
)
def test_names_of_refs_are_those_that_git_takes(repository, name):
    """What is taken as a run's name can be a branch's."""
    done = subprocess.run(
        [*GIT, "check-ref-format", "--branch", name], cwd=repository, capture_output=True, check=False
    )
    assert is_ref_name(name) == (done.returncode == 0) == (name not in WRONG)
