import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest

from evrun.effects.orphans import kill_orphans
from evrun.effects.processes import BoundedOutput, Ended, run_command
from evrun.effects.secrets import child_environment

ROOT = Path(__file__).parent.parent.parent


def run(script, directory, *, timeout_s=60.0, keep_bytes=32_768, marker="test"):
    """Run a shell script by `run_command` and give back how it ended."""
    return anyio.run(lambda: shell(script, directory, timeout_s, keep_bytes, marker))


async def shell(script, directory, timeout_s, keep_bytes, marker):
    """The same, to be awaited."""
    return await run_command(
        ["/bin/sh", "-c", script],
        directory=directory,
        environment=child_environment(directory, marker),
        timeout_s=timeout_s,
        keep_bytes=keep_bytes,
    )


def running(pid):
    """Whether a process runs; one that is dead and not yet reaped by its parent does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, what):
    """Look until something is so; a minute is for ever."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"never came: {what}")


def pid_in(path):
    """The process id that a script wrote, once it is there whole."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"a process id in {path}")
    return int(path.read_text())


def test_output_and_exit_code_are_given_back(tmp_path):
    """Both streams in their order, the code as it is, nothing on stdin."""
    ended = run("echo out; echo err >&2; cat; exit 7", tmp_path)
    assert ended == Ended(7, b"out\nerr\n", b"", 0)


def test_command_that_a_signal_ended_has_a_negative_code(tmp_path):
    """Killed by itself is not killed at the deadline."""
    assert run("kill -TERM $$", tmp_path).exit_code == -signal.SIGTERM


def test_background_child_that_holds_the_output_open_neither_delays_nor_survives_the_end(tmp_path):
    """The shell's end is the call's end, whoever still holds its output; what it left behind is killed."""
    ended = run("sleep 600 & echo $! > pid; echo done", tmp_path)
    assert ended.exit_code == 0
    assert ended.head == b"done\n"
    wait_until(lambda: not running(pid_in(tmp_path / "pid")), "the end of the child")


def test_whole_group_is_dead_after_the_deadline(tmp_path):
    """A child of the shell dies with it; the output so far is kept."""
    ended = run("sleep 600 & echo $! > pid; echo begun; wait", tmp_path, timeout_s=2)
    assert ended.exit_code is None
    assert ended.head == b"begun\n"
    wait_until(lambda: not running(pid_in(tmp_path / "pid")), "the end of the child")


def test_shell_that_ignores_every_polite_signal_is_dead_after_the_deadline(tmp_path):
    """The deadline does not ask."""
    ended = run("trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 1; done", tmp_path, timeout_s=1)
    assert ended.exit_code is None
    assert not running(pid_in(tmp_path / "pid"))


def test_whole_group_is_dead_after_a_cancellation(tmp_path):
    """Whoever stops waiting leaves nothing running."""

    async def scenario():
        async with anyio.create_task_group() as group:
            group.start_soon(shell, "sleep 600 & echo $! > pid; wait", tmp_path, 600, 1000, "test")
            await anyio.to_thread.run_sync(pid_in, tmp_path / "pid")
            group.cancel_scope.cancel()

    anyio.run(scenario)
    wait_until(lambda: not running(pid_in(tmp_path / "pid")), "the end of the child")


def test_endless_output_is_kept_at_both_ends_only(tmp_path):
    """Ten megabytes come in, two kilobytes stay, and what lay between is counted."""
    ended = run("echo first; head -c 10000000 /dev/zero; echo; echo last", tmp_path, keep_bytes=1000)
    assert ended.exit_code == 0
    assert ended.head.startswith(b"first\n\0")
    assert ended.tail.endswith(b"\0\nlast\n")
    assert (len(ended.head), len(ended.tail)) == (1000, 1000)
    assert ended.dropped_bytes == 10_000_012 - 2000


@pytest.mark.parametrize("pieces", [[], [5], [10, 10], [7, 7, 6], [20], [21], [1] * 40, [50, 1], [9, 2, 30]])
def test_bounded_output_keeps_what_fits_and_counts_the_rest(pieces):
    """However the bytes arrive: up to twice the limit is whole, above it both ends are exact."""
    data = bytes(range(sum(pieces)))
    output = BoundedOutput(10)
    rest = data
    for length in pieces:
        output.feed(rest[:length])
        rest = rest[length:]
    head, tail, dropped = output.parts()
    if len(data) <= 20:
        assert (head, tail, dropped) == (data, b"", 0)
    else:
        assert (head, tail, dropped) == (data[:10], data[-10:], len(data) - 20)


def test_missing_program_or_directory_is_an_error_that_says_so(tmp_path):
    """A command that cannot be started has no exit code; it is an OSError."""
    with pytest.raises(FileNotFoundError):
        run("true", tmp_path / "gone")


def test_many_commands_at_once_keep_their_outputs_apart(tmp_path):
    """Twenty shells side by side, each with its own text, all within one loop."""
    results = {}

    async def one(number):
        results[number] = await shell(f"echo {number}; sleep 0.1; echo {number}", tmp_path, 60, 1000, "test")

    async def scenario():
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)

    anyio.run(scenario)
    assert {number: ended.head for number, ended in results.items()} == {
        number: b"%d\n%d\n" % (number, number) for number in range(20)
    }


def test_files_made_by_a_command_are_private(tmp_path):
    """Whatever the umask of whoever runs evrun: 0600 and 0700."""
    run("echo x > file; mkdir folder", tmp_path)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700


RUNNER = """
import sys
from pathlib import Path
import anyio
from evrun.effects.processes import run_command
from evrun.effects.secrets import child_environment
directory = Path(sys.argv[1])
command = ["/bin/sh", "-c", sys.argv[2]]
environment = child_environment(directory, sys.argv[3])
anyio.run(lambda: run_command(command, directory=directory, environment=environment, timeout_s=600))
"""


@contextlib.contextmanager
def runner(directory, script, marker):
    """A process that waits for a command, as the runner does; killed at the end if it was not before."""
    process = subprocess.Popen([sys.executable, "-c", RUNNER, directory, script, marker], cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_no_orphan_survives_the_resume_after_a_kill_of_the_runner(tmp_path):
    """Kill -9 in a tool call that left `sleep 600` in and outside of its group: the marker finds both."""
    marker = f"run-{os.getpid()}"
    script = "sleep 600 & echo $! > near; setsid sleep 600 & echo $! > far; wait"
    with runner(tmp_path, script, f"{marker}/unit-a1") as process:
        orphans = [pid_in(tmp_path / "near"), pid_in(tmp_path / "far")]
        process.kill()
        process.wait()
        assert all(running(pid) for pid in orphans), "nothing to find: the test would show nothing"
        killed = kill_orphans(marker)
    assert not any(running(pid) for pid in orphans)
    assert set(orphans) <= {each.pid for each in killed}
    assert {each.marker for each in killed} == {f"{marker}/unit-a1"}
    assert kill_orphans(marker) == []


def test_group_member_without_a_marker_dies_with_its_group(tmp_path):
    """A child that was started with an empty environment cannot be found, but its group can."""
    marker = f"run-{os.getpid()}"
    script = "env -i sleep 600 & echo $! > pid; sleep 600 & wait"
    with runner(tmp_path, script, f"{marker}/unit-a1") as process:
        orphan = pid_in(tmp_path / "pid")
        wait_until(lambda: psutil.Process(orphan).name() == "sleep", "the sleeper")
        process.kill()
        process.wait()
        kill_orphans(marker)
    wait_until(lambda: not running(orphan), "the end of the orphan")


def test_processes_of_another_run_are_left_alone(tmp_path):
    """Run `a` must not end the tools of run `ab`, nor of one that has no marker."""
    marker = f"run-{os.getpid()}"
    with runner(tmp_path, "echo $$ > pid; sleep 600 & wait", f"{marker}b/unit-a1"):
        other = pid_in(tmp_path / "pid")
        assert kill_orphans(marker) == []
        assert running(other)
        assert other in {each.pid for each in kill_orphans(f"{marker}b")}
