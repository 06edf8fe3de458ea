"""Sizes, docstrings and faces: what keeps the house readable, as a ratchet."""

import ast
import re

from tests.house import PACKAGES, Source, source, sources

LARGEST_FILE = 400
LARGEST_FUNCTION = 70
# What was larger when the rule came, with its size then: it only shrinks, and leaves the list when it fits.
# A command's signature is the list of its options, and a line of it each.
LARGER_THAN_LIKED: dict[str, int] = {"cli/run.py:run_command": 84}

EVERYWHERE = (*PACKAGES, "tests", "benchmarks")


def sizes(file: Source) -> dict[str, int]:
    """The lines of a file, and of each function in it, if more than the house likes."""
    found = {file.path: file.text.count("\n")} if file.text.count("\n") > LARGEST_FILE else {}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LARGEST_FUNCTION:
                found[f"{file.path}:{node.name}"] = lines
    return found


def without_sentence(file: Source) -> list[str]:
    """Test functions with no docstring."""
    functions = [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [node for node in functions if node.name.startswith("test_")]
    return [f"{file.path}: {node.name}" for node in tests if not ast.get_docstring(node)]


def exported(file: Source) -> list[str] | None:
    """The names in `__all__`; null where there is none."""
    for node in file.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def face_findings(file: Source) -> list[str]:
    """What is wrong with a package's face: unsorted, doubled, private or undefined names."""
    names = exported(file)
    if names is None:
        return []
    found = [f"{file.path}: {name} is private" for name in names if name.startswith("_")]
    if names != sorted(set(names), key=house_order):
        found.append(f"{file.path}: __all__ is not sorted: constants, classes, functions, each by name")
    return found + [f"{file.path}: {name} is not there" for name in names if name not in bound(file)]


def house_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions and modules; each by name."""
    return (0 if re.fullmatch("[A-Z0-9_]{2,}", name) else 1 if name[0].isupper() else 2), name


def bound(file: Source) -> set[str]:
    """The names that a module's top level binds."""
    names: set[str] = set()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name) for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_nothing_grows_past_what_fits_in_a_head():
    """Files stay under 400 lines and functions under 70; what was larger before only shrinks."""
    found = {name: lines for file in sources(*EVERYWHERE) for name, lines in sizes(file).items()}
    grown = {name: lines for name, lines in found.items() if lines > LARGER_THAN_LIKED.get(name, 0)}
    assert grown == {}
    assert sorted(LARGER_THAN_LIKED.keys() - found.keys()) == [], "these fit now: take them off the list"


def test_every_test_has_its_sentence():
    """A test's name is the verdict, its docstring the sentence: the suite is also the specification."""
    assert [finding for file in sources("tests") for finding in without_sentence(file)] == []


def test_faces_are_sorted_and_whole():
    """A package's face is a short sorted `__all__` of names that are there."""
    assert [finding for file in sources(*PACKAGES) for finding in face_findings(file)] == []


def test_packages_that_others_import_from_have_a_face():
    """What a package offers is written down; whatever is not in the list may change without notice."""
    faces = (
        "eventlog/events/__init__.py",
        "eventlog/storage/__init__.py",
        "eventlog/testing/__init__.py",
        "projections/__init__.py",
    )
    assert {file.path for file in sources(*PACKAGES) if exported(file) and file.path in faces} == set(faces)


def test_a_large_file_and_a_large_function_are_found():
    """The size rule can fail, for both, at one line too many."""
    assert sizes(source("evrun/x.py", "x = 1\n" * 400)) == {}
    assert sizes(source("evrun/x.py", "x = 1\n" * 401)) == {"evrun/x.py": 401}
    assert sizes(source("evrun/x.py", "def f():\n" + "    x = 1\n" * 69)) == {}
    assert sizes(source("evrun/x.py", "def f():\n" + "    x = 1\n" * 70)) == {"evrun/x.py:f": 71}


def test_a_test_without_a_sentence_is_found():
    """The docstring rule can fail, for plain, nested and async tests; helpers need none."""
    text = "def test_a(): ...\nclass C:\n    async def test_b(self): ...\ndef helper(): ..."
    assert len(without_sentence(source("tests/x.py", text))) == 2


def test_a_face_that_is_unsorted_doubled_private_or_empty_is_found():
    """Each part of the rule about faces can fail."""
    text = "class A: ...\ndef f(): ...\nB_C = _p = 1\n__all__ = "
    assert face_findings(source("x/__init__.py", text + "['B_C', 'A', 'f']")) == []
    for wrong in ("['A', 'B_C']", "['f', 'A']", "['A', 'A']", "['_p']", "['A', 'Gone']"):
        assert len(face_findings(source("x/__init__.py", text + wrong))) == 1, wrong
