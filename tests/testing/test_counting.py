"""The line that says how many images were examined: added up over tests and workers, not rosier than they."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.house import ROOT

TESTS = """
import pytest
from eventlog.errors import LogLost
from eventlog.testing import BrokenPromise

@pytest.mark.parametrize("count", [1000, 200, 30])
def test_counted(count, count_images, images_scale):
    count_images(count)
    count_images(round(images_scale))

def test_not_counted():
    pass
"""
BROKEN = """
def test_lost(count_images):
    count_images(5)
    raise BrokenPromise("lost", "lost")

def test_silent(count_images):
    raise BrokenPromise("silent", "silent")

def test_refused(count_images):
    raise LogLost("refused")

def test_otherwise(count_images):
    assert False

def test_of_another_kind():
    assert False
"""


def summary(folder, text, *arguments, **environment):
    """Run these tests with the suite's conftest; return what pytest printed and its exit status."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "test_it.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    return done.stdout, done.returncode


@pytest.mark.parametrize("workers", ["0", "2"])
def test_images_are_added_up_over_all_tests_and_workers(tmp_path, workers):
    """The numbers that each test noted, in one line, whether one process ran them or two."""
    printed, status = summary(tmp_path, TESTS, "-n", workers, EVRUN_IMAGES="2")
    assert status == 0
    assert (
        "crash and damage images: 1,236 examined, 0 acknowledged commits lost, 0 silent, 0 legal refused\n"
        in printed
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_was_found_broken_stands_in_the_line(tmp_path, workers):
    """A loss, a silent damage, a refusal, a test that failed otherwise: each is counted as itself."""
    printed, status = summary(tmp_path, TESTS + BROKEN, "-n", workers, EVRUN_IMAGES="0")
    assert status == 1
    assert (
        "crash and damage images: 1,235 examined, 1 acknowledged commits lost, 1 silent, 1 legal refused; "
        "1 tests failed otherwise\n" in printed
    )


def test_there_is_no_line_where_nothing_was_counted(tmp_path):
    """Other runs of pytest look as they did."""
    printed, status = summary(tmp_path, TESTS, "-k", "not_counted")
    assert status == 0
    assert "images" not in printed
