"""adapter.yaml: what a template is, what its adapters give to a host, and which of their files may change."""

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from .globs import is_pattern

MANIFEST: Final = "adapter.yaml"
CONTEXT: Final = "ADAPTER.md"
CARD: Final = "CARD.md"
FRAMEWORK_FILES: Final = frozenset({MANIFEST, CARD})
"""Files that are evrun's: neither learnable nor fixed."""

FIXED_SECTIONS: Final = ("template", "exports", "structure", "check", "evolver_tools")
"""What every adapter of a template has as its root has it."""
SECTIONS: Final = (*FIXED_SECTIONS, "origin", "serve")
LARGEST_MANIFEST: Final = 256 * 1024
_DEEPEST: Final = 50
_LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class ManifestFault(Exception):
    """adapter.yaml is not what it has to be; says where in it."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the manifest."""


class Identity(_Part, frozen=True, kw_only=True):
    """Which template this is: `id` names its tree of versions."""

    id: str
    version: str | int | float
    contract: str | int | float | None = None
    name: str | None = None


class ToolExport(_Part, frozen=True, kw_only=True):
    """A tool that an adapter gives to its host: `entrypoint` is ``FILE.py:FUNCTION``."""

    name: str
    entrypoint: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class Exports(_Part, frozen=True, kw_only=True):
    """What a host gets of an adapter. `skills` and `agents` are directories in it."""

    context: str = CONTEXT
    tools: list[ToolExport] = []
    agents: str | None = None
    skills: str | None = None
    reactions: Any = None
    concurrent_tool_calls: Any = None


class Format(_Part, frozen=True, kw_only=True):
    """What learnable files look like: `max_bytes` each, `max_files` of them, UTF-8, keys at their head."""

    max_bytes: int | None = None
    max_files: int | None = None
    text: bool = False
    frontmatter: list[str] = []


class Learnable(_Part, frozen=True, kw_only=True):
    """Files that a learner may change, and their format."""

    path: str
    format: Format = Format()


class Structure(_Part, frozen=True, kw_only=True):
    """Which files there are: those that may change and those that must not."""

    learnable: list[str | Learnable]
    fixed: list[str] = []


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """adapter.yaml. `check` is ``FILE.py:FUNCTION``, run on every candidate; `origin` is written by evrun."""

    template: Identity
    exports: Exports = Exports()
    structure: Structure
    check: str | None = None
    evolver_tools: Any = None
    origin: dict[str, Any] | None = None
    serve: Any = None

    @property
    def id(self) -> str:
        """The template's id."""
        return self.template.id

    @property
    def version(self) -> str:
        """The template's version, as text."""
        return str(self.template.version)

    @property
    def learnable(self) -> list[Learnable]:
        """What may change, each with its format."""
        return [Learnable(path=one) if isinstance(one, str) else one for one in self.structure.learnable]


@lru_cache(maxsize=64)
def sections_of(data: bytes) -> dict[str, Any]:
    """The sections of a manifest as they stand there.

    Raises:
        ManifestFault: it is no YAML mapping of known sections.
    """
    if len(data) > LARGEST_MANIFEST:
        raise ManifestFault(f"has {len(data)} bytes; expected at most {LARGEST_MANIFEST}")
    try:
        found = _loaded(data.decode())
    except UnicodeDecodeError as error:
        raise ManifestFault(f"is no UTF-8 text: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestFault(f"is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ManifestFault("expected a mapping of sections")
    for name in found:
        if name not in SECTIONS:
            near = difflib.get_close_matches(str(name), SECTIONS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; expected {', '.join(SECTIONS)}"
            raise ManifestFault(f"{name}: an unknown section{hint}")
    return found


@lru_cache(maxsize=64)
def parse_manifest(data: bytes) -> Manifest:
    """A manifest whose sections are what they have to be.

    Raises:
        ManifestFault: they are not; says which.
    """
    try:
        manifest = msgspec.convert(sections_of(data), Manifest)
    except msgspec.ValidationError as error:
        raise ManifestFault(str(error)) from error
    _check(manifest)
    return manifest


def with_origin(manifest: bytes, origin: Mapping[str, str]) -> bytes:
    """The manifest with another `origin` section, at its end; all else, comments too, stays as it is.

    A manifest whose text cannot be changed so (its top is written in one line) is written anew.
    """
    kept = _without_section(manifest.decode().splitlines(), "origin")
    text = "\n".join(kept).rstrip("\n") + "\n" + _dumped({"origin": dict(origin)})
    wanted = {**sections_of(manifest), "origin": dict(origin)}
    try:
        same = sections_of(text.encode()) == wanted
    except ManifestFault:
        same = False
    return (text if same else _dumped(wanted)).encode()


def front_matter(data: bytes) -> dict[str, Any] | None:
    """The YAML mapping between the two lines ``---`` that a Markdown file begins with; null without one."""
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        return None
    if not lines or lines[0].rstrip() != "---":
        return None
    ends = [place for place, line in enumerate(lines[1:], 1) if line.rstrip() == "---"]
    if not ends:
        return None
    try:
        found = _loaded("\n".join(lines[1 : ends[0]]))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def without_front_matter(data: bytes) -> str:
    """The text of a Markdown file that follows its front matter; all of it where it has none."""
    text = data.decode("utf-8-sig", "replace")
    if front_matter(data) is None:
        return text
    lines = text.splitlines(keepends=True)
    end = next(place for place, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    return "".join(lines[end + 1 :]).lstrip("\n")


def _loaded(text: str) -> Any:
    """Plain values; no aliases, with which a small text could stand for a huge one, and no abyss.

    Raises:
        yaml.YAMLError: it is no YAML, or more than that.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
            what = "aliases (*name) are" if depth <= _DEEPEST else "nesting so deep is"
            raise yaml.YAMLError(f"{what} not taken")
    return yaml.load(text, _LOADER)  # noqa: S506 (a safe loader)


def _check(manifest: Manifest) -> None:
    if not manifest.id or not manifest.id.replace("-", "a").replace("_", "a").isalnum():
        raise ManifestFault(f"template.id: expected letters, digits, - and _, found {manifest.id!r}")
    if manifest.exports.context != CONTEXT:
        raise ManifestFault(f"exports.context: expected {CONTEXT}, found {manifest.exports.context!r}")
    for name, patterns in (
        ("learnable", [one.path for one in manifest.learnable]),
        ("fixed", manifest.structure.fixed),
    ):
        for pattern in patterns:
            if not is_pattern(pattern):
                raise ManifestFault(f"structure.{name}: {pattern!r} is no relative path or pattern")
    for entry in [
        *([manifest.check] if manifest.check else []),
        *(t.entrypoint for t in manifest.exports.tools),
    ]:
        path, _, function = entry.rpartition(":")
        if not path.endswith(".py") or not is_pattern(path) or not function.isidentifier():
            raise ManifestFault(f"{entry!r}: expected FILE.py:FUNCTION, a file of the template")


def _without_section(lines: list[str], name: str) -> list[str]:
    """The lines without a top-level section: from its key to the next line that begins at the margin."""
    kept, inside = [], False
    for line in lines:
        at_margin = bool(line) and not line[0].isspace() and line[0] not in "#-]}"
        if at_margin:
            inside = line.startswith(f"{name}:")
        if not inside:
            kept.append(line)
    return kept


def _dumped(value: Any) -> str:
    text: str = yaml.safe_dump(
        value, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100
    )
    return text
