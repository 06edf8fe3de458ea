"""How a process ends that has used a bucket: with its own exit code, whatever the library's threads do."""

import subprocess
import sys

import pytest

from tests.archive.logs import first_half
from tests.archive.s3 import BUCKET, SECRET, running_server
from tests.cli.shell import ENVIRONMENT, EVRUN

RUNS = 4  # of each kind

SLOW = """
import sys, threading, time
from asyncio.selector_events import BaseSelectorEventLoop
main, wake = threading.get_ident(), BaseSelectorEventLoop._write_to_self
def slowly(loop):
    wake(loop)
    if threading.get_ident() != main:
        time.sleep(0.7)
BaseSelectorEventLoop._write_to_self = slowly
class Late:
    def __del__(self, sleep=time.sleep):
        sleep(1.5)
sys.late = Late()
from cli.main import main
main()
"""
"""The command on a machine where a thread that has woken the loop gets no processor until the interpreter is
being taken down, and where that takes its time."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server, with one bucket."""
    with running_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


def archive(server, program, directory, secret, number=0):
    """Archive the run with a program; what it said, and how it ended."""
    return subprocess.run(
        [*program, "archive", "run", f"s3://{BUCKET}/{directory.name}/{number}", "--json"],
        cwd=directory,
        env=ENVIRONMENT | server.environment() | {"AWS_SECRET_ACCESS_KEY": secret},
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("secret", "code"), [(SECRET, 0), ("wrong", 1)], ids=["good", "wrong-key"])
def test_a_thread_that_is_late_does_not_abort_the_process(secret, code, server, tmp_path):
    """It comes back when the interpreter is half gone; exit code, stdout and stderr are whole."""
    first_half(tmp_path / "data/run")
    done = archive(server, [sys.executable, "-c", SLOW], tmp_path, secret)
    assert done.returncode == code, done.stderr.decode()
    assert (done.stdout.endswith(b"}\n"), b"403 Forbidden" in done.stderr) == (code == 0, code == 1)


@pytest.mark.parametrize(("secret", "code"), [(SECRET, 0), ("wrong", 1)], ids=["good", "wrong-key"])
def test_every_process_ends_with_the_code_of_its_command(secret, code, server, tmp_path):
    """One after the other, each a process of its own."""
    first_half(tmp_path / "data/run")
    ended = [archive(server, EVRUN, tmp_path, secret, number).returncode for number in range(RUNS)]
    assert ended == [code] * RUNS
