"""`evrun deploy`: a workspace for a coding agent, which never takes what is another's."""

import json
import tomllib

import pytest

from tests.cli.shell import evrun
from tests.training.adapters import MANIFEST, directory_of, files
from tests.training.test_adapter_check import SKILL, TOOL

ROLE = '---\nname: helper\ndescription: helps "well"\n---\n\nHelp\tthem.\\ \U0001f642\n'
ADAPTER = {
    "ADAPTER.md": "# Do\n",
    "skills/add/SKILL.md": SKILL,
    "skills/add/more.txt": "more",
    "roles/helper.md": ROLE,
    "CARD.md": "a card",
}


@pytest.fixture
def adapter(tmp_path):
    """An adapter with a skill and a helper."""
    return directory_of(tmp_path / "adapter", files(ADAPTER))


def deploy(adapter, *arguments, workspace="place"):
    """What the command says; the workspace is beside the adapter."""
    return evrun("deploy", "--adapter", adapter, "--workspace", workspace, *arguments, cwd=adapter.parent)


def tree(directory):
    """The files of a workspace but for the marker."""
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    assert found.pop(".evrun-deploy.json")
    return {name: path.read_text() for name, path in sorted(found.items())}


def test_claude_code_gets_the_adapter_where_it_looks_for_it(adapter):
    """The text as CLAUDE.md, skills and helpers in their directories, and nothing of evrun's own."""
    said = deploy(adapter, "--host", "claude-code", "--json")
    assert said.code == 0
    assert tree(adapter.parent / "place") == {
        ".claude/agents/helper.md": ROLE,
        ".claude/skills/add/SKILL.md": SKILL,
        ".claude/skills/add/more.txt": "more",
        "CLAUDE.md": "# Do\n",
    }
    assert said.json == {
        "host": "claude-code",
        "adapter_id": "kit",
        "version": "1.0",
        "origin": None,
        "adapter": str(adapter),
        "workspace": str(adapter.parent / "place"),
        "context_injected_via": "CLAUDE.md",
        "server_name": None,
        "server": None,
        "roles": ["helper"],
        "role_name_map": {"helper": ".claude/agents/helper.md"},
        "skills_dir": ".claude/skills",
        "skills": ["add"],
        "audit_log": None,
        "omitted": [],
        "files": sorted(tree(adapter.parent / "place")),
    }


def test_codex_gets_its_helpers_as_toml(adapter):
    """It is the host where none is said; names and texts survive their quoting."""
    said = deploy(adapter)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].endswith("place is a workspace for codex with kit 1.0")
    found = tree(adapter.parent / "place")
    skill = [".agents/skills/add/SKILL.md", ".agents/skills/add/more.txt"]
    assert [*found] == [*skill, ".codex/agents/helper.toml", "AGENTS.md"]
    assert tomllib.loads(found[".codex/agents/helper.toml"]) == {
        "name": "helper",
        "description": 'helps "well"',
        "developer_instructions": "Help\tthem.\\ \U0001f642\n",
    }


def test_a_workspace_is_renewed_and_what_the_last_adapter_left_goes(adapter):
    """Another version, even for another host; what a user put beside stays."""
    deploy(adapter, "--host", "claude-code")
    place = adapter.parent / "place"
    (place / "notes.txt").write_text("mine")
    directory_of(adapter, files({"ADAPTER.md": "# Better\n"}))
    (adapter / "skills/add/SKILL.md").unlink()
    (adapter / "skills/add/more.txt").unlink()
    assert deploy(adapter).code == 0
    assert [*tree(place)] == [".codex/agents/helper.toml", "AGENTS.md", "notes.txt"]
    assert not (place / ".claude").exists()
    assert tree(place)["AGENTS.md"] == "# Better\n"


def changed(place):
    """A user edits what was made."""
    (place / "CLAUDE.md").write_text("my own words")


def in_the_way(place):
    """A user puts a directory where a file is to be."""
    (place / ".claude/agents/helper.md").unlink()
    (place / ".claude/agents/helper.md").mkdir()


