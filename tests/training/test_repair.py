"""Repair: a candidate that does not pass becomes one that does, by putting back no more than is needed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evrun.training.adapter_check import check_candidate
from evrun.training.blobs import Content
from evrun.training.repair import Repair, repair
from tests.training.adapters import MANIFEST, files, kit
from tests.training.test_adapter_check import SKILL, with_check

PARENT = {"ADAPTER.md": "# Parent\n", "notes/a": "a", "skills/add/SKILL.md": SKILL}


def repaired(changed, root=None, parent=None):
    """The kit's candidate put right: its files and what was put back."""
    template = kit(root)
    before = files((root or {}) | PARENT | (parent or {}))
    candidate = files((root or {}) | PARENT | (parent or {}) | changed)
    return before, *repair(template, template.files, before, candidate)


def test_a_candidate_that_passes_stays_as_it_is():
    """Nothing is put back where nothing is wrong."""
    _, found, done = repaired({"ADAPTER.md": "# Better\n"})
    assert found["ADAPTER.md"] == Content(b"# Better\n")
    assert done == []


def test_fixed_files_come_from_the_root_and_others_from_the_parent():
    """Each file is put back on its own; what was learned elsewhere stays."""
    _, found, done = repaired(
        {
            "RULES.md": "no rules",
            "lib/new.py": "x",
            "run.sh": "x",
            "ADAPTER.md": "x" * 61,
            "notes/a": "better",
        }
    )
    assert done == [
        Repair("ADAPTER.md", "parent", "check 4: has 61 bytes; expected at most 60"),
        Repair("RULES.md", "root", "check 1: is fixed, and was changed"),
        Repair("lib/new.py", "root", "check 1: lies where all is fixed, and was added"),
        Repair("run.sh", "parent", "check 2: is neither learnable nor fixed"),
    ]
    assert found == files(PARENT | {"notes/a": "better"})


def test_too_many_files_go_back_to_those_of_the_parent():
    """An issue about a pattern is about the changed files that it covers."""
    before, found, done = repaired({f"notes/{n}": "" for n in range(4)} | {"ADAPTER.md": "# Better\n"})
    assert found == before | {"ADAPTER.md": Content(b"# Better\n")}
    assert [one.path for one in done] == [f"notes/{n}" for n in range(4)]


def test_a_broken_directory_goes_back_as_a_whole():
    """A skill without its SKILL.md is restored with it, or removed where the parent has none."""
    before, found, done = repaired(
        {"skills/add/SKILL.md": None, "skills/new/x": "x"}, parent={"skills/add/more": "m"}
    )
    assert found == before
    assert [(one.path, one.restored_from) for one in done] == [
        ("skills/add/SKILL.md", "parent"),
        ("skills/new/x", "parent"),
    ]


def test_the_manifest_goes_back_to_that_of_the_parent():
    """With the origin that the parent has."""
    _, found, done = repaired(
        {"adapter.yaml": "a: ["}, parent={"adapter.yaml": MANIFEST + "origin: {run: r}\n"}
    )
    assert found["adapter.yaml"].data.endswith(b"origin: {run: r}\n")
    assert [one.path for one in done] == ["adapter.yaml"]


def test_what_cannot_be_attributed_takes_every_changed_file_back():
    """The template's own check names no file: then nothing that was changed is above suspicion."""
    own = with_check(
        "def check(adapter):\n    return 'bad' if 'bad' in (adapter / 'ADAPTER.md').read_text() else None"
    )
    before, found, done = repaired({"ADAPTER.md": "bad", "notes/a": "other", "notes/b": "new"}, own)
    assert found == before
    assert [(one.path, one.reason) for one in done] == [
        ("ADAPTER.md", "check 6: bad"),
        ("notes/a", "check 6: bad"),
        ("notes/b", "check 6: bad"),
    ]


