"""Errors become one line, a hint and an exit code; the codes are those of the contracts, the same everywhere.

::

    1    evrun failed, or could not go on; also: `replay --check` found a difference
    2    usage or input error; nothing was changed
    3    done, but some prompts failed; `salvage`: done, but some events are missing
    4    paused by a cap or a quota
    5    the log is lost, damaged, unreadable, unsupported or tampered with
    6    the run is in use by another process, which is named
    130  ended by SIGINT
    143  ended by SIGTERM
"""

import errno
from typing import NamedTuple

import typer

from eventlog.errors import EventError, EventLogError, LogLocked, LogRefused, Problem
from evrun.errors import EvrunError

from .config import came_from

FAILED = 1
USAGE = 2
INCOMPLETE = 3
BAD_LOG = 5
IN_USE = 6
READER_GONE = 141  # what a shell says of a program that SIGPIPE ended: 128 + 13


class ReaderGone(Exception):
    """Whoever read our output has closed it: `evrun events RUN | head`, for instance."""


class Explanation(NamedTuple):
    """What to say about an error; an empty message says nothing."""

    message: str
    hint: str | None
    exit_code: int


def explain(error: Exception) -> Explanation | None:
    """The explanation of an error that is ours or typer's; null for any other: a bug, to be seen whole."""
    match error:
        case ReaderGone():
            return Explanation("", None, READER_GONE)
        case typer.Abort():
            return Explanation("stopped", None, 130)
        case EvrunError():
            return Explanation(str(error), error.hint, error.exit_code)
        case LogLocked():
            return Explanation(str(error), in_use_hint(str(error), error.holder), IN_USE)
        case EventLogError():
            return Explanation(str(error) + _place(error), None, _log_code(error))
        case OSError():
            return Explanation(_foreign(error), _room(error), FAILED)
        case _:
            return _usage(error)


def in_use_hint(message: str, holder: dict[str, str]) -> str:
    """Who holds the run, unless the message says so, and what can be done."""
    pid = holder.get("pid")
    who = (
        f"process {pid} on {holder.get('host', 'this host')} holds it; " if pid and pid not in message else ""
    )
    return f"{who}wait for it to end, or end it, then do this again; reading is possible meanwhile"


def _log_code(error: EventLogError) -> int:
    if isinstance(error, LogRefused | EventError):
        return BAD_LOG
    # The root itself says that what was asked for is not there: no log, or no such place in it.
    return USAGE if type(error) is EventLogError else FAILED


def _place(error: EventLogError) -> str:
    problem: Problem | None = getattr(error, "problem", None)
    if problem is None or problem.segment in str(error):
        return ""
    return f" (segment {problem.segment}, offset {problem.offset_bytes}: {problem.what})"


def _foreign(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _room(error: OSError) -> str | None:
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return "what was acknowledged is kept; make room, then the same again (evrun run: with --resume)"
    return None


def _usage(error: Exception) -> Explanation | None:
    """Typer's usage errors, told by what they offer: their class has moved between releases of typer."""
    describe = getattr(error, "format_message", None)
    if not callable(describe):
        return None
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "evrun"
    came = came_from(context, getattr(error, "param", None)) if context is not None else None
    hint = f"`{path} --help` shows what there is"
    return Explanation(
        " ".join(str(describe()).split()), f"it came from {came}; {hint}" if came else hint, USAGE
    )
