"""The tree of versions: made again from the log alone, the same to the last hash."""

import shutil
import subprocess

import pytest

from eventlog.events import HistoryStored
from evrun.effects.git import Tree
from evrun.errors import RunFailed, UsageFault
from evrun.training.starting import starting_point
from evrun.training.template import load_template
from evrun.training.tree import compare_tree, restore_tree, set_aside
from tests.training.adapters import MANIFEST, directory_of, files
from tests.training.versions import Made, git


def restored(made, **options):
    """What was moved when the tree was restored."""
    return made.read(lambda state, _, blobs: restore_tree(state, blobs, made.tree, **options))


def unlike(made):
    """What is not as the log says, and why."""
    found = made.read(lambda state, _, blobs: compare_tree(state, blobs, made.tree))
    return {one.path: one.why for one in found if not one.same}


@pytest.fixture
def finished(tmp_path):
    """A run of four steps, one repaired and one that changed nothing, with tags and a final adapter."""
    made = Made(tmp_path)
    made.step("one", tags=["ckpt-step-1"])
    made.step("two", invalid="x" * 50_000)
    made.step("two")
    made.step("four", tags=["ckpt-step-4", "ckpt-epoch-1"])
    made.final()
    made.finish()
    restored(made)
    return made


def everything(tree):
    """All refs and all objects of a tree, as git has them."""
    return (
        git(tree, "for-each-ref", "--format=%(refname) %(objectname)"),
        sorted(git(tree, "cat-file", "--batch-check", "--batch-all-objects").splitlines()),
    )


def test_a_deleted_tree_comes_back_with_the_same_hashes(finished):
    """Refs and objects are those that were there, and git finds nothing to object to."""
    before = everything(finished.tree)
    shutil.rmtree(finished.tree)
    moved = restored(finished)
    assert everything(finished.tree) == before
    assert moved == [line.split()[0] for line in before[0].splitlines()]
    assert git(finished.tree, "fsck", "--strict", "--full") == ""
    subjects = git(finished.tree, "log", "--all", "--format=%s").splitlines()
    assert subjects.count("step 2 (epoch 1) [toy]: better") == 2
    assert {"final: toy", "root: prompt-only@1.0"} < set(subjects)
    assert unlike(finished) == {}


def test_the_final_adapter_is_what_the_branch_stands_at_until_the_run_goes_on(tmp_path):
    """A run that goes on after a stop puts its branch back on its steps; the tag stays for now."""
    made = Made(tmp_path)
    made.step("one")
    final = made.final()
    restored(made)
    assert made.git("rev-parse", "toy", "toy/final").split() == [final, final]
    assert made.git("show", "toy:CARD.md") == "# A card"
    step = made.step("two")
    made.close()
    restored(made)
    assert made.git("rev-parse", "refs/heads/toy", "toy/final").split() == [step, final]


def test_what_a_kill_left_undone_is_seen_and_made_up(tmp_path):
    """A step is committed and its refs are not there yet: behind and missing, and right after a restart."""
    made = Made(tmp_path)
    made.step("one", tags=["ckpt-step-1"])
    restored(made)
    assert unlike(made) == {}
    made.write_tree = False
    second = made.step("two", tags=["ckpt-step-2"])
    made.close()
    assert unlike(made) == {
        "tree/refs/heads/toy": "behind",
        "tree/refs/tags/toy/ckpt-step-2": "missing",
        "tree/commits": "missing",
    }
    assert restored(made, whole=False) == ["refs/heads/toy", "refs/tags/toy/ckpt-step-2"]
    assert made.git("rev-parse", "toy/ckpt-step-2") == second
    assert unlike(made) == {}
    assert restored(made, whole=False) == []


def test_what_somebody_did_to_the_runs_refs_is_put_right_and_others_stay(finished):
    """The run's own branch and tags are the log's; branches and tags of others are nobody's here."""
    root = git(finished.tree, "rev-parse", "root")
    for arguments in (
        ("branch", "-f", "toy", root),
        ("branch", "mine", root),
        ("tag", "toy/mine", root),
        ("tag", "toy/ckpt-step-3", root),
        ("tag", "-d", "toy/final"),
        ("tag", "-f", "root", "toy/ckpt-step-4"),
    ):
        git(finished.tree, *arguments)
    assert unlike(finished) == {
        "tree/refs/heads/toy": "behind",
        "tree/refs/tags/toy/ckpt-step-3": "differs",
        "tree/refs/tags/toy/final": "missing",
    }
    assert restored(finished) == ["refs/heads/toy", "refs/tags/toy/ckpt-step-3", "refs/tags/toy/final"]
    assert unlike(finished) == {}
    assert git(finished.tree, "rev-parse", "mine", "toy/mine").split() == [root, root]
    assert git(finished.tree, "rev-parse", "root") == git(finished.tree, "rev-parse", "toy/ckpt-step-4")


