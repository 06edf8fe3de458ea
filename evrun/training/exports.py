"""What an adapter gives to a host: its text, skills, helpers and tools; and what is wrong with them."""

import ast
from typing import Any, Final, NamedTuple

from .blobs import Content, Files
from .manifest import CONTEXT, Exports, ToolExport, front_matter, without_front_matter

SKILL: Final = "SKILL.md"
NEEDED: Final = ("name", "description")


class Fault(NamedTuple):
    """Something that cannot be given to a host: a file or directory of the adapter, and what is wrong."""

    path: str
    problem: str


class Skill(NamedTuple):
    """A directory of instructions that a host reads when it needs them; `files` are relative to it."""

    name: str
    description: str
    files: dict[str, Content]


class Role(NamedTuple):
    """A helper of the host: a Markdown file that begins with its name and description."""

    name: str
    description: str
    content: Content

    @property
    def body(self) -> str:
        """What it is told: the file without its front matter."""
        return without_front_matter(self.content.data)


class Exported(NamedTuple):
    """All that an adapter gives."""

    context: bytes
    skills: list[Skill]
    roles: list[Role]
    tools: list[ToolExport]


def export(exports: Exports, files: Files) -> tuple[Exported, list[Fault]]:
    """What these files give to a host by the manifest's `exports`, and what is wrong with the rest."""
    faults: list[Fault] = []
    context = files.get(CONTEXT, Content(b"")).data
    if not _is_text(context):
        faults.append(Fault(CONTEXT, "is no UTF-8 text"))
    skills = _skills(_below(files, exports.skills), exports.skills or "", faults)
    roles = _roles(_below(files, exports.agents), exports.agents or "", faults)
    tools = [tool for tool in exports.tools if _tool_is_there(tool, files, faults)]
    return Exported(context, skills, roles, tools), faults


def _below(files: Files, directory: str | None) -> dict[str, Content]:
    if not directory:
        return {}
    prefix = directory.rstrip("/") + "/"
    return {path[len(prefix) :]: content for path, content in files.items() if path.startswith(prefix)}


def _skills(files: Files, directory: str, faults: list[Fault]) -> list[Skill]:
    names = sorted({path.partition("/")[0] for path in files if "/" in path})
    found = []
    for name in names:
        own = _below(files, name)
        head = _head(own.get(SKILL), f"{directory.rstrip('/')}/{name}", SKILL, faults)
        if head is not None:
            found.append(Skill(str(head["name"]), str(head["description"]), own))
    return _without_doubles(found, directory, faults)


def _roles(files: Files, directory: str, faults: list[Fault]) -> list[Role]:
    found = []
    for path, content in sorted(files.items()):
        if path.endswith(".md"):
            head = _head(content, f"{directory.rstrip('/')}/{path}", "", faults)
            if head is not None:
                found.append(Role(str(head["name"]), str(head["description"]), content))
    return _without_doubles(found, directory, faults)


def _head(content: Content | None, path: str, name: str, faults: list[Fault]) -> dict[str, Any] | None:
    """The front matter of a file that needs a name and a description there."""
    if content is None:
        faults.append(Fault(path, f"has no {name}"))
        return None
    where = f"{path}/{name}" if name else path
    head = front_matter(content.data)
    missing = list(NEEDED) if head is None else [key for key in NEEDED if not head.get(key)]
    if head is None or missing:
        faults.append(Fault(where, f"does not begin with front matter that has {' and '.join(missing)}"))
        return None
    if not _is_file_name(str(head["name"])):
        faults.append(Fault(where, f"its name {str(head['name'])!r:.80} is no name for a file"))
        return None
    return head


def _without_doubles(found: list[Any], directory: str, faults: list[Fault]) -> list[Any]:
    kept: dict[str, Any] = {}
    for one in found:
        if one.name in kept:
            faults.append(Fault(directory.rstrip("/"), f"two in it are called {one.name!r}"))
        kept.setdefault(one.name, one)
    return list(kept.values())


def _tool_is_there(tool: ToolExport, files: Files, faults: list[Fault]) -> bool:
    """Whether the file of a tool defines its function; nothing is run."""
    path, _, function = tool.entrypoint.rpartition(":")
    if path not in files:
        faults.append(Fault(path, f"is not there; the tool {tool.name!r} is to be found in it"))
        return False
    try:
        body = ast.parse(files[path].data).body
    except (SyntaxError, ValueError, RecursionError) as error:
        faults.append(Fault(path, f"is no Python: {error}"))
        return False
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    if function not in defined:
        faults.append(Fault(path, f"defines no function {function!r} for the tool {tool.name!r}"))
        return False
    return True


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _is_file_name(name: str) -> bool:
    return name not in {".", ".."} and name.isprintable() and not set(name) & set("/\\:")
