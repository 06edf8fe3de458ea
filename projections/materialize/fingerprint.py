"""Which code made a snapshot: whatever may change what a fold is, changes this."""

import hashlib
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec


@cache
def fingerprint() -> bytes | None:
    """A digest over the sources of the folds and of the events, and what else their bytes depend on.

    Null where the sources are not there to be looked at: then nothing may be taken from a snapshot.
    """
    digest = hashlib.sha256(f"{msgspec.__version__} {sys.byteorder}".encode())
    packages = ("eventlog.events", "projections", "projections.materialize")
    for package in packages:
        where = import_module(package).__file__
        files = [] if where is None else sorted(Path(where).parent.glob("*.py"))
        if not files:
            return None
        for file in files:
            text = file.read_bytes()
            digest.update(b"%b %d\n" % (file.name.encode(), len(text)))
            digest.update(text)
    return digest.digest()