def linked(place):
    """A user lets a directory lead elsewhere."""
    elsewhere = place.parent / "elsewhere"
    (place / ".claude/agents").rename(elsewhere)
    (place / ".claude/agents").symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("do", "path"),
    [(changed, "CLAUDE.md"), (in_the_way, ".claude/agents/helper.md"), (linked, ".claude/agents/helper.md")],
)
def test_what_somebody_changed_is_not_written_over(adapter, do, path):
    """Refused with exit 2, the file named, and everything as it was."""
    deploy(adapter, "--host", "claude-code")
    place = adapter.parent / "place"
    do(place)
    before = tree(place)
    directory_of(adapter, files({"ADAPTER.md": "# Better\n"}))
    refused = deploy(adapter, "--host", "claude-code")
    assert refused.code == 2
    assert f"{path}: not as evrun deploy made it" in refused.err
    assert tree(place) == before


@pytest.mark.parametrize("inside", ["thesis.txt", ".hermit-deploy.json"])
def test_a_directory_that_evrun_did_not_make_is_refused(adapter, inside):
    """Not a byte of it changes."""
    place = adapter.parent / "place"
    place.mkdir()
    (place / inside).write_text("mine")
    refused = deploy(adapter)
    assert refused.code == 2
    assert "not empty, and not made by evrun deploy" in refused.err
    assert [entry.name for entry in place.iterdir()] == [inside]


def test_a_marker_that_leads_out_of_the_workspace_is_not_followed(adapter):
    """A file named there is removed when it is not wanted any more: so only one inside may be named."""
    deploy(adapter)
    victim = adapter.parent / "victim"
    victim.write_text("mine")
    marker = adapter.parent / "place/.evrun-deploy.json"
    marker.write_text(json.dumps({"files": {"../victim": ["0"]}}))
    refused = deploy(adapter)
    assert refused.code == 2
    assert ".evrun-deploy.json cannot be read" in refused.err
    assert victim.read_text() == "mine"


def test_a_kill_in_the_middle_leaves_a_workspace_that_can_be_renewed(adapter):
    """The marker names old and new contents while files are written, so each mixture of them is evrun's."""
    deploy(adapter)
    place = adapter.parent / "place"
    old = (place / ".evrun-deploy.json").read_bytes()
    directory_of(adapter, files({"ADAPTER.md": "# Better\n"}))
    deploy(adapter)
    new = json.loads((place / ".evrun-deploy.json").read_bytes())
    both = {
        path: sorted({*one, *new["files"].get(path, [])}) for path, one in json.loads(old)["files"].items()
    }
    (place / ".evrun-deploy.json").write_text(json.dumps({**new, "files": both}))
    (place / "AGENTS.md").write_text("# Do\n")
    (place / ".codex/agents/helper.toml").unlink()
    assert deploy(adapter).code == 0
    assert tree(place)["AGENTS.md"] == "# Better\n"
    assert (place / ".codex/agents/helper.toml").is_file()


def test_tools_are_left_out_only_when_that_is_said(adapter):
    """No server is run for them: what is dropped is not dropped silently."""
    directory_of(adapter, files({"adapter.yaml": TOOL, "lib/t.py": "def run(x): return x"}))
    refused = deploy(adapter)
    assert refused.code == 2
    assert "the tool t cannot be given to codex by evrun" in refused.err
    assert not (adapter.parent / "place").exists()
    taken = deploy(adapter, "--allow-lossy", "--json")
    assert taken.json["omitted"] == ["the tool t"]


@pytest.mark.parametrize(
    ("changed", "arguments", "said"),
    [
        ({"skills/bad/x": ""}, [], "skills/bad: has no SKILL.md"),
        ({"adapter.yaml": MANIFEST.replace("exports", "exprots")}, [], "did you mean exports?"),
        ({}, ["--host", "pi"], "--host pi: expected one of codex, claude-code"),
    ],
)
def test_what_cannot_be_deployed_is_refused_before_anything_is_made(adapter, changed, arguments, said):
    """Exit 2, the reason, and no workspace."""
    directory_of(adapter, files(changed))
    refused = deploy(adapter, *arguments)
    assert refused.code == 2
    assert said in refused.err
    assert not (adapter.parent / "place").exists()
    gone = deploy(adapter.parent / "nowhere")
    assert gone.code == 2
    assert "a run's adapter is in its checkout/" in gone.err