def test_a_tree_that_lost_objects_is_whole_again(finished):
    """Refs that stand right say nothing about what lies below them; a whole restore looks."""
    lost = git(finished.tree, "rev-parse", "toy/ckpt-step-1^{tree}")
    (finished.tree / "objects" / lost[:2] / lost[2:]).unlink()
    assert unlike(finished) == {"tree/commits": "missing"}
    assert restored(finished) == []
    assert unlike(finished) == {}


def test_a_tree_that_git_has_packed_is_as_good(finished):
    """`git gc` moves objects and refs into files of its own; nothing is written a second time."""
    git(finished.tree, "gc", "-q", "--prune=now")
    before = everything(finished.tree)
    assert unlike(finished) == {}
    assert restored(finished) == []
    assert everything(finished.tree) == before
    assert git(finished.tree, "count-objects") == "0 objects, 0 kilobytes"


def test_two_runs_of_a_template_share_a_tree(tmp_path):
    """Each restores its own; what is left of a tree that one restored is completed by the other."""
    runs = [Made(tmp_path, name) for name in ("one", "two")]
    for number, made in enumerate(runs):
        made.step(f"of {number}", tags=["ckpt-step-1"])
        made.close()
        restored(made)
    before = everything(runs[0].tree)
    shutil.rmtree(runs[0].tree)
    restored(runs[1])
    restored(runs[0])
    assert everything(runs[0].tree) == before
    assert [unlike(made) for made in runs] == [{}, {}]


def test_a_run_is_set_aside_with_its_branch_and_tags(finished):
    """So that a new run can have its name: nothing of the old one is in the way, and nothing is lost."""
    names = ["", "/ckpt-step-1", "/ckpt-step-4", "/ckpt-epoch-1", "/final"]
    before = git(finished.tree, "rev-parse", *[f"toy{name}" for name in names])
    set_aside(finished.tree, "toy", "toy.replaced-1")
    assert git(finished.tree, "rev-parse", *[f"toy.replaced-1{name}" for name in names]) == before
    assert "toy/" not in git(finished.tree, "tag")
    assert git(finished.tree, "branch", "--format=%(refname:short)").split() == ["toy.replaced-1", "trunk"]


def test_a_run_starts_from_a_tag_a_commit_or_a_directory(finished, tmp_path):
    """Its log then holds all that it rests on, so that its branch can be rebuilt without the other run."""
    sha = git(finished.tree, "rev-parse", "toy/ckpt-step-4")
    directory = directory_of(tmp_path / "mine", {**finished.files})
    for name, start_from, parents in (
        ("by-tag", "toy/ckpt-step-4", 5),
        ("by-commit", sha[:10], 5),
        ("by-branch", "toy", 6),
        ("by-directory", str(directory), 2),
        ("by-root", "root", 1),
    ):
        other = Made(tmp_path, name, start_from=start_from)
        assert name == "by-root" or other.files["ADAPTER.md"].data == b"four"
        other.step(f"from {name}")
        other.close()
        restored(other)
        shutil.rmtree(finished.tree)
        restored(other)
        assert len(git(finished.tree, "rev-list", name).splitlines()) == parents + 1
        assert git(finished.tree, "fsck", "--strict", "--full") == ""
        restored(finished)


@pytest.mark.parametrize(
    ("start_from", "said", "hint"),
    [
        (
            "toy/ckpt-step-5",
            "start_from toy/ckpt-step-5: no tag, commit or directory",
            "did you mean toy/ckpt-step-",
        ),
        ("nothing", "no tag, commit or directory", "the tags of "),
        ("0" * 40, "no tag, commit or directory", "the tags of "),
        ("refs/heads/../x", "no tag, commit or directory", "the tags of "),
    ],
)
def test_a_start_that_is_not_there_is_refused_and_leaves_nothing(finished, start_from, said, hint, tmp_path):
    """The nearest tag is named, and neither a directory nor a ref is made."""
    before = everything(finished.tree), sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageFault, match=said) as refused:
        starting_point(finished.tree, finished.template, start_from)
    assert refused.value.hint.startswith(hint)
    with pytest.raises(UsageFault, match="there is no tree"):
        starting_point(tmp_path / "elsewhere", finished.template, start_from)
    assert (everything(finished.tree), sorted(tmp_path.rglob("*"))) == before


