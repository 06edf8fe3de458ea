"""Which code made a snapshot: whatever may change what a fold is, changes this."""

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

_PACKAGES = ("eventlog.events", "projections", "projections.materialize")


@cache
def fingerprint() -> bytes | None:
    """A digest over the sources of the folds and of the events, and what else their bytes depend on.

    Null where the sources are not there to be looked at: then nothing may be taken from a snapshot.
    """
    files = [import_module(package).__file__ for package in _PACKAGES]
    return digest_of(Path(file or "").parent for file in files)


def digest_of(directories: Iterable[Path]) -> bytes | None:
    """A digest over the sources in some directories; null where one has none."""
    digest = hashlib.sha256(f"{msgspec.__version__} {sys.byteorder}".encode())
    for directory in directories:
        files = sorted(directory.glob("*.py"))
        if not files:
            return None
        for file in files:
            text = file.read_bytes()
            digest.update(b"%b %d\n" % (file.name.encode(), len(text)))
            digest.update(text)
    return digest.digest()
