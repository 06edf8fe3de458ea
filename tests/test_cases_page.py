"""The page of cases tells no tales: every case names tests, and every test it names is there."""

import re

from tests.house import ROOT
from tests.test_properties_page import defined, named

PAGE = (ROOT / "docs/cases.md").read_text("utf-8")
CASES = {"Resume, identity, outcomes": 17, "Providers": 10, "Trajectories and files": 12, "Training": 25}
"""How many cases each table has; one more is welcome, one less is a case that nobody tests any more."""


def tables(text):
    """The rows of each table of the page, as lists of cells."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return {title: rows(body) for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def rows(body):
    """The rows of a table, without its head."""
    lines = [line for line in body.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_case_names_its_tests():
    """Three cells in each row, the last of which is links to tests; the tables are whole."""
    found = tables(PAGE)
    assert {title: len(cases) for title, cases in found.items()} == CASES
    for cases in found.values():
        assert [case for case, *rest in cases if len(rest) != 2 or not named(rest[1])] == []


def test_every_test_on_the_page_exists():
    """By path and name; whoever follows a link finds it."""
    tests = named(PAGE)
    assert len(tests) > 45
    assert [f"{path}::{name}" for path, name in tests if name not in defined(path)] == []


def test_every_test_of_a_case_is_on_the_page():
    """A test in a file of cases that no case names would be one that nobody looks for."""
    on_page = set(named(PAGE))
    for path in (
        "tests/e2e/test_cases_resume.py",
        "tests/e2e/test_cases_files.py",
        "tests/e2e/test_growth.py",
        "tests/training/test_training_cases.py",
    ):
        tests = {(path, name) for name in defined(path) if name.startswith("test_")}
        assert sorted(tests - on_page - ALSO) == []


ALSO = {
    ("tests/e2e/test_cases_resume.py", "test_dataset_may_be_gone_on_a_resume"),
    ("tests/training/test_training_cases.py", "test_a_command_about_prompts_says_where_to_look_instead"),
    ("tests/training/test_training_cases.py", "test_a_run_is_put_aside_only_for_one_that_can_begin"),
}
"""Tests of what nobody reported."""
