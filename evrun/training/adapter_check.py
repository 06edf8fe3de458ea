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
from projections import fits_git

from .adapter_code import load_files, run_check
from .blobs import Files
from .exports import Fault, export
from .globs import covered, covers
from .manifest import (
    CONTEXT,
    FIXED_SECTIONS,
    FRAMEWORK_FILES,
    MANIFEST,
    Learnable,
    ManifestFault,
    front_matter,
    sections_of,
)
from .template import Template

FIXED, OUTSIDE, IDENTITY, FORMAT, EXPORTS, OWN = range(1, 7)


def check_candidate(template: Template, root: Files, parent: Files, candidate: Files) -> list[Issue]:
    """What is wrong with a candidate, sorted; nothing where it passes.

    Checks 5 and 6 are made of one that passes the others. They may run the template's code in a process with
    a deadline (`runs_code`): this may take a while then, and is to be called in a thread.
    """
    found = [
        *_issues(FIXED, _fixed(template, root, candidate)),
        *_issues(OUTSIDE, _outside(template, candidate)),
        *_issues(IDENTITY, _identity(template, root, candidate)),
        *_issues(FORMAT, _formats(template, candidate)),
    ]
    found = found or _issues(EXPORTS, _exports(template, candidate))
    if not found and template.check:
        found = _issues(OWN, run_check(template.check, root, parent, candidate))
    return sorted(set(found), key=lambda issue: (issue.check, issue.path, issue.problem))


def runs_code(template: Template) -> bool:
    """Whether a check of this template starts a process."""
    return bool(template.check or template.manifest.exports.tools)


def _issues(check: int, faults: list[Fault]) -> list[Issue]:
    return [Issue(path, check, problem) for path, problem in faults]


def _fixed(template: Template, root: Files, candidate: Files) -> list[Fault]:
    faults = []
    for path in root.keys() | candidate.keys():
        if path in FRAMEWORK_FILES or not covered(template.fixed, path):
            continue
        if path not in candidate:
            faults.append(Fault(path, "is fixed, and was removed"))
        elif path not in root:
            faults.append(Fault(path, "lies where all is fixed, and was added"))
        elif candidate[path] != root[path]:
            faults.append(Fault(path, "is fixed, and was changed"))
    return faults


def _outside(template: Template, candidate: Files) -> list[Fault]:
    allowed = [*(one.path for one in template.learnable), *template.fixed]
    return [
        Fault(path, "is neither learnable nor fixed" if fits_git(path) else "has a name that git cannot keep")
        for path in candidate
        if not (path in FRAMEWORK_FILES or covered(allowed, path)) or not fits_git(path)
    ]


def _identity(template: Template, root: Files, candidate: Files) -> list[Fault]:
    faults = [] if CONTEXT in candidate else [Fault(CONTEXT, "is not there")]
    manifest = candidate.get(MANIFEST)
    if manifest is None:
        return [*faults, Fault(MANIFEST, "is not there")]
    wanted = sections_of(template.files[MANIFEST].data if MANIFEST not in root else root[MANIFEST].data)
    try:
        found = sections_of(manifest.data)
    except ManifestFault as fault:
        return [*faults, Fault(MANIFEST, str(fault))]
    changed = [name for name in FIXED_SECTIONS if found.get(name) != wanted.get(name)]
    return faults + [Fault(MANIFEST, f"its section {name} is not the template's") for name in changed]


def _formats(template: Template, candidate: Files) -> list[Fault]:
    return [fault for one in template.learnable for fault in _format(one, candidate)]


def _format(learnable: Learnable, candidate: Files) -> list[Fault]:
    wanted = learnable.format
    own = {path: content.data for path, content in candidate.items() if covers(learnable.path, path)}
    faults = []
    if wanted.max_files is not None and len(own) > wanted.max_files:
        faults.append(Fault(learnable.path, f"has {len(own)} files; expected at most {wanted.max_files}"))
    for path, data in own.items():
        if wanted.max_bytes is not None and len(data) > wanted.max_bytes:
            faults.append(Fault(path, f"has {len(data)} bytes; expected at most {wanted.max_bytes}"))
        if wanted.text and not _is_text(data):
            faults.append(Fault(path, "is no UTF-8 text"))
        head = front_matter(data) if wanted.frontmatter else {}
        missing = [key for key in wanted.frontmatter if key not in (head or {})]
        if missing:
            faults.append(Fault(path, f"does not begin with front matter that has {', '.join(missing)}"))
    return faults


def _exports(template: Template, candidate: Files) -> list[Fault]:
    exported, faults = export(template.manifest.exports, candidate)
    if faults or not exported.tools:
        return faults
    return load_files(candidate, sorted({tool.entrypoint.rpartition(":")[0] for tool in exported.tools}))


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False
