"""A host's workspace made of an adapter: its text, skills and helpers, where the host looks for them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from eventlog.storage import replace_file
from projections import fits_git

from ..errors import RunFailed, UsageFault
from .blobs import Content, Files, write_files
from .exports import Exported, Role, export
from .manifest import Manifest
from .template import adapter_files, template_of

MARKER: Final = ".evrun-deploy.json"
_SHOWN = 3


class _Host(NamedTuple):
    """Where a host looks: its text, its skills, its helpers, and how one of these is written."""

    context: str
    skills: str
    roles: str
    suffix: str
    role: Callable[[Role], bytes]


def _markdown(role: Role) -> bytes:
    return role.content.data


def _toml(role: Role) -> bytes:
    values = {"name": role.name, "description": role.description, "developer_instructions": role.body}
    return "".join(f"{key} = {_toml_text(value)}\n" for key, value in values.items()).encode()


def _toml_text(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return escaped.encode("utf-8", "replace").decode()


_HOSTS: Final[dict[str, _Host]] = {
    "codex": _Host("AGENTS.md", ".agents/skills", ".codex/agents", ".toml", _toml),
    "claude-code": _Host("CLAUDE.md", ".claude/skills", ".claude/agents", ".md", _markdown),
}
HOSTS: Final = tuple(_HOSTS)
"""The hosts that a workspace can be made for."""


def deploy(adapter: Path, workspace: Path, host: str, *, allow_lossy: bool = False) -> dict[str, Any]:
    """Make or renew a host's workspace of an adapter; a report of what is there now.

    A workspace that was made so before gets the new files; those of the earlier adapter go. All others in it
    stay, and are never written over.

    Raises:
        UsageFault: the adapter cannot be given to this host, or the directory was not made by evrun, or what
            was made was changed since; nothing was written.
        RunFailed: the disk refuses.
    """
    place = _HOSTS.get(host)
    if place is None:
        raise UsageFault(f"--host {host}: expected one of {', '.join(HOSTS)}")
    if not adapter.is_dir():
        raise UsageFault(f"--adapter {adapter}: no such directory", "a run's adapter is in its checkout/")
    template = template_of(adapter_files(adapter, f"--adapter {adapter}"), str(adapter))
    exported, faults = export(template.manifest.exports, template.files)
    if faults:
        shown = "; ".join(f"{path}: {problem}" for path, problem in faults[:_SHOWN])
        raise UsageFault(f"--adapter {adapter}: {shown}", "evrun check says what an adapter has to be")
    omitted = _omitted(template.manifest, exported)
    if omitted and not allow_lossy:
        raise UsageFault(
            f"--adapter {adapter}: {', '.join(omitted)} cannot be given to {host} by evrun",
            "--allow-lossy leaves them out, and the report names them",
        )
    files = _rendered(place, exported)
    _write(workspace, files, {"host": host, "adapter_id": template.id, "version": template.version})
    return {
        "host": host,
        "adapter_id": template.id,
        "version": template.version,
        "origin": template.manifest.origin,
        "adapter": str(adapter.resolve()),
        "workspace": str(workspace.resolve()),
        "context_injected_via": place.context,
        "server_name": None,
        "server": None,
        "roles": [role.name for role in exported.roles],
        "role_name_map": {role.name: _role_path(place, role) for role in exported.roles},
        "skills_dir": place.skills if exported.skills else None,
        "skills": [skill.name for skill in exported.skills],
        "audit_log": None,
        "omitted": omitted,
        "files": sorted(files),
    }


def _omitted(manifest: Manifest, exported: Exported) -> list[str]:
    """What no host is given by evrun."""
    tools = [f"the tool {tool.name}" for tool in exported.tools]
    return tools + (["reactions"] if manifest.exports.reactions else [])


def _rendered(place: _Host, exported: Exported) -> dict[str, Content]:
    files = {place.context: Content(exported.context)}
    for skill in exported.skills:
        files |= {f"{place.skills}/{skill.name}/{path}": one for path, one in skill.files.items()}
    for role in exported.roles:
        files[_role_path(place, role)] = Content(place.role(role))
    return files


def _role_path(place: _Host, role: Role) -> str:
    return f"{place.roles}/{role.name}{place.suffix}"


def _write(workspace: Path, files: Files, about: dict[str, str]) -> None:
    """Put the files there; the marker goes first, so that a kill leaves a workspace that can be renewed."""
    made = _made_before(workspace)
    digests = {path: [_digest(one.data)] for path, one in files.items()}
    _refuse_strangers(workspace, digests, made)
    try:
        both = {
            path: sorted({*made.get(path, []), *digests.get(path, [])})
            for path in made.keys() | digests.keys()
        }
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        _mark(workspace, about, both)
        write_files(workspace, files)
        for path in made.keys() - files.keys():
            (workspace / path).unlink(missing_ok=True)
            _prune(workspace, (workspace / path).parent)
        _mark(workspace, about, digests)
    except OSError as error:
        raise RunFailed(
            f"--workspace {workspace}: {error.filename}: {error.strerror}", "then deploy again"
        ) from error


def _made_before(workspace: Path) -> dict[str, list[str]]:
    """What evrun made there, by digest; nothing where the directory is empty or not there.

    Raises:
        UsageFault: it is somebody's.
    """
    hint = "give a directory that is empty, not there yet, or made by evrun deploy"
    if workspace.exists() and not workspace.is_dir():
        raise UsageFault(f"--workspace {workspace} is no directory", hint)
    if not workspace.is_dir() or not any(workspace.iterdir()):
        return {}
    try:
        found = json.loads((workspace / MARKER).read_bytes())["files"]
        if not all(fits_git(path) for path in found):
            raise ValueError("a path that leads out of the workspace")  # noqa: TRY301 (told as the others)
        return {str(path): [str(one) for one in digests] for path, digests in found.items()}
    except FileNotFoundError:
        raise UsageFault(f"--workspace {workspace}: not empty, and not made by evrun deploy", hint) from None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UsageFault(f"--workspace {workspace}: {MARKER} cannot be read", hint) from error


def _refuse_strangers(workspace: Path, digests: dict[str, list[str]], made: dict[str, list[str]]) -> None:
    """See that nothing is lost: no file that is another's, or was changed, is written over or removed.

    Raises:
        UsageFault: one would be; all of them are named.
    """
    known = {path: [*made.get(path, []), *digests.get(path, [])] for path in made.keys() | digests.keys()}
    lost = sorted(path for path, ours in known.items() if _is_strange(workspace, path, ours))
    if lost:
        more = " and others" if len(lost) > _SHOWN else ""
        raise UsageFault(
            f"--workspace {workspace}: {', '.join(lost[:_SHOWN])}{more}: not as evrun deploy made it",
            "move what you want to keep out of the way, then deploy again",
        )


def _is_strange(workspace: Path, path: str, ours: list[str]) -> bool:
    """Whether something stands at a path, or in its way, that is not one of these contents of ours."""
    target = workspace / path
    for above in [workspace / part for part in Path(path).parents if part.name]:
        if above.is_symlink() or (above.exists() and not above.is_dir()):
            return True
    if target.is_symlink() or target.is_dir():
        return True
    return target.exists() and _digest(target.read_bytes()) not in ours


def _mark(workspace: Path, about: dict[str, str], files: dict[str, list[str]]) -> None:
    text = json.dumps({**about, "files": dict(sorted(files.items()))}, indent=1)
    replace_file(workspace / MARKER, [text.encode(), b"\n"])


def _prune(workspace: Path, directory: Path) -> None:
    """Remove directories that are empty now."""
    while directory != workspace and directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
