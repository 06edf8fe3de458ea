import os
from functools import partial
from itertools import pairwise

import anyio
import pytest

from evrun.effects.containers import Container, Containers, NoContainer
from evrun.tools.python import PYTHON
from evrun.tools.terminal import TERMINAL
from tests.evrun import engine
from tests.evrun.boxes import SECRET, use

(TERMINAL_TOOL,) = TERMINAL.tools
(PYTHON_TOOL,) = PYTHON.tools


@pytest.fixture(name="at")
def _at(tmp_path, monkeypatch):
    """Where the stand-in engine is; its path comes before the system's, whose engines are hidden."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    return tmp_path / "engine"


def on_path(monkeypatch, *folders):
    """The path is these, and what the stand-in itself needs."""
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), "/bin", "/usr/bin"]))


def placed(image="box", cwd=None, times=1):
    """Where a row's commands run, asked so many times."""

    async def ask():
        containers = Containers("run7")
        return [await containers.place(image, cwd) for _ in range(times)][-1]

    return anyio.run(ask)


def work_in(tmp_path):
    """An attempt's directory."""
    (tmp_path / "work").mkdir(exist_ok=True)
    return tmp_path / "work"


def test_a_command_runs_in_a_container_of_its_own_with_the_attempts_directory(tmp_path, at, monkeypatch):
    """Removed when it ends, labelled for when it does not; no secret of the host goes with it."""
    on_path(monkeypatch, engine.install(at))
    container = placed()
    assert container == Container(str(at / "bin/docker"), "box", "/workspace")
    work = work_in(tmp_path)
    result = use(TERMINAL_TOOL, work, container=container, command="echo hello > f; cat f; exit 3")
    assert result == {"output": "hello\n", "exit_code": 3, "error": None}
    assert (work / "f").read_text() == "hello\n"
    (arguments,) = engine.runs(at)
    pairs = set(pairwise(arguments))
    assert {"--rm", "--pull=never"} <= set(arguments)
    assert ("--label", "evrun.run=test") in pairs
    assert ("--label", "evrun.attempt=test/unit-a1") in pairs
    assert ("--mount", f"type=bind,source={work},target=/workspace") in pairs
    assert ("--workdir", "/workspace") in pairs
    assert ("--user", f"{os.getuid()}:{os.getgid()}") in pairs
    assert ("--env", "HOME=/workspace") in pairs
    assert arguments[-5:] == ["--entrypoint", "/bin/sh", "box", "-c", "echo hello > f; cat f; exit 3"]
    names = {name for _, environment in engine.calls(at) for name in environment}
    assert "OPENAI_API_KEY" not in names
    assert SECRET not in str(engine.calls(at))
    assert list((at / "containers").iterdir()) == []


def test_code_runs_with_the_python_of_the_image(tmp_path, at, monkeypatch):
    """Not with the one that runs evrun."""
    on_path(monkeypatch, engine.install(at))
    result = use(PYTHON_TOOL, work_in(tmp_path), container=placed(cwd="/home/me"), code="print(6 * 7)")
    (arguments,) = engine.runs(at)
    assert arguments[arguments.index("--entrypoint") + 1] == "python3"
    assert arguments[arguments.index("--workdir") + 1] == "/home/me"
    assert result["error"] is None


def test_a_container_is_removed_at_the_deadline(tmp_path, at, monkeypatch):
    """Its processes are no children of ours: the engine is told by its name."""
    on_path(monkeypatch, engine.install(at))
    result = use(
        TERMINAL_TOOL, work_in(tmp_path), container=placed(), command="echo begun; sleep 618", timeout_s=4
    )
    assert "timed out after 4 s" in result["error"]
    (arguments,) = engine.runs(at)
    name = arguments[arguments.index("--name") + 1]
    assert ["rm", "--force", name] in [arguments for arguments, _ in engine.calls(at)]
    assert list((at / "containers").iterdir()) == []


def test_an_engine_that_could_not_run_it_is_an_error(tmp_path, at, monkeypatch):
    """As when the image has gone meanwhile: it is not the command that has failed."""
    folder = engine.install(at)
    on_path(monkeypatch, folder)
    container = placed()
    (folder / "docker").write_text("#!/bin/sh\necho no such image >&2\nexit 125\n")
    result = use(TERMINAL_TOOL, work_in(tmp_path), container=container, command="true")
    assert result["error"] == "the command could not be started: docker could not run it: no such image"


