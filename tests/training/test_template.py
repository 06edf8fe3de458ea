"""Templates: built in, or a directory with adapter.yaml."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evrun.errors import UsageFault
from evrun.training.adapter_check import check_candidate
from evrun.training.blobs import Content
from evrun.training.globs import covers
from evrun.training.manifest import front_matter, sections_of, with_origin
from evrun.training.template import load_template, template_of
from tests.training.adapters import MANIFEST, directory_of, files


@pytest.mark.parametrize("name", ["prompt-only", "prompt-only@1.0"])
def test_the_built_in_template_is_one_text_and_passes_its_own_checks(name):
    """ADAPTER.md, text of at most 40,000 bytes, and nothing else that a learner may make."""
    template = load_template(name)
    assert (template.id, template.version, template.name) == ("prompt-only", "1.0", "prompt-only@1.0")
    assert sorted(template.files) == ["ADAPTER.md", "adapter.yaml"]
    assert check_candidate(template, template.files, template.files, template.files) == []
    longer = template.files | {"ADAPTER.md": Content(b"x" * 40_001)}
    (issue,) = check_candidate(template, template.files, template.files, longer)
    assert (issue.path, issue.check, issue.problem) == (
        "ADAPTER.md",
        4,
        "has 40001 bytes; expected at most 40000",
    )


def test_a_template_is_read_from_its_directory(tmp_path):
    """All its files are the root's, but for what git and Python leave there; numbers do as versions."""
    place = directory_of(tmp_path / "kit", files({"__pycache__/a.pyc": "x", ".git/HEAD": "x"}))
    (place / "adapter.yaml").write_text(MANIFEST.replace('"1.0"', "2"))
    template = load_template(str(place))
    assert (template.id, template.version) == ("kit", "2")
    assert sorted(template.files) == ["ADAPTER.md", "RULES.md", "adapter.yaml", "lib/a.py"]
    assert [one.path for one in template.learnable] == ["ADAPTER.md", "notes/**", "skills", "roles"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prompt-onyl", "did you mean prompt-only@1.0?"),
        ("prompt-only@2.0", "did you mean prompt-only@1.0?"),
        ("elsewhere", "built in: prompt-only@1.0; or a directory with adapter.yaml"),
    ],
)
def test_a_template_that_is_not_there_is_refused_with_the_nearest(name, said, tmp_path):
    """A misspelled name is shown its neighbour, before anything is made."""
    with pytest.raises(UsageFault) as refused:
        load_template(name)
    assert refused.value.hint == said
    with pytest.raises(UsageFault, match=r"there is no adapter\.yaml"):
        load_template(str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("structure:", "strucure:", "strucure: an unknown section; did you mean structure?"),
        ("text: true", "txt: true", "unknown field `txt`"),
        ("version: ", "verzion: ", "unknown field `verzion`"),
        ("id: kit", "id: a/b", "template.id: expected letters, digits, - and _, found 'a/b'"),
        ("context: ADAPTER.md", "context: X.md", "exports.context: expected ADAPTER.md, found 'X.md'"),
        ("fixed: [lib, RULES.md]", "fixed: [../lib]", "structure.fixed: '../lib' is no relative path"),
        ("max_files: 2", "max_files: many", "Expected `int | null`, got `str`"),
        ("fixed: [lib, RULES.md]", "fixed: [", "is no YAML"),
        ("fixed: [lib, RULES.md]", "fixed: &a [lib]\ncheck: *a", "aliases (*name) are not taken"),
        ("template: ", "check: run.sh\ntemplate: ", "'run.sh': expected FILE.py:FUNCTION"),
    ],
)
def test_a_wrong_manifest_is_refused_with_what_is_wrong(old, new, said):
    """Unknown keys are not passed over: each says where it is and what was expected."""
    assert old in MANIFEST
    wrong = files({"adapter.yaml": MANIFEST.replace(old, new)})
    with pytest.raises(UsageFault) as refused:
        template_of(wrong, "kit")
    assert "adapter.yaml" in str(refused.value)
    assert said in str(refused.value)


def test_a_link_in_a_template_is_refused(tmp_path):
    """What lies behind a link is not the template's, and would not be in the log."""
    place = directory_of(tmp_path / "kit", files())
    (place / "out").symlink_to("/etc")
    with pytest.raises(UsageFault, match="out: is a link"):
        load_template(str(place))


TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=20)


@given(origin=st.dictionaries(TEXTS, TEXTS, max_size=4), second=st.dictionaries(TEXTS, TEXTS, max_size=2))
def test_the_origin_is_replaced_and_all_else_stays(origin, second):
    """Comments and the other sections are kept, whatever an origin holds and however often it is written."""
    manifest = f"# a comment\n{MANIFEST}".encode()
    once = with_origin(manifest, origin)
    assert sections_of(once) == sections_of(manifest) | {"origin": origin}
    assert once.startswith(b"# a comment\n")
    assert with_origin(once, second) == with_origin(manifest, second)
    assert with_origin(once, origin) == once


def test_the_origin_of_a_manifest_in_one_line_is_replaced_too():
    """A manifest that has no lines of sections is written anew, and says the same."""
    flow = repr(yaml.safe_load(MANIFEST)).encode()
    written = with_origin(flow, {"run": "r"})
    assert sections_of(written) == sections_of(flow) | {"origin": {"run": "r"}}
    in_the_middle = MANIFEST.replace("exports:", "origin:\n# why\n  run: old\nexports:").encode()
    assert sections_of(with_origin(in_the_middle, {"run": "r"})) == sections_of(written)


@pytest.mark.parametrize(
    ("pattern", "covered", "others"),
    [
        ("ADAPTER.md", ["ADAPTER.md", "ADAPTER.md/x"], ["ADAPTERxmd", "a/ADAPTER.md", "ADAPTER.md2"]),
        ("skills/", ["skills/a", "skills/a/b.md"], ["skills2/a", "my/skills/a"]),
        ("skills/*/SKILL.md", ["skills/a/SKILL.md"], ["skills/a/b/SKILL.md", "skills/SKILL.md"]),
        ("notes/**", ["notes/a", "notes/a/b"], ["notes", "note/a"]),
        ("**/*.md", ["a.md", "a/b/c.md"], ["a.txt"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b/z"], ["a/xb", "ab"]),
        ("?.md", ["a.md"], ["ab.md", "/.md"]),
        ("a+(b).md", ["a+(b).md"], ["aab.md"]),
        ("*", ["a", "a/b"], []),
    ],
)
def test_patterns_cover_what_they_say(pattern, covered, others):
    """`*` stays within a name, `**` goes across, a directory covers what lies below it."""
    assert [path for path in covered if not covers(pattern, path)] == []
    assert [path for path in others if covers(pattern, path)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("---\nname: a\ndescription: b\n---\nrest", {"name": "a", "description": "b"}),
        ("\ufeff---\nname: a\n---", {"name": "a"}),
        ("---\nname: a\n", None),
        ("name: a", None),
        ("---\n- a\n---\n", None),
        ("---\na: [\n---\n", None),
        ("", None),
    ],
)
def test_front_matter_is_what_stands_between_two_lines_of_dashes(text, found):
    """Anything else is no front matter, and never an error."""
    assert front_matter(text.encode()) == found
