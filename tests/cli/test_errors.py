"""Every error of ours has its exit code, the same in every command, and says what to do next."""

import pytest

from cli.errors import Explanation, ReaderGone, explain
from eventlog import errors as log_errors
from eventlog.errors import LogLocked, LogLost, Problem
from evrun.errors import DatasetFault, EvrunError, RunFailed, UsageFault

PROBLEM = Problem("00000000000000000001-00000001.evl", 4096, 7, 9, "a frame whose checksum is wrong")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("LogLost", 5),
        ("LogUnreadable", 5),
        ("LogUnsupported", 5),
        ("LogTampered", 5),
        ("UnknownEvent", 5),
        ("MalformedEvent", 5),
        ("NotWritten", 1),
        ("OutcomeUnknown", 1),
        ("LogClosed", 1),
        ("EventTooLarge", 1),
        ("EventLogError", 2),
    ],
)
def test_an_error_of_the_log_has_its_code(name, code):
    """5 for what is wrong with the log, 1 for what could not be done to it, 2 for what is not in it."""
    assert explain(getattr(log_errors, name)("what happened")) == Explanation("what happened", None, code)


def test_damage_is_told_with_its_place():
    """Segment, offset and what was found there, unless the message has said so already."""
    said = explain(LogLost("data/a/log is not whole", PROBLEM))
    assert said.message == (
        "data/a/log is not whole (segment 00000000000000000001-00000001.evl, offset 4096: "
        "a frame whose checksum is wrong)"
    )
    whole = f"{PROBLEM.segment} is not whole"
    assert explain(LogLost(whole, PROBLEM)).message == whole


def test_a_run_in_use_names_its_holder():
    """Exit 6, and who holds it, once: in the message or in the hint."""
    waiting = "wait for it to end, or end it, then do this again; reading is possible meanwhile"
    holder = {"pid": "4242", "host": "here", "boot_id": "x"}
    who = "process 4242 on here holds it; "
    assert explain(LogLocked("it is in use", holder)) == Explanation("it is in use", who + waiting, 6)
    assert explain(LogLocked("pid 4242 holds it", holder)).hint == waiting
    assert explain(LogLocked("it is in use", {})).hint == waiting


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageFault("wrong", "do this"), 2),
        (DatasetFault("wrong", [(2, "no prompt")], "do this"), 2),
        (RunFailed("wrong", "do this"), 1),
        (EvrunError("wrong", "do this"), 1),
    ],
)
def test_an_error_of_evrun_brings_its_own_code_and_hint(error, code):
    """The acting side knows best what its errors mean."""
    assert explain(error) == Explanation("wrong", "do this", code)


def test_an_error_of_the_system_names_the_file():
    """A full disk or a missing right is one line, not a traceback."""
    said = explain(PermissionError(13, "Permission denied", "data/a/statistics.json"))
    assert said == Explanation("data/a/statistics.json: Permission denied", None, 1)


def test_a_reader_who_left_is_no_news():
    """`evrun events RUN | head` ends quietly, with the code that shells give for it."""
    assert explain(ReaderGone()) == Explanation("", None, 141)


def test_what_nobody_foresaw_has_no_explanation():
    """A bug is shown whole instead."""
    assert explain(ZeroDivisionError()) is None