def test_what_a_crash_has_left_is_removed_before_anything_runs(at, monkeypatch):
    """By the run's label, and no other run's."""
    on_path(monkeypatch, engine.install(at))
    for name, label in (("old", "evrun.run=run7"), ("foreign", "evrun.run=run8")):
        (at / "containers" / name).write_text(f'{{"labels": ["{label}"], "pid": 999999999}}')
    placed()
    assert [path.name for path in (at / "containers").iterdir()] == ["foreign"]


@pytest.mark.parametrize("way", ["end", "end_all", "at once"])
def test_what_is_left_is_removed_at_the_end(at, monkeypatch, way):
    """At an attempt's, at the session's, and when the process leaves at once."""
    on_path(monkeypatch, engine.install(at))

    async def end():
        containers = Containers("run7")
        await containers.place("box", None)
        labels = '["evrun.run=run7", "evrun.attempt=run7/a1"]'
        (at / "containers" / "left").write_text(f'{{"labels": {labels}, "pid": 999999999}}')
        ways = {
            "end": partial(containers.end, "run7/a1"),
            "end_all": containers.end_all,
            "at once": partial(anyio.to_thread.run_sync, containers.end_all_at_once),
        }
        await ways[way]()

    anyio.run(end)
    assert list((at / "containers").iterdir()) == []


def test_an_image_that_is_not_there_is_pulled_once(at, monkeypatch):
    """Whatever number of prompts want it."""
    on_path(monkeypatch, engine.install(at, images=(), pulls=("far/box:1",)))
    assert isinstance(placed("docker://far/box:1", times=3), Container)
    asked = [arguments for arguments, _ in engine.calls(at)]
    assert asked.count(["pull", "--quiet", "far/box:1"]) == 1
    assert asked.count(["ps", "--quiet"]) == 1


def test_a_pull_that_fails_says_why_and_is_tried_again_for_the_next_prompt(at, monkeypatch):
    """With the first 500 characters of what the engine said."""
    on_path(monkeypatch, engine.install(at, images=()))
    refused = placed("far/box", times=2)
    assert (refused.error_class, refused.retryable) == ("image_pull", True)
    assert refused.message == "docker pull far/box: no such image" + "!" * 487
    pulls = [arguments for arguments, _ in engine.calls(at) if arguments[0] == "pull"]
    assert len(pulls) == 2


def test_podman_is_used_where_docker_does_not_answer(tmp_path, at, monkeypatch):
    """Within it root is whoever runs evrun, so nobody else is named."""
    deaf = engine.install(tmp_path / "deaf", "docker", works=False)
    on_path(monkeypatch, deaf, engine.install(at, "podman"))
    container = placed()
    assert container.engine == str(at / "bin/podman")
    use(TERMINAL_TOOL, work_in(tmp_path), container=container, command="true")
    (arguments,) = engine.runs(at)
    assert "--user" not in arguments


def test_without_an_engine_a_row_with_an_image_cannot_run(tmp_path, monkeypatch):
    """Each engine's own reason is given."""
    monkeypatch.setenv("PATH", str(engine.install(tmp_path / "deaf", "docker", works=False)))
    refused = placed()
    assert refused.error_class == "no_container"
    assert "docker: Cannot connect to the daemon.; podman is not installed" in refused.message


@pytest.mark.parametrize(
    ("image", "cwd", "error_class", "part"),
    [
        (None, "/testbed", "cwd_without_image", "the working directory '/testbed'"),
        ("--privileged", None, "no_container", "expected the name of a container image"),
        (" ", None, "no_container", "expected the name of a container image"),
        (7, None, "no_container", "expected the name of a container image"),
        ("box", "work", "no_container", "expected an absolute path"),
        ("box", "/", "no_container", "expected an absolute path"),
        ("box", "/a,source=/etc", "no_container", "expected an absolute path"),
        ("box", 7, "no_container", "expected an absolute path"),
    ],
)
def test_a_row_that_asks_for_what_cannot_be_is_refused(image, cwd, error_class, part):
    """Nothing of it becomes an option of the engine, and nothing is silently left out."""
    refused = placed(image, cwd)
    assert isinstance(refused, NoContainer)
    assert refused.error_class == error_class
    assert part in refused.message


def test_a_row_that_asks_for_nothing_runs_on_the_host():
    """No engine is looked for."""
    assert placed(None, None) is None
