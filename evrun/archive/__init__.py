"""A run's log kept elsewhere, in a directory or a bucket: sent, read, checked, brought back."""

from .borrowing import Borrowed, borrow, verify_archive
from .manifest import Entry, Manifest
from .restoring import Restored, restore
from .sending import Archived, archive_run
from .stores import is_archive, is_begun, no_archive, shown

__all__ = [
    "Archived",
    "Borrowed",
    "Entry",
    "Manifest",
    "Restored",
    "archive_run",
    "borrow",
    "is_archive",
    "is_begun",
    "no_archive",
    "restore",
    "shown",
    "verify_archive",
]
