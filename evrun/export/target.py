"""Where an export goes: what may stand in its way is looked at before any work, and nothing is ever half."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from eventlog.storage import RealFileSystem, log_exists, replace_file
from projections import is_view

from ..errors import UsageFault

PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700
_DATASET = {"state.json", "dataset_info.json"}
"""What a saved dataset has besides its data."""
_ELSEWHERE = "give a path of its own"


class Target:
    """A path that is to hold an export. What belongs to a run is left alone, `force` or not.

    Raises:
        UsageFault: it is taken (and not forced), or cannot be replaced, or its directory is not there.
    """

    def __init__(self, path: Path, *, force: bool) -> None:
        self.path = path
        self._force = force

    @property
    def place(self) -> Path:
        """The directory that it is in."""
        return self.path.parent

    def write_file(self, chunks: Iterable[bytes]) -> None:
        """Write a file, mode 0600: all of it, or on any error nothing."""
        replace_file(self.path, self._watched(chunks), durable=True)

    def write_directory(self, fill: Callable[[Path], None]) -> None:
        """Write a directory, mode 0700: `fill` makes its files in an empty one, which then gets the name."""
        disk = RealFileSystem()
        making = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        old = self.path.with_name(f"{self.path.name}.{os.getpid()}.old")
        shutil.rmtree(making, ignore_errors=True)
        disk.make_directory(str(making))
        try:
            fill(making)
            _make_private_and_durable(disk, making)
            self.check_directory()
            if self.path.exists():
                disk.rename(str(self.path), str(old))
            disk.rename(str(making), str(self.path))
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            if old.exists() and not self.path.exists():
                disk.rename(str(old), str(self.path))
            raise
        disk.sync_directory(str(self.place))
        shutil.rmtree(old, ignore_errors=True)

    def check_file(self) -> None:
        """Whether a file may be put here. Errors as the class says."""
        self._check()
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise UsageFault(f"-o {self.path} is there and is no file, so it is not replaced", _ELSEWHERE)

    def check_directory(self) -> None:
        """Whether a dataset's directory may be put here. Errors as the class says."""
        self._check()
        if not self.path.exists() and not self.path.is_symlink():
            return
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        data = {name for name in names if name.startswith("data-") and name.endswith(".arrow")}
        if self.path.is_symlink() or not names >= _DATASET or names - _DATASET - data:
            raise UsageFault(
                f"-o {self.path} is there and is no saved dataset, so it is not replaced", _ELSEWHERE
            )

    def _check(self) -> None:
        if not self.path.name or self.path.name in {".", "..", "-"}:
            raise UsageFault(f"-o {self.path}: expected the path of what is to be made")
        if not self.place.is_dir():
            raise UsageFault(f"-o {self.path}: there is no directory {self.place}", "make it first")
        if not self._force and (self.path.exists() or self.path.is_symlink()):
            raise UsageFault(f"-o {self.path} is there already", "--force replaces it")
        if log_exists(self.place) or (is_view(self.path.name) and log_exists(self.place / "log")):
            raise UsageFault(f"-o {self.path} belongs to a run, which keeps its files itself", _ELSEWHERE)

    def _watched(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        yield from chunks
        # It may have come into being meanwhile.
        self.check_file()


def _make_private_and_durable(disk: RealFileSystem, directory: Path) -> None:
    for path in directory.iterdir():
        path.chmod(PRIVATE_FILE)
        fd = disk.open(str(path), os.O_RDONLY)
        try:
            disk.fsync(fd)
        finally:
            disk.close(fd)
    directory.chmod(PRIVATE_DIRECTORY)
    with suppress(OSError):
        disk.sync_directory(str(directory))