def test_a_start_that_does_not_pass_or_is_of_another_template_is_refused(finished, tmp_path):
    """A commit as it came before its repair, and an adapter of another kind, are no starting points."""
    invalid = git(finished.tree, "log", "--all", "--format=%H", "--grep=step 2").splitlines()[-1]
    with pytest.raises(UsageFault, match=r"has 50000 bytes; expected at most 40000 \(check 4\)"):
        starting_point(finished.tree, finished.template, invalid)
    kit = directory_of(tmp_path / "kit", files())
    with pytest.raises(UsageFault, match=r"no adapter of prompt-only@1\.0 that passes"):
        starting_point(finished.tree, finished.template, str(kit))


def test_a_template_that_was_edited_under_its_version_is_refused(tmp_path):
    """The tree holds what that version was: what changed is said, and another version is taken."""
    place = directory_of(tmp_path / "kit", files())
    first = Made(tmp_path, "first", template=str(place))
    first.step("# One\n")
    first.close()
    restored(first)
    (place / "RULES.md").write_text("be mean\n")
    with pytest.raises(
        UsageFault, match=r"kit@1\.0: not what it was when .* was made: RULES\.md changed"
    ) as said:
        starting_point(first.tree, load_template(str(place)), None)
    assert said.value.hint.startswith("give it another version in adapter.yaml")
    (place / "adapter.yaml").write_text(MANIFEST.replace('"1.0"', '"1.1"'))
    second = Made(tmp_path, "second", template=str(place))
    second.step("# Two\n")
    second.close()
    restored(second)
    roots = git(first.tree, "rev-parse", "root", "root@1.0", "root@1.1", "trunk").split()
    assert roots == [second.root, first.root, second.root, second.root]
    restored(first)
    assert git(first.tree, "rev-parse", "root") == second.root
    assert unlike(first) == unlike(second) == {}
    (place / "adapter.yaml").write_text(MANIFEST)
    with pytest.raises(UsageFault, match=r"RULES\.md changed"):
        starting_point(first.tree, load_template(str(place)), None)


def test_a_lock_that_a_killed_git_left_is_broken(finished):
    """Neither an object's nor a branch's lock file keeps a run from going on for ever."""
    second = git(finished.tree, "rev-parse", "toy/ckpt-step-1")
    lost = finished.tree / "objects" / second[:2] / second[2:]
    lost.unlink()
    lost.with_name(f"{lost.name}.lock").touch()
    git(finished.tree, "branch", "-f", "toy", "root")
    (finished.tree / "refs/heads/toy.lock").touch()
    assert restored(finished) == ["refs/heads/toy", "refs/tags/toy/ckpt-step-1"]
    assert unlike(finished) == {}


def test_a_half_made_repository_is_completed_and_a_strange_directory_left_alone(tmp_path):
    """A kill while it was made does no harm; somebody's directory is not filled with git's files."""
    (tmp_path / "half/objects").mkdir(parents=True)
    (tmp_path / "half/HEAD.17.partial").touch()
    Tree.create(tmp_path / "half").close()
    assert git(tmp_path / "half", "rev-parse", "--is-bare-repository") == "true"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(RunFailed, match=r"holds thesis\.txt and is no git repository"):
        Tree.create(tmp_path / "mine")
    assert [entry.name for entry in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_repository_of_another_form_is_refused(tmp_path):
    """Hashes in the log are SHA-1's: a tree that counts by others is no place for them."""
    subprocess.run(["git", "init", "-q", "--bare", "--object-format=sha256", tmp_path / "other"], check=True)
    with pytest.raises(RunFailed, match=r"of another form \(objects: sha256\); expected sha1"):
        Tree.create(tmp_path / "other")


def test_a_start_that_rests_on_much_is_recorded_in_parts(finished, monkeypatch):
    """A commit of the log holds so much and no more; the last part says where it starts."""
    whole = starting_point(finished.tree, finished.template, "toy")
    monkeypatch.setattr("evrun.training.starting.LARGEST_COMMIT", 500)
    parts = [event for event in whole.events() if isinstance(event, HistoryStored)]
    assert len(parts) > 3
    assert [one for part in parts for one in part.objects] == whole.objects
    assert [part.complete for part in parts] == [*[False] * (len(parts) - 1), True]
    assert [entry.path for entry in parts[-1].files] == ["ADAPTER.md", "CARD.md", "adapter.yaml"]
    assert not any(part.files or part.root_files for part in parts[:-1])


def test_a_repository_with_a_work_tree_keeps_it_untouched(tmp_path):
    """A user may have the tree checked out: only objects and the run's refs change."""
    made = Made(tmp_path)
    made.close()
    shutil.rmtree(made.tree)
    subprocess.run(["git", "init", "-q", "-b", "main", made.tree], check=True)
    (made.tree / "notes.txt").write_text("mine")
    restored(made)
    assert git(made.tree, "rev-parse", "toy") == made.head
    assert git(made.tree, "status", "--porcelain") == "?? notes.txt"
    assert sorted(entry.name for entry in made.tree.iterdir()) == [".git", "notes.txt"]
