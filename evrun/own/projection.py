"""A projection of the user's own, from its file to what it shows; their errors are told with their place."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eventlog.storage import LogReader
from projections import FoldFailed, json_line, project

from ..errors import RunFailed, UsageFault
from .code import load_name, place_of

METHODS = "a fold has initial(self), apply(self, state, record) and render(self, state)"


class Projection:
    """A fold out of a file, named as ``FILE.py:NAME``.

    Raises:
        UsageFault: there is no such class, or it is no fold.
    """

    def __init__(self, name: str) -> None:
        self._class, self._path = load_name(name, "project")
        if not isinstance(self._class, type):
            raise UsageFault(f"project {name}: expected a class, found {type(self._class).__name__}", METHODS)
        missing = [method for method in ("apply", "render") if not hasattr(self._class, method)]
        if missing:
            raise UsageFault(f"project {name}: the class has no {' and no '.join(missing)}", METHODS)

    def shown(self, reader: LogReader, to_sequence: int) -> Any:
        """What a new instance of the fold shows of the events up to a sequence.

        It is text, bytes or a value that JSON can hold, or an iterator of such, which raises as this does.

        Raises:
            RunFailed: the fold raised an error, or shows what cannot be shown.
            EventLogError: the log cannot be read.
        """
        with self._told("when it is made"):
            fold = self._class()
        try:
            shown = project(reader, fold, to_sequence)
        except FoldFailed as failed:
            event = "" if failed.event is None else f" of event {failed.sequence} ({failed.event})"
            raise self._fault(failed.__cause__ or failed, f"{failed.part}{event}") from failed
        return self._each(shown) if isinstance(shown, Iterator) else self._showable(shown)

    def _each(self, shown: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while True:
            with self._told("render"):
                item = next(shown, end)
            if item is end:
                return
            yield self._showable(item)

    def _showable(self, value: Any) -> Any:
        if not isinstance(value, str | bytes):
            with self._told("render"):
                # Strictly, so that nobody's object becomes something by chance.
                json.dumps(value, allow_nan=False)
        return value

    @contextmanager
    def _told(self, where: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._fault(error, where) from error

    def _fault(self, error: BaseException, where: str) -> RunFailed:
        said = f"{place_of(error, self._path)}, {where}: {type(error).__name__}: {error}"
        return RunFailed(f"project {said}", "the run is as it was; mend the file, then do this again")


def as_pieces(shown: Any) -> Iterator[bytes]:
    """What a fold shows as bytes: text as it is, values as JSON, an iterator a line each."""
    if isinstance(shown, Iterator):
        for item in shown:
            data = _bytes_of(item)
            yield data if data.endswith(b"\n") else data + b"\n"
    else:
        yield _bytes_of(shown)


def as_value(shown: Any) -> Any:
    """What a fold shows as one JSON value: bytes as text, an iterator as a list."""
    if isinstance(shown, Iterator):
        return [as_value(item) for item in shown]
    return shown.decode("utf-8", "replace") if isinstance(shown, bytes) else shown


def digest_of(shown: Any) -> str:
    """What tells two things that folds have shown from each other."""
    digest = hashlib.sha256()
    for piece in as_pieces(shown):
        digest.update(piece)
    return digest.hexdigest()


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json_line(value)
