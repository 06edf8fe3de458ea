"""Rows with an image, with a real engine: podman, where `start.py` has seen it run a container."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import anyio
import psutil
import pytest

from evrun.effects.containers import Container, Containers, NoContainer
from evrun.tools.terminal import TERMINAL
from tests.e2e.case import Case
from tests.endpoint.client import running_endpoint
from tests.evrun.boxes import SECRET, use
from tests.runs import kill, start, wait_until
from tests.system import podman

(TOOL,) = TERMINAL.tools


@pytest.fixture(name="box")
def _box(tmp_path, monkeypatch):
    """The engine's place; docker, which may be there too, is hidden."""
    place = tmp_path / "podman"
    assert podman.prepare(place, os.environ["EVRUN_CONTAINER_RUNTIME"]) == ""
    for name, value in podman.variables(place).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(only_podman(tmp_path)))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    yield place
    podman.ask(place, "rm", "--force", "--all")


def only_podman(tmp_path):
    """A path with all programs but docker."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.iterdir() if directory.is_dir() else ():
            if program.name != "docker" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


def placed():
    """Where a row's commands run."""

    async def ask():
        return await Containers("run7").place(podman.IMAGE, None)

    found = anyio.run(ask)
    assert isinstance(found, Container), found
    return found


def there(place):
    """The containers that are there, running or not."""
    said = subprocess.run(["podman", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True)
    return said.stdout.split()


def sleepers(seconds):
    """The processes that sleep for so long, in a container or out of one."""
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]


def test_a_command_sees_the_image_and_the_attempts_directory_and_nothing_else(tmp_path, box):
    """What it writes into its directory stays; it has no file and no secret of the host."""
    work = tmp_path / "work"
    work.mkdir()
    command = "cat /etc/box; pwd; id -u; ls /; env; echo kept > f; echo lost > /etc/g; exit 4"
    result = use(TOOL, work, container=placed(), command=command)
    assert (result["exit_code"], result["error"]) == (4, None)
    assert result["output"].startswith("this is the box\n/workspace\n0\n")
    assert SECRET not in result["output"]
    assert str(tmp_path) not in result["output"]
    assert (work / "f").read_text() == "kept\n"
    again = use(TOOL, work, container=placed(), command="cat f; cat /etc/g")
    assert again["output"].startswith("kept\n")
    assert "No such file" in again["output"]
    assert there(box) == []


def test_a_container_ends_at_the_deadline_with_all_its_processes(tmp_path, box):
    """The engine has started them, and so it must be told."""
    work = tmp_path / "work"
    work.mkdir()
    result = use(TOOL, work, container=placed(), command="echo begun; sleep 621 & sleep 621", timeout_s=15)
    assert result["output"] == "begun\n"
    assert "timed out after 15 s" in result["error"]
    assert there(box) == []
    assert sleepers("621") == []


def test_an_image_that_is_nowhere_is_an_error_with_the_engines_words(box):
    """No registry is asked here: the name is that of this machine."""

    async def ask():
        return await Containers("run7").place("localhost:9/nosuch", None)

    refused = anyio.run(ask)
    assert isinstance(refused, NoContainer)
    assert refused.error_class == "image_pull"
    assert "localhost:9/nosuch" in refused.message


def test_after_a_kill_the_resume_removes_the_container_and_begins_again(tmp_path, box):
    """The container outlives the runner: that is how engines are."""
    call = {"name": "terminal", "arguments": {"command": "sleep 622"}}
    rules = [{"match": {"turn": 1}, "times": 1, "then": {"tool_calls": [call]}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal")
        case.dataset.write_text(json.dumps({"prompt": "a", "image": podman.IMAGE}) + "\n")
        process = start(*case.command(), cwd=tmp_path)
        wait_until(lambda: sleepers("622"), "the command in its container")
        kill(process)
        assert sleepers("622") != []
        ended = case.resume()
        assert ended.code == 0, ended
        (row,) = case.rows()
        assert row["attempt"] == 2
    assert there(box) == []
    assert sleepers("622") == []
    assert shutil.which("docker") is None
