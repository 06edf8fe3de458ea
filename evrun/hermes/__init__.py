"""Runs of the Hermes batch runner: their directories read, and made runs of ours."""

from .importing import Import, Imported, import_hermes
from .reading import Unread

__all__ = ["Import", "Imported", "Unread", "import_hermes"]
