"""What a candidate has to be: the six checks, each with what it finds."""

import os
import time

import pytest

from eventlog.events import Issue
from evrun.training.adapter_check import check_candidate, runs_code
from evrun.training.adapter_code import run_check
from evrun.training.manifest import with_origin
from tests.training.adapters import MANIFEST, files, kit

SKILL = "---\nname: add\ndescription: how to add\n---\nAdd.\n"
OWN_CHECK = MANIFEST + "check: checks/own.py:check\n"
TOOL = MANIFEST.replace(
    "  skills: skills", "  skills: skills\n  tools: [{name: t, entrypoint: 'lib/t.py:run'}]"
)


def issues(changed, root=None):
    """What is wrong with the kit's root with some files changed."""
    template = kit(root)
    return check_candidate(template, template.files, template.files, files((root or {}) | changed))


def with_check(text):
    """A kit whose template checks by itself."""
    return {
        "adapter.yaml": OWN_CHECK.replace("fixed: [lib", "fixed: [checks, lib"),
        "checks/own.py": text,
    }


def test_the_root_and_what_may_be_learned_pass():
    """Learnable files changed, added and removed, another origin and a card are nothing to object to."""
    assert issues({}) == []
    good = {
        "ADAPTER.md": "# Do it well\n",
        "notes/a/b.md": "n",
        "skills/add/SKILL.md": SKILL,
        "skills/add/more.txt": "m",
        "roles/helper.md": SKILL,
        "roles/logo.png": b"\x89PNG\0",
        "CARD.md": "a card",
        "adapter.yaml": with_origin(MANIFEST.encode(), {"run": "r"}),
    }
    assert issues(good) == []


@pytest.mark.parametrize(
    ("changed", "path", "check", "problem"),
    [
        ({"RULES.md": "be mean\n"}, "RULES.md", 1, "is fixed, and was changed"),
        ({"lib/a.py": None}, "lib/a.py", 1, "is fixed, and was removed"),
        ({"lib/b/c.py": ""}, "lib/b/c.py", 1, "lies where all is fixed, and was added"),
        ({"run.sh": ""}, "run.sh", 2, "is neither learnable nor fixed"),
        ({"notes/.git/x": ""}, "notes/.git/x", 2, "has a name that git cannot keep"),
        ({"ADAPTER.md": None}, "ADAPTER.md", 3, "is not there"),
        ({"adapter.yaml": None}, "adapter.yaml", 3, "is not there"),
        ({"adapter.yaml": "a: ["}, "adapter.yaml", 3, "is no YAML"),
        (
            {"adapter.yaml": MANIFEST.replace("kit", "kat")},
            "adapter.yaml",
            3,
            "its section template is not the",
        ),
        ({"adapter.yaml": MANIFEST + "check: a.py:b\n"}, "adapter.yaml", 3, "its section check is not the"),
        ({"ADAPTER.md": "x" * 61}, "ADAPTER.md", 4, "has 61 bytes; expected at most 60"),
        ({"ADAPTER.md": b"\xff"}, "ADAPTER.md", 4, "is no UTF-8 text"),
        ({f"notes/{n}": "" for n in range(3)}, "notes/**", 4, "has 3 files; expected at most 2"),
        ({"skills/add/x.md": ""}, "skills/add", 5, "has no SKILL.md"),
        (
            {"skills/add/SKILL.md": "Add."},
            "skills/add/SKILL.md",
            5,
            "front matter that has name and description",
        ),
        (
            {"skills/add/SKILL.md": SKILL.replace("description: how to add", "")},
            "skills/add/SKILL.md",
            5,
            "does not begin with front matter that has description",
        ),
        ({"roles/a.md": SKILL.replace("add", "../add", 1)}, "roles/a.md", 5, "is no name for a file"),
        ({"skills/a/SKILL.md": SKILL, "skills/b/SKILL.md": SKILL}, "skills", 5, "two in it are called 'add'"),
    ],
)
def test_what_is_wrong_is_said_with_its_file_and_its_check(changed, path, check, problem):
    """One fault is one issue: where, by which check, and what was expected."""
    (issue,) = issues(changed)
    assert (issue.path, issue.check) == (path, check)
    assert problem in issue.problem


def test_a_file_that_may_be_run_is_another_file_than_one_that_may_not():
    """The mode of a fixed file is fixed too."""
    template = kit()
    candidate = files()
    candidate["lib/a.py"] = candidate["lib/a.py"]._replace(executable=True)
    (issue,) = check_candidate(template, template.files, template.files, candidate)
    assert (issue.path, issue.check) == ("lib/a.py", 1)


