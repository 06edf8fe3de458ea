"""A real container engine for tests: podman with a store of its own and an image made here, no network."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

IMAGE = "localhost/evrun-box"
COMMANDS = ("cat", "echo", "env", "id", "ls", "pwd", "sh", "sleep")
RUNTIMES = ("crun", "runc")
TIMEOUT_S = 60

CONTAINERS = """
[containers]
netns = "host"
cgroups = "no-conmon"
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{runtime}"
"""
STORAGE = """
[storage]
driver = "vfs"
graphroot = "{place}/store"
runroot = "{place}/run"
"""


def variables(place):
    """What podman has to have in its environment to use a place that was prepared."""
    return {
        "CONTAINERS_CONF": str(place / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(place / "storage.conf"),
    }


def prepare(place, runtime):
    """Make the store and the image; nothing if that works, else the last thing that was said."""
    busybox = shutil.which("busybox")
    if not shutil.which("podman") or not busybox:
        return "podman or busybox is not installed"
    place.mkdir(parents=True)
    (place / "containers.conf").write_text(CONTAINERS.format(runtime=runtime))
    (place / "storage.conf").write_text(STORAGE.format(place=place))
    root = place / "root"
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/box").write_text("this is the box\n")
    shutil.copy(busybox, root / "bin/busybox")
    for name in COMMANDS:
        (root / "bin" / name).symlink_to("busybox")
    with tarfile.open(place / "box.tar", "w") as file:
        file.add(root, ".")
    return ask(place, "import", place / "box.tar", IMAGE)


def ask(place, *words):
    """Let podman do something; nothing if that works, else the last thing that was said."""
    try:
        done = subprocess.run(
            ["podman", *map(str, words)],
            env={**os.environ, **variables(place)},
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = (done.stderr + done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else (said or ["podman failed"])[-1]


def why_not(work):
    """Why no container can be run here, or nothing; and the runtime by which it can."""
    why = ""
    for runtime in RUNTIMES:
        place = Path(work) / f"podman-{runtime}"
        why = prepare(place, runtime) or ask(place, "run", "--rm", IMAGE, "/bin/sh", "-c", "exit 0")
        remove(place)
        if not why:
            return "", runtime
    return why, ""


def remove(place):
    """Nothing of it is left."""
    shutil.rmtree(place, ignore_errors=True)
