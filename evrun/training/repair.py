"""A candidate that does not pass is put right, file by file, from the template's root or its parent."""

from typing import NamedTuple

from .blobs import Content, Files
from .template import Template


class Repair(NamedTuple):
    """A file that was put back: `restored_from` is "root" or "parent"; removed where that one has it not."""

    path: str
    restored_from: str
    reason: str


def repair(
    template: Template, root: Files, parent: Files, candidate: Files
) -> tuple[dict[str, Content], list[Repair]]:
    """A candidate that passes, made of one that does not, and what was put back; at worst the parent."""
    raise NotImplementedError