def test_an_issue_with_its_file_takes_back_that_file_alone():
    """A check of one's own that names the file loses only that one."""
    own = with_check(
        "def check(adapter):\n"
        "    bad = 'bad' in (adapter / 'ADAPTER.md').read_text()\n"
        "    return [{'path': 'ADAPTER.md', 'problem': 'bad'}] if bad else []"
    )
    before, found, _ = repaired({"ADAPTER.md": "bad", "notes/a": "other"}, own)
    assert found == before | {"notes/a": Content(b"other")}


def test_what_is_in_the_way_of_a_file_that_is_put_back_goes():
    """A learner that makes ADAPTER.md a directory, or a directory of fixed files a file, gets them again."""
    before, found, done = repaired({"ADAPTER.md": None, "ADAPTER.md/x": "x"})
    assert found == before
    assert [one.path for one in done] == ["ADAPTER.md", "ADAPTER.md/x"]
    manifest = MANIFEST.replace("fixed: [lib,", "fixed: [skills/base, lib,")
    root = {"adapter.yaml": manifest, "skills/base": "b"}
    before, found, done = repaired({"skills/base": None, "skills/add/SKILL.md": None, "skills": "x"}, root)
    assert found == {path: content for path, content in before.items() if path != "skills/add/SKILL.md"}
    assert [(one.path, one.restored_from) for one in done] == [("skills", "root"), ("skills/base", "root")]


def test_an_issue_with_a_file_that_was_not_changed_takes_back_all_others():
    """What the check names is as it was before: then something else made it wrong, and nobody knows what."""
    own = with_check(
        "def check(adapter):\n"
        "    bad = (adapter / 'notes/b').exists()\n"
        "    return [{'path': 'RULES.md', 'problem': 'says otherwise'}] if bad else []"
    )
    before, found, done = repaired({"notes/b": "new"}, own)
    assert found == before
    (one,) = done
    assert one.reason == "check 6: says otherwise (RULES.md); nothing less helped"


def test_at_worst_it_is_the_parent_even_where_that_does_not_pass():
    """A check that refuses everything leaves the parent, and says that nothing less helped."""
    before, found, done = repaired(
        {"ADAPTER.md": "x", "run.sh": ""}, with_check("def check(adapter): return 'no'")
    )
    assert found == before
    assert [one.path for one in done] == ["ADAPTER.md", "run.sh"]


MORE = ["notes/b", "notes/c/d", "lib/b.py", "run.sh", "skills/two/SKILL.md", "skills/x", "CARD.md"]
PATHS = [*files(PARENT), *MORE, "roles/r.md", ".git/HEAD", "RULES.md/x"]
TEXTS = st.sampled_from([b"", b"x", b"x" * 70, b"\xff", SKILL.encode(), MANIFEST.encode(), b"a: ["])
CHANGES = st.dictionaries(st.sampled_from(PATHS), st.none() | TEXTS, max_size=8)


def possible(found):
    """Without what lies below a path that is a file: no directory can hold both."""
    return {
        path: one for path, one in found.items() if not any(path.startswith(f"{other}/") for other in found)
    }


@settings(max_examples=100)
@given(parent=CHANGES, candidate=CHANGES)
def test_what_comes_out_passes_or_is_the_parent(parent, candidate):
    """Whatever a learner leaves behind: a parent that passes has a successor that does."""
    template = kit()
    before = possible(files(PARENT | parent))
    changed = possible(files(PARENT | parent | candidate))
    found, done = repair(template, template.files, before, changed)
    assert check_candidate(template, template.files, before, found) == [] or found == dict(
        sorted(before.items())
    )
    different = {path for path in found.keys() | changed.keys() if found.get(path) != changed.get(path)}
    assert {one.path for one in done} == different
    for one in done:
        source = template.files if one.restored_from == "root" else before
        assert found.get(one.path) in {None, source.get(one.path)}
    if not check_candidate(template, template.files, before, before):
        assert check_candidate(template, template.files, before, found) == []
