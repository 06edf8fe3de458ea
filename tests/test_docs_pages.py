"""The pages in docs/: the commands that they show are typed, and print what the pages show."""

import re
from pathlib import Path

import pytest

from eventlog.storage import LogReader
from projections import RunState, rebuild, statistics
from tests.cli.shell import evrun
from tests.cli.story import finished, tell
from tests.pages import PageFault, agrees, run_page, steps_of
from tests.runs import ROOT, rows_of

PAGES = [page for page in sorted(ROOT.glob("docs/*.md")) if "\n<!-- runs -->\n" in page.read_text("utf-8")]


@pytest.mark.timeout(300)  # many commands one after the other, on a machine that may be busy with others
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    """Every marked command of the page, in its order, in one directory, against one endpoint."""
    ran = run_page(page.read_text("utf-8"), tmp_path)
    assert ran
    assert "\n\n".join(one.wrong for one in ran if one.wrong) == ""


PAGE = """
<!-- endpoint: {"text": "Hello"} -->
<!-- file: some/where.txt -->
```text
one
two
```
<!-- does: echo quietly > seen -->
<!-- runs -->
```console
$ cat some/where.txt; A=kept
one
two
$ echo \\
    $A
kept
$ ls gone   # exit 2
…gone…
$ evrun run examples/gsm8k_20.jsonl --run-name r --toolsets none --max-samples 1
…
done: 1 prompts: 1 kept
…
```
Prose between.
<!-- rules: [{"match": {}, "then": {"status": 400, "error": {"message": "no"}}}] -->
<!-- runs -->
```sh
cat seen
evrun run examples/gsm8k_20.jsonl --run-name s --toolsets none --max-samples 1   # exit 3
```
"""


def test_a_page_is_done_in_one_shell_with_its_files_and_rules(tmp_path: Path) -> None:
    """Files are written, variables stay, the endpoint does as it is told, exit codes are looked at."""
    ran = run_page(PAGE, tmp_path)
    assert [one.wrong for one in ran] == [None] * 7
    assert "Hello" in (tmp_path / "page/data/r/trajectories.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    "block",
    [
        "$ echo one\ntwo",
        "$ echo one",
        "$ true\none",
        "$ echo one; false\none",
        "$ printf 'one\\ntwo\\n'\none",
        "$ printf 'one\\ntwo\\n'\ntwo\none",
        "$ printf 'one\\ntwo\\n'\n…\none",
        "$ true   # exit 1",
    ],
)
def test_a_page_that_shows_something_else_is_found(block: str, tmp_path: Path) -> None:
    """Another line, a line too few or too many, another order, another exit code."""
    (ran,) = run_page(f"<!-- runs -->\n```console\n{block}\n```\n", tmp_path)
    assert ran.wrong is not None


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("<!-- runs -->\n\nprose", "no block"),
        ("<!-- file: x -->\nprose", "no block"),
        ("<!-- runs -->\n```python\nx\n```\n", "cannot run"),
        ("<!-- runs -->\n```console\nx\n```\n", "begins with a command"),
    ],
)
def test_a_marker_that_marks_nothing_is_found(page: str, says: str) -> None:
    """A block that looks as if it ran and does not would be a lie."""
    with pytest.raises(PageFault, match=says):
        steps_of(page)


def test_what_varies_is_compared_as_such() -> None:
    """Times, digests, process ids, ports and blanks; nothing else."""
    shown = ["at 2026-11-29T12:00:00Z by pid 1,  port 127.0.0.1:80", "chain " + "ab" * 32]
    assert agrees(
        shown, ["at 2027-01-01T00:00:00.123456Z by pid 22, port 127.0.0.1:443", "chain " + "0" * 64]
    )
    assert not agrees(shown, ["at noon by pid 22, port 127.0.0.1:443", "chain " + "0" * 64])
    assert not agrees(["17 kept"], ["18 kept"])
    assert agrees(["… kept", "…"], ["18 kept"])


STATISTICS = (ROOT / "docs/statistics.md").read_text("utf-8")


def test_the_page_of_statistics_names_every_number_and_every_advice() -> None:
    """A new one would have to be explained."""
    advice = re.findall(r'return "([a-z_]+)",', (ROOT / "projections/health.py").read_text("utf-8"))
    assert len(advice) > 5
    assert [code for code in advice if f"| `{code}` |" not in STATISTICS] == []
    assert [key for key in statistics(RunState()) if f"`{key}`" not in STATISTICS] == []


def test_the_page_of_results_names_every_field_of_a_row(tmp_path: Path) -> None:
    """In every kind of file, and of what the commands print for scripts."""
    page = (ROOT / "docs/reading-results.md").read_text("utf-8")
    run = tell(tmp_path / "r", finished())
    with LogReader.open(run / "log") as reader:
        rebuild(reader, run, reader.end.sequence)
    rows = [rows_of(run / name)[0] for name in ("batch_1.jsonl", "discarded.jsonl", "failed.jsonl")]
    fields = {field for row in rows for field in row}
    fields |= set(evrun("show", "r", "0", "--output-dir", ".", "--json", cwd=tmp_path).json)
    fields |= set(evrun("stop", "r", "--output-dir", ".", "--json", cwd=tmp_path).json)
    listed = evrun("list", "--output-dir", ".", "--json", cwd=tmp_path).json
    fields |= set(listed) | set(listed["runs"][0])
    assert [field for field in fields if f"`{field}`" not in page] == []


def test_the_index_leads_to_every_page() -> None:
    """A page that the index does not name would be found by nobody."""
    index = (ROOT / "docs/README.md").read_text("utf-8")
    pages = [page.name for page in ROOT.glob("docs/*.md") if page.name != "README.md"]
    assert [page for page in pages if f"]({page})" not in index] == []
