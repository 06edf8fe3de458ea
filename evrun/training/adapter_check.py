"""What a candidate has to be, before it is anybody's adapter (docs/adapters.md).

====  ==========================================================================
1     fixed files are as in the template
2     every other file is learnable
3     adapter.yaml can be read, and is the template's but for `origin`; ADAPTER.md is there
4     learnable files have their format
5     what it exports can be given to a host
6     the template's own check
====  ==========================================================================
"""

from eventlog.events import Issue

from .blobs import Files
from .template import Template


def check_candidate(template: Template, root: Files, parent: Files, candidate: Files) -> list[Issue]:
    """What is wrong with a candidate, sorted; nothing where it passes.

    Checks 5 and 6 are made of one that passes the others: the last may run the template's code in a process
    with a deadline, so this may take a while, and is to be called in a thread then (`runs_code`).
    """
    raise NotImplementedError


def runs_code(template: Template) -> bool:
    """Whether a check of this template starts a process."""
    return bool(template.check or template.manifest.exports.tools)
