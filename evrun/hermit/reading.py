"""Files of Hermit, read with what is wrong in them told apart from what can be used."""

import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..effects.secrets import Redactor
from ..errors import UsageFault
from ..hermes.reading import Unread, read_object
from ..training.blobs import LARGEST_FILE, Content
from ..training.yaml_text import read_yaml

Shape = TypeVar("Shape")


class Source:
    """A directory that Hermit wrote. `unread` collects what could not be read of what was asked for.

    Secrets that `redactor` knows are replaced in all that is read.
    """

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        self.directory = directory
        self._redactor = redactor
        self.unread: list[Unread] = []

    def refuse(self, name: str, what: str, line: int | None = None) -> None:
        """Note that something is left out."""
        self.unread.append(Unread(name, line, what))

    def names(self, name: str) -> list[str]:
        """What is in a directory; nothing where it is not there."""
        try:
            return sorted(entry.name for entry in (self.directory / name).iterdir())
        except OSError:
            return []

    def object(self, name: str, shape: type[Shape]) -> Shape | None:
        """A file that holds one JSON object; null where it is not there, or is not as expected."""
        try:
            data = (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.refuse(name, str(error.strerror))
            return None
        return self._shaped(name, None, data, shape)

    def lines(self, name: str, shape: type[Shape]) -> Iterator[tuple[int, Shape]]:
        """The lines of a file with their numbers, as far as they are as expected."""
        try:
            data = (self.directory / name).read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            self.refuse(name, str(error.strerror))
            return
        *whole, rest = data.split(b"\n")
        for number, line in enumerate(whole, 1):
            if line.strip():
                value = self._shaped(name, number, line, shape)
                if value is not None:
                    yield number, value
        if rest.strip():
            self.refuse(name, "the file ends in half a line", len(whole) + 1)

    def files(self, name: str) -> dict[str, Content]:
        """The files below a directory, or the file of that name; what cannot be kept is noted."""
        place = self.directory / name
        found: dict[str, Content] = {}
        if place.is_file() and not place.is_symlink():
            self._take(place, name, place.name, found)
            return found
        for folder, folders, names in os.walk(place):
            for entry in sorted([*folders, *names]):
                path = Path(folder, entry)
                shown = path.relative_to(self.directory).as_posix()
                if path.is_symlink():
                    self.refuse(shown, "is a link, which is not followed")
                elif entry in names:
                    self._take(path, shown, path.relative_to(place).as_posix(), found)
        return dict(sorted(found.items()))

    def _take(self, path: Path, shown: str, name: str, found: dict[str, Content]) -> None:
        try:
            name.encode()
            known = path.stat()
            if not stat.S_ISREG(known.st_mode):
                self.refuse(shown, "is no file")
            elif known.st_size > LARGEST_FILE:
                self.refuse(shown, f"has {known.st_size} bytes; at most {LARGEST_FILE} are kept")
            else:
                data = self._redactor.clean(path.read_bytes())
                found[name] = Content(data, bool(known.st_mode & stat.S_IXUSR))
        except UnicodeEncodeError:
            self.refuse(shown.encode("utf-8", "replace").decode(), "its name is no text")
        except OSError as error:
            self.refuse(shown, str(error.strerror))

    def _shaped(self, name: str, line: int | None, data: bytes, shape: type[Shape]) -> Shape | None:
        try:
            return msgspec.convert(read_object(self._redactor.clean(data)), shape)
        except (ValueError, msgspec.ValidationError) as error:
            self.refuse(name, str(error), line)
            return None


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping.

    Raises:
        UsageFault: it is not there, or holds something else.
    """
    try:
        value = read_yaml(path.read_text("utf-8"), str(path)).value
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UsageFault(
            f"{path}: {why}", hint="give the directory of a run, for example runs/my_first_run"
        ) from error
    if not isinstance(value, dict):
        raise UsageFault(f"{path}: expected a mapping, found {type(value).__name__}")
    return value


def as_json(value: object) -> bytes | None:
    """A value as the bytes of its JSON; null for null, and for what JSON cannot hold."""
    if value is None:
        return None
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):
        return json.dumps(_without_nan(value)).encode("ascii")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
