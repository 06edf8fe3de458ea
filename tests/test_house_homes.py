"""Single homes: each power over the world is used in exactly one place (ARCHITECTURE.md, "Single homes")."""

import ast
import fnmatch
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.house import PACKAGES, Source, calls, dotted, source, sources


def syncs_or_renames(tree: ast.Module) -> list[str]:
    """Calls that make bytes durable or move files; `a.replace(b)` with one argument can only be a path's."""
    direct = {f"os.{name}" for name in ("fsync", "fdatasync", "sync", "rename", "renames", "replace", "link")}
    found = [name for name, _ in calls(tree) if name in direct or name == "shutil.move"]
    for name, call in calls(tree):
        method = name.rpartition(".")[2]
        if method in ("rename", "replace") and len(call.args) == 1 and not call.keywords and "." in name:
            found.append(name)
    return found + [name for name in taken_from(tree, "os") if f"os.{name}" in direct]


def reads_time_or_chance(tree: ast.Module) -> list[str]:
    """Uses of clocks, randomness and fresh ids, called or handed on."""
    clocks = {f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter") for unit in ("", "_ns")}
    moments = {f"{kind}.{name}" for kind in ("datetime", "date") for name in ("now", "utcnow", "today")}
    used = {dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    tails = {name: ".".join(name.split(".")[-2:]) for name in used}
    found = [name for name, tail in tails.items() if tail in clocks | moments | {"os.urandom"}]
    found += [name for name in taken_from(tree, "time") if f"time.{name}" in clocks]
    found += [name for name in modules(tree) if name in ("secrets", "uuid")]
    return found + unseeded(tree)


def unseeded(tree: ast.Module) -> list[str]:
    """Uses of `random` other than `Random(seed)`, which is as pure as its seed."""
    used = [dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    found = [name for name in used if name.startswith("random.") and name.split(".")[1] != "Random"]
    found += [name for name, call in calls(tree) if name in ("Random", "random.Random") and not call.args]
    return found + [f"random.{name}" for name in taken_from(tree, "random") if name != "Random"]


def prints(tree: ast.Module) -> list[str]:
    """Ways of writing to the terminal."""
    ways = ("print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write", "rich.print")
    return [name for name, _ in calls(tree) if name in ways]


def acts(tree: ast.Module) -> list[str]:
    """What a pure module never does: wait, open files, look at its surroundings."""
    waits = [
        type(node).__name__ for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]
    opens = [name for name, _ in calls(tree) if name in ("open", "io.open", "print", "input")]
    return waits + opens + [name for name in modules(tree) if name in IMPURE]


IMPURE = ("os", "io", "time", "shutil", "subprocess", "socket", "threading", "asyncio", "anyio", "tempfile")


def taken_from(tree: ast.Module, module: str) -> list[str]:
    """The names of `from module import …`."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == module]
    return [alias.name for node in froms for alias in node.names]


def modules(tree: ast.Module) -> list[str]:
    """The top names of all absolute imports."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.module or "").split(".")[0])
    return found


class Home(NamedTuple):
    """A power, how its use is seen, and the files that may have it."""

    power: str
    uses: Callable[[ast.Module], list[str]]
    rooms: tuple[str, ...]


HOMES = [
    Home("fsync and rename", syncs_or_renames, ("eventlog/storage/filesystem.py",)),
    Home("time, randomness and ids", reads_time_or_chance, ("evrun/effects/clock.py",)),
    Home("printing", prints, ("cli/output.py", "evrun/python/progress.py")),
]
# Folds, renders and decisions. The rooms where projections meet files are named; all others are pure.
PURE = ("projections/*.py", "evrun/decide*.py", "evrun/batch/decide*.py", "eventlog/events/*.py")
MEET_FILES = ("projections/materialize*.py", "projections/load.py")


def findings(home: Home, files: tuple[Source, ...]) -> list[str]:
    """Uses of a power outside its home."""
    strangers = [file for file in files if file.path not in home.rooms]
    return [f"{file.path}: {use} ({home.power})" for file in strangers for use in home.uses(file.tree)]


def impurities(files: tuple[Source, ...]) -> list[str]:
    """What pure modules do and must not."""
    pure = [file for file in files if matches(file.path, PURE) and not matches(file.path, MEET_FILES)]
    return [f"{file.path}: {act}" for file in pure for act in acts(file.tree)]


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path is one of those that the patterns describe."""
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.power)
def test_a_power_is_used_only_at_home(home):
    """Durability, time and chance, and printing: whoever reviews one of them has one file to read."""
    assert findings(home, sources(*PACKAGES)) == []


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.power)
def test_every_home_is_lived_in(home):
    """A home that was renamed or emptied would make its rule say nothing."""
    kept = [file for file in sources(*PACKAGES) if file.path in home.rooms]
    assert len(kept) == len(home.rooms)
    assert all(home.uses(file.tree) for file in kept)


def test_folds_renders_and_decisions_are_pure():
    """No await, no open, no clock, no environment: the same events give the same bytes, anywhere, ever."""
    assert impurities(sources(*PACKAGES)) == []


@pytest.mark.parametrize(
    ("home", "text"),
    [
        (0, "import os\nos.fsync(3)"),
        (0, "from os import fdatasync\nfdatasync(3)"),
        (0, "import os\nos.replace('a', 'b')"),
        (0, "from pathlib import Path\nPath('a').rename('b')"),
        (0, "def f(path, target):\n    path.replace(target)"),
        (0, "import shutil\nshutil.move('a', 'b')"),
        (1, "import time\nx = time.time()"),
        (1, "import time\nclock = time.monotonic_ns"),
        (1, "from time import perf_counter\nx = perf_counter()"),
        (1, "import random\nx = random.random()"),
        (1, "import random\nx = random.Random()"),
        (1, "import random\nx = random.Random(7).choice(random.sample('ab'))"),
        (1, "from random import choice"),
        (1, "from random import Random\nx = Random()"),
        (1, "from uuid import uuid4"),
        (1, "import datetime\nx = datetime.datetime.now(datetime.UTC)"),
        (1, "import os\nx = os.urandom(16)"),
        (2, "print('hello')"),
        (2, "import sys\nsys.stderr.write('hello')"),
        (2, "import typer\ntyper.echo('hello')"),
    ],
)
def test_a_power_used_elsewhere_is_found(home, text):
    """Each rule can fail: the use is a finding in any other file, and none at home."""
    stranger = source("evrun/loop.py", text)
    assert findings(HOMES[home], (stranger,)) != []
    assert findings(HOMES[home], (stranger._replace(path=HOMES[home].rooms[0]),)) == []


@pytest.mark.parametrize(
    "text",
    [
        "text.replace('a', 'b')",
        "structs.replace(unit, attempt=2)",
        "moment.replace(tzinfo=None)",
        "files.rename(a, b)",
        "import time\ntime.sleep(1)",
        "import random\ndef draw(chance: random.Random): return chance.random()\ndraw(random.Random(7))",
        "import datetime\ndatetime.datetime.fromtimestamp(0, datetime.UTC)",
    ],
)
def test_what_only_looks_like_a_power_is_not_found(text):
    """Replacing text, copying a struct, asking the seam to rename and waiting are nobody's privilege."""
    assert [finding for home in HOMES for finding in findings(home, (source("evrun/loop.py", text),))] == []


@pytest.mark.parametrize("text", ["async def f(): ...", "open('a')", "import os", "from time import time"])
def test_an_act_in_a_pure_module_is_found(text):
    """A fold that waits, opens, or looks around is a finding; the projector, which meets files, may."""
    assert impurities((source("projections/batch.py", text),)) != []
    assert impurities((source("projections/materialize.py", text),)) == []
