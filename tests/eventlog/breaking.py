"""How a rule of the log is broken on purpose: by replacing a function of the product while a block runs."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple


class Broken(NamedTuple):
    """One broken rule: what is wrong in a few words, and the block in which it is."""

    name: str
    hook: Callable[[], AbstractContextManager]


RULES: dict[str, Broken] = {}


def rule(name):
    """Note a function that gives (owner, attribute, replacement) triples as the way to break a rule."""

    def note(replacements):
        @contextlib.contextmanager
        def hook():
            with contextlib.ExitStack() as stack:
                for owner, attribute, value in replacements():
                    stack.enter_context(replaced(owner, attribute, value))
                yield

        RULES[name] = Broken(name, hook)
        return replacements

    return note


@contextlib.contextmanager
def replaced(owner, attribute, value):
    """Put something in the place of an attribute while the block runs."""
    before = owner.__dict__[attribute]
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)


class Through:
    """A filesystem through which all calls go to another one, but for those that a subclass defines."""

    def __init__(self, below):
        self.below = below

    def __getattr__(self, name):
        """Pass the call on."""
        return getattr(self.below, name)


class NoDirectorySync(Through):
    """Names are never made durable."""

    def sync_directory(self, path):
        """Do nothing."""


class RenameFirst(Through):
    """A new file gets its name before its content is durable."""

    owed = None

    def fsync(self, fd):
        """Put it off."""
        self.owed = fd

    def rename(self, source, target):
        """Rename, then do what was put off, if that is possible still."""
        self.below.rename(source, target)
        with contextlib.suppress(OSError):
            self.below.fsync(self.owed)


def with_disk(owner, kind):
    """An __init__ that gives its object another filesystem."""
    before = owner.__dict__["__init__"]

    def init(self, filesystem, *args, **options):
        before(self, kind(filesystem), *args, **options)

    return owner, "__init__", init
