"""A template's code, run on a candidate: in a process of its own, with a deadline, seeing no secrets."""

import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..effects.clock import monotonic
from ..effects.processes import kill_group
from ..effects.secrets import child_environment
from . import adapter_child
from .blobs import Files, write_files
from .exports import Fault

LOAD_TIMEOUT_S = 60.0
CHECK_TIMEOUT_S = 120.0
_READ_BYTES = 1 << 16
_MARKER = "adapter-check"


def load_files(candidate: Files, paths: list[str], timeout_s: float = LOAD_TIMEOUT_S) -> list[Fault]:
    """What is wrong with Python files of a candidate, each imported once."""
    with tempfile.TemporaryDirectory(prefix="evrun-") as place:
        directory = Path(place, "adapter")
        write_files(directory, candidate)
        said = _run(directory, [adapter_child.LOAD, *paths], timeout_s)
    return _faults(said, "its tools")


def run_check(
    check: str, root: Files, parent: Files, candidate: Files, timeout_s: float = CHECK_TIMEOUT_S
) -> list[Fault]:
    """What the template's own check ``FILE.py:FUNCTION``, taken from the root, says of a candidate."""
    file, _, function = check.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="evrun-") as place:
        trees = {"adapter": candidate, "root": root, "parent": parent}
        for name, files in trees.items():
            write_files(Path(place, name), files)
        arguments = [str(Path(place, "root", file)), function, *(str(Path(place, name)) for name in trees)]
        said = _run(Path(place, "adapter"), arguments, timeout_s)
    return _faults(said, check)


def _faults(said: dict[str, Any], what: str) -> list[Fault]:
    if "error" in said:
        return [Fault("", f"{what}: {said['error']}")]
    return [Fault(path, problem) for path, problem in said["problems"]]


def _run(directory: Path, arguments: list[str], timeout_s: float) -> dict[str, Any]:
    """What the process says; its whole group is gone afterwards."""
    environment = child_environment(directory, _MARKER)
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    process = subprocess.Popen(  # noqa: S603 (this very Python, and code that the user chose)
        [sys.executable, "-P", "-B", adapter_child.__file__, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        umask=0o077,
    )
    assert process.stdout is not None
    try:
        said = _line(process.stdout.fileno(), monotonic() + timeout_s)
        found: dict[str, Any] = json.loads(said)
    except TimeoutError:
        return {"error": f"gave no answer within {timeout_s:g} s, and was stopped"}
    except ValueError:
        return {"error": "its process died"}
    finally:
        kill_group(process.pid)
        process.wait()
        process.stdout.close()
    return found


def _line(descriptor: int, deadline: float) -> bytes:
    """What comes up to the end of a line, or of all."""
    said = b""
    while not said.endswith(b"\n"):
        left = deadline - monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise TimeoutError
        part = os.read(descriptor, _READ_BYTES)
        if not part:
            break
        said += part
    return said
