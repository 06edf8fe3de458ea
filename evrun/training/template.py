"""Templates: the kind of adapter that a run trains; built in, or a directory with adapter.yaml."""

import difflib
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageFault
from .blobs import Content, Files, Refused, read_files
from .builtin_templates import BUILT_IN
from .manifest import MANIFEST, Learnable, Manifest, ManifestFault, parse_manifest

_LEFT_OUT = frozenset({".git", "__pycache__"})


class Template(NamedTuple):
    """A template whole: `files` are those of its root, `manifest` its adapter.yaml.

    `check` is ``FILE.py:FUNCTION``, empty where it has no check of its own.
    """

    id: str
    version: str
    files: dict[str, Content]
    manifest: Manifest
    learnable: list[Learnable]
    fixed: list[str]
    check: str

    @property
    def name(self) -> str:
        """``id@version``."""
        return f"{self.id}@{self.version}"


def load_template(name: str) -> Template:
    """A built-in template, by ``id`` or ``id@version``, or the one in a directory.

    Raises:
        UsageFault: there is none, or its adapter.yaml is wrong.
    """
    built_in = _built_in(name)
    if built_in is not None:
        return template_of({path: Content(text.encode()) for path, text in built_in.items()}, name)
    directory = Path(name).expanduser()
    if not directory.is_dir():
        raise UsageFault(f"template {name}: neither built in nor a directory", _near(name))
    return template_of(adapter_files(directory, f"template {name}"), str(directory))


def template_of(files: Files, where: str) -> Template:
    """The template that these files are; `where` is said in errors.

    Raises:
        UsageFault: its adapter.yaml is not there, or wrong.
    """
    content = files.get(MANIFEST)
    if content is None:
        raise UsageFault(f"template {where}: there is no {MANIFEST}", "docs/adapters.md shows one")
    try:
        manifest = parse_manifest(content.data)
    except ManifestFault as fault:
        raise UsageFault(f"template {where}: {MANIFEST}: {fault}", "docs/adapters.md has its keys") from fault
    return Template(
        manifest.id,
        manifest.version,
        dict(sorted(files.items())),
        manifest,
        manifest.learnable,
        manifest.structure.fixed,
        manifest.check or "",
    )


def adapter_files(directory: Path, where: str) -> dict[str, Content]:
    """The files of an adapter's directory, without ``.git`` and ``__pycache__``.

    Raises:
        UsageFault: it holds what cannot be kept; says what.
    """
    try:
        found = read_files(directory)
    except Refused as refused:
        raise UsageFault(f"{where}: {refused}", "an adapter is made of plain files") from refused
    except OSError as error:
        raise UsageFault(f"{where}: {error.filename}: {error.strerror}") from error
    return {path: content for path, content in found.items() if _LEFT_OUT.isdisjoint(path.split("/"))}


def _built_in(name: str) -> dict[str, str] | None:
    identity, _, version = name.partition("@")
    found = [files for (known, one), files in BUILT_IN.items() if known == identity and version in {"", one}]
    return found[-1] if found else None


def _near(name: str) -> str:
    names = [f"{identity}@{version}" for identity, version in BUILT_IN]
    near = difflib.get_close_matches(name, names, n=1)
    return (
        f"did you mean {near[0]}?"
        if near
        else f"built in: {', '.join(names)}; or a directory with {MANIFEST}"
    )
