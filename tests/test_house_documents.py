"""Documents cite names, and the names are there: a tour that leads to a wall is worse than none."""

import re

import pytest

from tests.house import PACKAGES, ROOT, sources
from tests.test_house_manner import bound

DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("examples/*.md")),
]
TOUR = ROOT / "ARCHITECTURE.md"
TOPS = (*PACKAGES, "tests", "benchmarks", "docs", "examples", "scripts", ".ci")
MODULES = {file.module: file for file in sources(*PACKAGES, "tests")}


def cited(text):
    """What stands between backquotes, outside of code blocks and of commands."""
    return re.findall(r"`([^`\s]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def linked(text):
    """The targets of links that are not on the web."""
    return [target.split("#")[0] for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)]


def leads_nowhere(name):
    """Whether a citation looks like a path or a dotted name of ours and is neither."""
    if "<" in name or "*" in name or "…" in name:
        return False
    if name.split("/")[0] in TOPS and "/" in name:
        return not (ROOT / name).exists()
    if not re.fullmatch(r"(eventlog|projections|evrun|cli|tests)(\.\w+)+", name) or name.endswith(".py"):
        return False
    module, _, last = name.rpartition(".")
    return name not in MODULES and not (module in MODULES and last in bound(MODULES[module]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_document_cites_is_there(document):
    """Every path, every dotted name, every link to a file of the checkout."""
    text = document.read_text("utf-8")
    assert [name for name in cited(text) if leads_nowhere(name)] == []
    assert [target for target in linked(text) if not (document.parent / target).exists()] == []


def test_every_name_on_the_tour_is_bound_somewhere():
    """`run_batch`, `Caller.complete`: whoever follows the tour finds each name by searching for it."""
    known = {name for file in sources(*PACKAGES) for name in bound(file)} | set(PACKAGES)
    names = [name for name in cited(TOUR.read_text("utf-8")) if re.fullmatch(r"[A-Za-z_]+(\.[a-z_]+)?", name)]
    assert len(names) > 20
    assert [name for name in names if not set(name.split(".")) <= known] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_cite_no_line_numbers(document):
    """They would be wrong after the next commit."""
    assert re.findall(r"\.py:\d+|\bline \d+ of\b", document.read_text("utf-8")) == []


def test_a_citation_that_leads_nowhere_is_found():
    """The rule can fail, for paths, modules and names; what is there, or none of ours, is not found."""
    for gone in ("eventlog/gone.py", "scripts/gone", "cli.gone", "cli.main.GONE", "docs/gone/"):
        assert leads_nowhere(gone), gone
    for there in (
        "eventlog/errors.py",
        "scripts/run",
        "cli.main",
        "cli.main.COMMANDS",
        "docs/",
        "a.b",
        "x/y.py",
    ):
        assert not leads_nowhere(there), there