def test_all_issues_are_told_sorted_and_the_later_checks_wait_for_the_first():
    """A candidate that breaks the structure is not run: its own check may rest on what is missing."""
    root = with_check("def check(adapter): return 'never asked'")
    found = issues({"run.sh": "", "RULES.md": "x", "lib/a.py": None, "skills/add/x": ""}, root)
    assert [(issue.check, issue.path) for issue in found] == [(1, "RULES.md"), (1, "lib/a.py"), (2, "run.sh")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return None", []),
        ("return True", []),
        ("return False", [Issue("", 6, "it does not pass")]),
        ("return 'too kind'", [Issue("", 6, "too kind")]),
        (
            "return [{'path': 'ADAPTER.md', 'problem': 'p'}, 'q']",
            [Issue("", 6, "q"), Issue("ADAPTER.md", 6, "p")],
        ),
        (
            "return 1 / 0",
            [Issue("", 6, "checks/own.py:check: own.py:2: ZeroDivisionError: division by zero")],
        ),
        (
            "return 7",
            [Issue("", 6, "checks/own.py:check: own.py: TypeError: it gave 7; expected texts, or ")],
        ),
        ("import os; os._exit(1)", [Issue("", 6, "checks/own.py:check: its process died")]),
        ("print('noise'); import sys; print('more', file=sys.stderr)", []),
    ],
)
def test_the_templates_own_check_is_asked(body, expected):
    """What it gives, raises or dies of becomes an issue; what it prints is nothing to anybody."""
    found = issues({}, with_check(f"def check(adapter):\n    {body}\n"))
    assert [(one.path, one.check) for one in found] == [(one.path, one.check) for one in expected]
    assert all(one.problem.startswith(other.problem) for one, other in zip(found, expected, strict=True))


def test_the_own_check_sees_the_candidate_the_root_and_the_parent_and_no_secret(monkeypatch):
    """It runs in the candidate's copy, and the environment of evrun is not its own."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-indeed")
    text = """\
import os
from pathlib import Path
import helper
def check(adapter, root, parent):
    assert helper.OK and "OPENAI_API_KEY" not in os.environ
    return [f"{(p / 'ADAPTER.md').read_text()}" for p in (adapter, root, parent, Path.cwd())]
"""
    template = kit(with_check(text) | {"checks/helper.py": "OK = True"})
    texts = {"parent": "P", "candidate": "C"}
    parent, candidate = (template.files | files({"ADAPTER.md": t}) for t in texts.values())
    for made in (parent, candidate):
        made["adapter.yaml"] = template.files["adapter.yaml"]
    found = run_check(template.check, template.files, parent, candidate)
    assert [fault.problem for fault in found] == ["C", "# Do\n", "P", "C"]


def test_an_own_check_that_hangs_is_stopped_with_all_that_it_started(tmp_path):
    """The deadline is real, and no process of it is left."""
    text = """\
import subprocess, sys, time
def check(adapter):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(%r, "w").write(str(child.pid))
    time.sleep(600)
"""
    noted = tmp_path / "pid"
    root = files(with_check(text % str(noted)))
    (fault,) = run_check("checks/own.py:check", root, root, root, timeout_s=4.0)
    assert fault.problem == "checks/own.py:check: gave no answer within 4 s, and was stopped"
    assert gone(int(noted.read_text()))


def gone(pid):
    """Whether a process ends within a few seconds."""
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
                if stat.read().split()[2] == "Z":
                    return True
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def run(x): return x", None),
        (None, "is not there; the tool 't' is to be found in it"),
        ("def other(): ...", "defines no function 'run' for the tool 't'"),
        ("def run(:", "is no Python"),
        ("import nowhere_at_all\ndef run(x): return x", "cannot be imported: t.py:1: ModuleNotFoundError"),
    ],
)
def test_a_tool_that_is_exported_can_be_imported(text, problem):
    """Its file is loaded in a process of its own; a tool that would fail at a host is found here."""
    manifest = TOOL.replace("    - roles", "    - roles\n    - lib/t.py").replace(
        "fixed: [lib,", "fixed: [lib/a.py,"
    )
    root = {"adapter.yaml": manifest, "lib/t.py": "def run(x): return x"}
    assert runs_code(kit(root))
    found = issues({"lib/t.py": text}, root)
    assert [issue.check for issue in found] == ([] if problem is None else [5])
    assert problem is None or problem in found[0].problem


def test_a_template_without_code_starts_no_process():
    """The ordinary check is a matter of microseconds."""
    assert not runs_code(kit())
