"""What came of an attempt, as the log keeps it: JSON by bytes, secrets replaced, an error told in full."""

import json
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from eventlog.events import BlobStored, RolloutFinished, Usage

from ..effects.secrets import Redactor
from .authoring import RunOutput
from .blobs import LARGEST_FILE, Blobs, Content, Refused, entries_of, read_files
from .own_spending import Reported, nano_usd

OK, ERROR, TIMEOUT = "ok", "error", "timeout"
_LONGEST = 4000
_LONGEST_TRACEBACK = 16_000
_OURS = str(Path(__file__).parent.parent)
_NOT_THEIRS = (_OURS, "<frozen")
_TOTAL = ("total_tokens", "total")


class AgentError(Exception):
    """An agent failed otherwise than by an exception of its own: the class of the failure, and why.

    `found` is what it gave back all the same; of that only what it spent counts.
    """

    def __init__(self, error_class: str, message: str, found: RunOutput | None = None) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.found = found or RunOutput()


class Outcome(NamedTuple):
    """How an attempt ended: as `RolloutFinished` says it, with its files and what was reported."""

    status: str
    output: bytes | None = None
    error_class: str | None = None
    message: str | None = None
    traceback: str | None = None
    reported: Reported = Reported(None)
    tokens: int | None = None
    wall_ms: int | None = None
    files: dict[str, Content] = {}  # noqa: RUF012 (never changed)
    messages: bytes | None = None
    extra: bytes | None = None

    @property
    def is_ok(self) -> bool:
        """Whether there is something to judge."""
        return self.status == OK

    @property
    def why(self) -> str:
        """In a line, why there is nothing to judge."""
        return f"{self.status}: {self.error_class}: {self.message}"

    def event(self, unit: str, attempt: int, wall_ms: int) -> RolloutFinished:
        """The fact to record."""
        return RolloutFinished(
            unit, attempt, self.status, self.output, self.error_class, self.message, self.traceback,
            self.reported.cost_nano_usd, self.tokens, wall_ms if self.wall_ms is None else self.wall_ms,
            entries_of(self.files), self.messages, self.extra,
        )  # fmt: skip

    def blobs(self, blobs: Blobs) -> list[BlobStored]:
        """What is to be recorded with it, so that its files are in the log."""
        return blobs.missing(self.files) if self.files else []


def failed(error_class: str, message: str) -> Outcome:
    """The outcome of an attempt that did not end by itself."""
    return Outcome(ERROR, error_class=error_class, message=message)


def outcome_of(found: RunOutput, directory: Path, redactor: Redactor) -> Outcome:
    """What an agent gave back. `directory` is where a relative path of its log begins."""
    try:
        output = as_json(found.output, redactor)
        messages = None if found.messages is None else as_json(found.messages, redactor)
        extra = None if found.extra is None else as_json(found.extra, redactor)
    except (TypeError, ValueError, RecursionError) as error:
        return failed("no_json", f"the agent gave something that is no JSON: {error}")
    if len(output) + len(messages or b"") + len(extra or b"") > LARGEST_FILE:
        return failed("too_large", f"the agent gave more than {LARGEST_FILE} bytes; put it into its log")
    files, problem = _files(found.log, directory, redactor)
    cost, tokens = nano_usd(found.cost_usd), _tokens(found.tokens)
    if found.cost_usd is not None and cost is None:
        problem = f"cost_usd is {found.cost_usd!r:.100}, which is no amount: what it cost is not known"
    wall = found.wall_s
    known = isinstance(wall, int | float) and 0 <= wall < 1e9  # noqa: PLR2004 (30 years)
    return Outcome(
        OK,
        output,
        message=problem,
        reported=Reported(cost, _usage(found.tokens)),
        tokens=tokens,
        wall_ms=round(wall * 1000) if known and wall is not None else None,
        files=files,
        messages=messages,
        extra=extra,
    )


def outcome_of_error(error: Exception, directory: Path, redactor: Redactor) -> Outcome:
    """What an agent raised. `directory` is its own."""
    if isinstance(error, AgentError):
        files, _ = _files(error.found.log, directory, redactor)
        return Outcome(
            ERROR,
            error_class=error.error_class,
            message=redactor.clean_text(str(error))[:_LONGEST],
            reported=Reported(nano_usd(error.found.cost_usd), _usage(error.found.tokens)),
            tokens=_tokens(error.found.tokens),
            files=files,
        )
    told = "".join(traceback.format_exception(type(error), error, _theirs(error.__traceback__)))
    return Outcome(
        ERROR,
        error_class=type(error).__name__,
        message=redactor.clean_text(str(error))[:_LONGEST],
        traceback=redactor.clean_text(told)[-_LONGEST_TRACEBACK:],
    )


def as_json(value: Any, redactor: Redactor) -> bytes:
    """A value as JSON, with secrets replaced.

    Raises:
        TypeError, ValueError: it is none.
    """
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character, as models write it now and then
        encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return redactor.clean(encoded)


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from where the agent's own code begins; whole where it has no part in it."""
    found = trace
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_NOT_THEIRS):
        found = found.tb_next
    return found or trace


def _files(
    log: str | Path | None, directory: Path, redactor: Redactor
) -> tuple[dict[str, Content], str | None]:
    """The files of a trajectory, and why there are none where some were named."""
    if log is None:
        return {}, None
    path = directory / log
    try:
        if path.is_file():
            found = {path.name: Content(path.read_bytes())}
        elif path.is_dir():
            found = read_files(path)
        else:
            return {}, f"its log is not kept: there is no file or directory {path}"
    except (OSError, Refused) as error:
        return {}, f"its log is not kept: {error}"
    return {name: one._replace(data=redactor.clean(one.data)) for name, one in found.items()}, None


def _tokens(given: int | dict[str, int] | None) -> int | None:
    """How many in all, of what an agent says."""
    if isinstance(given, dict):
        whole = [given[name] for name in _TOTAL if name in given]
        counts = whole[:1] or list(given.values())
        return sum(counts) if counts and all(map(_is_count, counts)) else None
    return given if _is_count(given) else None


def _usage(given: int | dict[str, int] | None) -> Usage:
    """The same by kind; where it is not said of which, all count as input."""
    whole = _tokens(given)
    if not isinstance(given, dict):
        return Usage(whole, None, None, None)
    sides = [given.get(name, given.get(f"{name}_tokens")) for name in ("input", "output")]
    if all(map(_is_count, sides)) and sum(side or 0 for side in sides) == whole:
        return Usage(sides[0], None, sides[1], None)
    return Usage(whole, None, None, None)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
