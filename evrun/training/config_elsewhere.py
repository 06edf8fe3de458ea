"""What Hermit's run.yaml can say and evrun does not have: taken along if it is so anyway, else refused."""

from pathlib import Path
from typing import Any

from ..errors import UsageFault
from .yaml_text import read_yaml

_SANDBOX_HARMLESS: dict[str, tuple[Any, ...]] = {
    "enabled": (False,),
    "enforce": ("best_effort",),
    "network": ("open",),
    "allow": ([], None),
    "read": ([], None),
    "packages": ([], None),
    "env": (None,),
    "audit": (None,),
    "profiles": ({}, None),
}
_KEPT_PROMISES = frozenset({"env", "audit"})
"""What a sandbox does also where it confines nothing."""
_ACCESS_HARMLESS: dict[str, tuple[Any, ...]] = {
    "environment": ([], None),
    "tools": ([], None),
    "send_material_out": (True, None),
}
_ACCESS_INSTEAD = {
    "environment": "name the paths in evolver.params, where the learner's code finds them",
    "tools": "import what the learner needs in its own code",
    "send_material_out": "evrun cannot keep a learner from the network: write true, or leave it out",
}
_CONFINE = (
    "evrun confines nobody: write 'sandbox: {enabled: false}' and run evrun itself in a container, "
    "or as a user of its own"
)
_AGENTS = {
    "react": "use the built-in agent chat (with agent.params.toolsets for its tools)",
    "codex": "give command:CMD, for example 'command:codex exec …' with EVRUN_TASK and EVRUN_ADAPTER",
    "claude-code": "give command:CMD, for example 'command:claude -p …' with EVRUN_TASK and EVRUN_ADAPTER",
}
_EVOLVERS = ("codex", "claude", "skillopt", "mwm", "harness2_upstream", "continual_harness")
_TEMPLATES = ("mwm", "continual-harness", "harness2-codex", "lean-collab")
_NEEDS = frozenset({"validation_data", "environment", "send_material_out"})
_MANIFEST = "evolver.yaml"


def drop_foreign(values: dict[Any, Any]) -> None:
    """Take out the sections that evrun does not have, if what they ask for is done anyway.

    Raises:
        UsageFault: it is not; the key is named, with what to do.
    """
    sandbox = _section(values, "sandbox", _SANDBOX_HARMLESS)
    if sandbox.get("enabled") is not False:
        loose = sandbox.get("enforce") == "best_effort"
        for key, value in sandbox.items():
            if value in _SANDBOX_HARMLESS[key] or (loose and key not in _KEPT_PROMISES):
                continue
            raise UsageFault(f"sandbox.{key}: {value!r} is not what evrun does", _CONFINE)
    for key, value in _section(values, "evolver_access", _ACCESS_HARMLESS).items():
        if value not in _ACCESS_HARMLESS[key]:
            raise UsageFault(f"evolver_access.{key}: {value!r} is not what evrun does", _ACCESS_INSTEAD[key])


def check_names(agent: str, evolver: str, template: str) -> None:
    """Refuse built-in parts that evrun does not have.

    Raises:
        UsageFault: with what there is instead.
    """
    if agent in _AGENTS:
        raise UsageFault(f"agent.name: evrun has no agent {agent!r}", _AGENTS[agent])
    if evolver in _EVOLVERS:
        raise UsageFault(
            f"evolver.name: evrun has no learner {evolver!r}",
            "there are reflect and gepa; bring others as FILE.py:CLASS, as a directory with evolver.yaml, "
            "or as command:CMD",
        )
    if template.partition("@")[0] in _TEMPLATES:
        raise UsageFault(
            f"template: evrun has no built-in template {template!r}",
            "give the template's directory (with adapter.yaml); built in is prompt-only@1.0",
        )


def evolver_of_directory(path: Path, params: dict[str, Any], *, has_val: bool) -> tuple[str, dict[str, Any]]:
    """The learner that an ``evolver.yaml`` names, and its parameters under those of the config.

    Raises:
        UsageFault: it cannot be read, is something else, or needs what there is not.
    """
    file = path / _MANIFEST if path.is_dir() else path
    try:
        manifest = read_yaml(file.read_text("utf-8"), f"evolver.name: {file}").value
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UsageFault(
            f"evolver.name: {file}: {reason}",
            "expected FILE.py:CLASS, command:CMD, reflect, gepa, or a directory with evolver.yaml",
        ) from error
    known = {"class", "needs", "params", "description"}
    if (
        not isinstance(manifest, dict)
        or not isinstance(manifest.get("class"), str)
        or manifest.keys() - known
    ):
        raise UsageFault(f"evolver.name: {file}: expected a map with class, needs, params, description")
    needs, own = manifest.get("needs") or [], manifest.get("params") or {}
    for need in needs:
        if need not in _NEEDS or need == "environment" or (need == "validation_data" and not has_val):
            missing = "give data.val" if need == "validation_data" else "evrun cannot give that"
            raise UsageFault(f"evolver.name: {file}: the learner needs {need}", missing)
    home, colon, name = manifest["class"].rpartition(":")
    if not colon:
        raise UsageFault(f"evolver.name: {file}: class: expected FILE.py:CLASS, found {manifest['class']!r}")
    place = str((file.parent / home).absolute()) if home.endswith(".py") else home
    return f"{place}:{name}", {**own, **params}


def _section(values: dict[Any, Any], name: str, known: dict[str, Any]) -> dict[Any, Any]:
    section = values.pop(name, None) or {}
    if not isinstance(section, dict):
        raise UsageFault(f"{name}: expected a map, found {section!r}", "leave it out")
    for key in section:
        if key not in known:
            raise UsageFault(f"unknown key {name}.{key}", f"known are {', '.join(known)}; best leave it out")
    return section
