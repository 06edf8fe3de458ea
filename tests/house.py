"""What the house tests read: every Python file of the checkout, parsed once, nothing imported."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGES = ("eventlog", "projections", "evrun", "cli")


class Source(NamedTuple):
    """One file: its path from the checkout's root, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """The dotted name it is imported by."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """The dotted name that its relative imports start from."""
        return self.module if self.path.endswith("__init__.py") else self.module.rpartition(".")[0]


def source(path: str, text: str) -> Source:
    """A file that is not on disk, for showing that a rule can fail."""
    return Source(path, text, ast.parse(text))


@functools.cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Every Python file below these folders of the checkout."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths)


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call with the dotted name of what is called, as it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def dotted(node: ast.AST) -> str:
    """`a.b.c` for names and attributes; `?` stands for an expression that has no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
