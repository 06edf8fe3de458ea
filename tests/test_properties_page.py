"""The page of the properties tells no tales: every test it names is there, and every property has one."""

import ast
import re

from tests.house import ROOT

PAGE = (ROOT / "docs/properties.md").read_text("utf-8")
NUMBERS = range(1, 21)


def named(text):
    """The tests that a text names, as (path, name); the link has to lead to the same path."""
    links = re.findall(r"\[([^\]\s]+)::(\w+)\]\(\.\./([^)]+)\)", text)
    assert [path for path, _, target in links if path != target] == []
    return [(path, name) for path, name, _ in links]


def defined(path):
    """The functions and classes that a file defines at its top; nothing is imported."""
    if not (ROOT / path).is_file():
        return set()
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in tree.body if isinstance(node, kinds)}


def sections(text):
    """What the page says of each numbered property."""
    parts = re.split(r"^## (\d+)\. ", text, flags=re.MULTILINE)
    return {
        int(number): body.split("\n## ")[0] for number, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_test_on_the_page_exists():
    """By path and name; whoever follows a link finds it."""
    tests = named(PAGE)
    assert len(tests) > 60
    assert [f"{path}::{name}" for path, name in tests if name not in defined(path)] == []


def test_every_property_has_a_test():
    """Twenty numbers, each with at least one test."""
    found = sections(PAGE)
    assert list(found) == list(NUMBERS)
    assert [number for number, text in found.items() if not named(text)] == []


def test_every_numbered_test_is_on_the_page_of_its_number():
    """`test_property_09_…` stands under 9, and none is forgotten."""
    path = "tests/eventlog/properties/test_properties.py"
    for name in defined(path):
        number = re.match(r"test_property_(\d\d)_", name)
        if number:
            assert (path, name) in named(sections(PAGE)[int(number[1])]), name


def test_a_test_that_is_gone_would_be_found():
    """The rules can fail: a name that is not there, a link that leads elsewhere, a file that is gone."""
    assert "test_no_such" not in defined("tests/test_properties_page.py")
    assert defined("tests/no_such_file.py") == set()
    assert named("[tests/a.py::test_b](../tests/a.py)") == [("tests/a.py", "test_b")]
    try:
        named("[tests/a.py::test_b](../tests/c.py)")
    except AssertionError:
        return
    raise AssertionError("a link that leads elsewhere was not found")
