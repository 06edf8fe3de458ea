"""docs/money.md: what it explains is what there is. Its commands are typed in `tests/test_docs_pages.py`."""

from cli.audit_tables import GROUPS
from evrun.batch import CAP_OPTIONS
from projections.spend import MOST_OVER_BOUND
from tests.runs import ROOT

PAGE = (ROOT / "docs/money.md").read_text("utf-8")


def test_the_page_names_every_cap_and_every_grouping() -> None:
    """A new one would have to be explained."""
    for option in CAP_OPTIONS.values():
        assert f"| `{option} " in PAGE
    for group in GROUPS:
        assert f"`{group}`" in PAGE or f"`--by {group}`" in PAGE
    assert MOST_OVER_BOUND == 50
