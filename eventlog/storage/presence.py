"""Is there a log at all?"""

from pathlib import Path

from .filesystem import FileSystem, RealFileSystem
from .segments import segment_names


def log_exists(directory: Path, *, filesystem: FileSystem | None = None) -> bool:
    """Whether a directory holds a log: at least one segment, whole or not. Opens nothing."""
    try:
        names = (filesystem or RealFileSystem()).names(str(directory))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(segment_names(names))
