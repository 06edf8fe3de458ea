"""Find out what of these tests can run here, say what cannot and why, run the rest: `scripts/test-system`.

Everything happens in a mount and process name space of its own, with its files in memory: when it ends,
however it ends, no mount, no loop device and no process is left.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.system import podman
from tests.system.images import MAKE, MEGABYTE

TOOLS = {
    "strace": "strace",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "eatmydata": "eatmydata",
    "mount": "mount",
    "unshare": "util-linux",
    "podman": "podman",
    "runc": "runc",
    "busybox": "busybox-static",
}
APART = ["unshare", "--mount", "--propagation", "private"]
ALONE = [*APART, "--pid", "--fork", "--kill-child", "--mount-proc"]
TRACING = ("test_injected_faults.py", "test_call_order.py", "test_slow_syncs.py")
MOUNTING = ("test_full_disks.py",)
IN_CONTAINERS = ("test_containers.py",)
ON_IMAGES = ("test_full_file_systems.py", "test_power_cuts.py", "test_power_cut_runs.py")
CONTROL = "test_power_cuts.py::test_without_syncs_the_same_cut_loses_what_was_acknowledged"
QUOTA = "test_full_file_systems.py::test_a_quota_refuses_commits_and_takes_them_again_once_it_is_raised"
IN_MEMORY = 'mount -t tmpfs -o size=75% evrun "$0" && exec "$@"'
PROBE_S = 30
PR_SET_PDEATHSIG = 1
APT_S = 600


def say(text):
    """Tell a person."""
    sys.stderr.write(f"{text}\n")


def why_not(*words):
    """Run a command; nothing if it works, else the last thing it says."""
    try:
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, timeout=PROBE_S, check=False
        )
    except OSError as error:
        return str(error)
    said = (done.stderr + done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else (said or [f"{words[0]} failed"])[-1]


def install_tools():
    """Install what is missing, where root and apt are."""
    missing = {package for tool, package in TOOLS.items() if not shutil.which(tool)}
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"Missing, and not installed because that takes root and apt-get: {', '.join(sorted(missing))}.")
        return
    say(f"apt-get install {' '.join(sorted(missing))}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *sorted(missing)]):
        done = subprocess.run(
            ["apt-get", "-qq", *words],
            capture_output=True, text=True, env=quiet, stdin=subprocess.DEVNULL, timeout=APT_S, check=False,
        )  # fmt: skip
    if done.returncode:
        say(f"apt-get could not install them: {done.stderr.strip()[-300:]}")


def why_not_trace(work):
    """Why strace cannot attach to a process, or nothing."""
    if not shutil.which("strace"):
        return "strace is not installed"
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        strace = subprocess.Popen(
            ["strace", "-o", str(work / "trace"), "-p", str(sleeper.pid)], stderr=subprocess.PIPE, text=True
        )
        said = strace.stderr.readline().strip()
        sleeper.kill()
        strace.communicate(timeout=PROBE_S)
    return "" if "attached" in said else said


def why_not_mount(kind, work):
    """Why a file system of this kind cannot be made and mounted through a loop device, or nothing."""
    megabytes, make = MAKE[kind]
    if not shutil.which(make[0]):
        return f"{make[0]} is not installed"
    image, place = work / f"{kind}.probe", work / "place"
    place.mkdir(exist_ok=True)
    with image.open("wb") as file:
        file.truncate(megabytes * MEGABYTE)
    try:
        return why_not(*make, image) or why_not(*APART, "mount", "-o", "loop", image, place)
    finally:
        image.unlink()


class Plan:
    """What runs: `lacks` says in words what does not, `options` says it to pytest."""

    def __init__(self, work):
        self.lacks = []
        self.options = []
        self.systems = []
        why = why_not_trace(work)
        if why:
            self.leave_out(f"faults in system calls, their order, slow syncs ({why})", TRACING)
        why = why_not(*APART, "mount", "-t", "tmpfs", "evrun", work)
        self.apart = not why
        if why:
            self.leave_out(f"full disks, power cuts (nothing can be mounted: {why})", (*MOUNTING, *ON_IMAGES))
        else:
            self.look_for_file_systems(work)
        why, self.runtime = podman.why_not(work)
        if why:
            self.leave_out(f"rows that run in containers ({why})", IN_CONTAINERS)

    def leave_out(self, what, files):
        """These files do not run."""
        self.lacks.append(what)
        self.options += [f"--ignore=tests/system/{name}" for name in files]

    def look_for_file_systems(self, work):
        """Find out on which file systems the power can be cut."""
        for kind in MAKE:
            why = why_not_mount(kind, work)
            if why:
                self.lacks.append(f"power cuts and full disks on {kind} ({why})")
            else:
                self.systems.append(kind)
        if not self.systems:
            self.options += [f"--ignore=tests/system/{name}" for name in ON_IMAGES]
        if "btrfs" not in self.systems:
            self.options.append(f"--deselect=tests/system/{QUOTA}")
        if not shutil.which("eatmydata"):
            self.lacks.append("the control of the power cuts (eatmydata is not installed)")
            self.options.append(f"--deselect=tests/system/{CONTROL}")


def run(plan, work, arguments):
    """Run pytest in name spaces of its own; its exit code. A signal ends it with all that it started."""
    command = [
        sys.executable, "-m", "pytest", "tests/system", "-n", "2", "--dist", "worksteal",
        "-p", "no:cacheprovider", f"--basetemp={work / 'files' / 'tests'}", *plan.options, *arguments,
    ]  # fmt: skip
    mounts, files = work / "mounts", work / "files"
    mounts.mkdir()
    files.mkdir()
    if plan.apart:
        command = [*ALONE, "sh", "-c", IN_MEMORY, str(files), *command]
    surroundings = {
        **os.environ,
        "EVRUN_FILE_SYSTEMS": " ".join(plan.systems),
        "EVRUN_MOUNTS": str(mounts),
        "EVRUN_CONTAINER_RUNTIME": plan.runtime,
        "TMPDIR": str(files),
    }
    process = subprocess.Popen(
        command,
        env=surroundings,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_us,  # noqa: PLW1509 - this process has one thread
    )
    try:
        return process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def die_with_us():
    """In the child: be killed when this process dies, however it dies; the name spaces end with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ended_by(number, _):
    """End by a signal: with what `finally` has to do."""
    sys.exit(128 + number)


def main(arguments):
    """Install, look, say, run."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ended_by)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    install_tools()
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="evrun-system-"))
    try:
        plan = Plan(work)
        code = run(plan, work, arguments)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for what in plan.lacks:
        say(f"not run here: {what}")
    say(f"{time.monotonic() - began:.0f} s in all")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
