"""An archive where a run is asked for: commands that only read take the one for the other."""

from pathlib import Path

from evrun.archive import borrow, is_archive

from .afterwards import afterwards
from .runs import DATA, find_run, log_of

_places: dict[Path, str] = {}


def find_readable(run: str, output_directory: Path = DATA) -> Path:
    """The run's directory, or one made of the archive that `run` names, which goes with the command.

    Raises:
        UsageFault: there is neither run nor archive.
        LogLost, LogUnsupported: the archive is damaged, or a newer evrun wrote it.
        RunFailed, OSError: the store, or the disk here, failed.
    """
    if not means_archive(run):
        return find_run(run, output_directory)
    borrowed = borrow(run)
    afterwards.callback(_places.pop, borrowed.directory)
    afterwards.callback(borrowed.close)
    _places[borrowed.directory] = borrowed.place
    return borrowed.directory


def place_of(directory: Path) -> str:
    """Where the run is, for people: its directory, or the archive that it was borrowed from."""
    return _places.get(directory, str(directory))


def is_borrowed(directory: Path) -> bool:
    """Whether this directory is made of an archive."""
    return directory in _places


def means_archive(run: str) -> bool:
    """Whether somebody who typed this means an archive."""
    return is_archive(run) and not log_of(Path(run)).is_dir()
