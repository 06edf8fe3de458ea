"""Runs of Hermit: their directories read, and made training runs of ours."""

from .importing import HermitImport, HermitImported, import_hermit

__all__ = ["HermitImport", "HermitImported", "import_hermit"]
