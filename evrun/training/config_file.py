"""run.yaml and what was typed behind it, as a checked configuration."""

import re
from pathlib import Path
from typing import Any

import msgspec

from ..batch.agent_setting import COMMAND
from ..errors import UsageFault
from .backends_file import borrow_backends
from .builtin_templates import BUILT_IN
from .config import CHAT, TrainingConfig
from .config_checks import LEARNERS, check_config
from .config_elsewhere import check_names, drop_foreign, evolver_of_directory
from .config_paths import MANIFEST, Paths
from .config_record import OPERATIONAL, changes_between, config_from_record, config_record, shaping_changes
from .config_values import checked_values
from .overrides import Tree
from .yaml_text import read_yaml

__all__ = [
    "OPERATIONAL",
    "changes_between",
    "config_from_record",
    "config_record",
    "load_config",
    "parse_config",
    "shaping_changes",
]

RUBRIC_FILE = "rubric_file"
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 80


def load_config(path: Path, overrides: list[str]) -> TrainingConfig:
    """The configuration: defaults, then the file, then overrides ``key.sub=value``.

    Raises:
        UsageFault: the file cannot be read; a key or value is wrong; what Hermit does and evrun does not.
    """
    where = f"--config {path}"
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageFault(f"{where}: not UTF-8 text at byte {error.start}") from error
    except OSError as error:
        raise UsageFault(f"{where}: {error.strerror or error}", "give the path of a run.yaml") from error
    return parse_config(text, where, path.absolute().parent, overrides)


def parse_config(text: str, where: str, directory: Path, overrides: list[str]) -> TrainingConfig:
    """The same of a text; `where` is said in errors, `directory` is where relative paths begin.

    Raises:
        UsageFault: as `load_config`.
    """
    tree = Tree(read_yaml(text, where), where)
    for override in overrides:
        tree.override(override)
    drop_foreign(tree.values)
    _fill(tree.values)
    values = checked_values(tree.values, tree.words)
    _resolve(values, Paths(directory))
    borrow_backends(values)
    config = msgspec.convert(values, TrainingConfig)
    check_config(config)
    return config


def _fill(values: dict[Any, Any]) -> None:
    """What is made of other keys where it is not given; it is made when those are known."""
    trainer = values.get("trainer")
    if trainer is None:
        trainer = values["trainer"] = {}
    if isinstance(trainer, dict):
        for key, default in (("output_dir", "runs"), ("run_name", ""), ("tree_dir", "")):
            if trainer.get(key) is None:
                trainer[key] = default
    judge = values.get("judge") or {}
    if isinstance(judge, dict) and judge.get("name") is None and judge.get("path") is None:
        raise UsageFault(
            "judge: expected a path, or the name of a built-in judge", "for example 'judge: {path: judge.py}'"
        )


def _resolve(values: dict[str, Any], paths: Paths) -> None:
    """Make paths absolute, and fill in what rests on them."""
    data, trainer, judge = values["data"], values["trainer"], values["judge"]
    for key in ("tasks", "train", "val", "test"):
        if data.get(key) is not None:
            data[key] = paths.plain(f"data.{key}", data[key])
    for section, prefix, key in ((values, "", "task_info"), (judge, "judge.", "path")):
        if section.get(key) is not None:
            section[key] = paths.plain(f"{prefix}{key}", section[key])
    agent, evolver = values.get("agent", {}), values["evolver"]
    _resolve_params(agent, judge, paths)
    check_names(agent.get("name", CHAT), evolver["name"], values["template"])
    for key, part in (("agent.name", agent), ("evolver.name", evolver)):
        if "name" in part:
            part["name"] = paths.code(key, part["name"])
    _take_directory(evolver, paths, has_val=data.get("val") is not None)
    values["template"] = _template(values["template"], paths)
    if values.get("start_from") is not None:
        values["start_from"] = paths.directory_or_name("start_from", values["start_from"])
    trainer["output_dir"] = paths.plain("trainer.output_dir", trainer["output_dir"])
    template = template_id(values["template"])
    trainer["run_name"] = trainer["run_name"] or _run_name(evolver["name"], template)
    tree = trainer["tree_dir"] or str(Path(trainer["output_dir"], "trees", template))
    trainer["tree_dir"] = paths.plain("trainer.tree_dir", tree)


def _template(name: str, paths: Paths) -> str:
    """A built-in template as it is, the path of any other."""
    if name.partition("@")[0] in {identity for identity, _ in BUILT_IN}:
        return name
    return (paths.plain if "/" in name else paths.directory_or_name)("template", name)


def _resolve_params(agent: dict[str, Any], judge: dict[str, Any], paths: Paths) -> None:
    """Files that parameters of built-in parts name."""
    params = judge.get("params", {})
    if judge.get("path") is None and isinstance(params.get(RUBRIC_FILE), str):
        params[RUBRIC_FILE] = paths.plain(f"judge.params.{RUBRIC_FILE}", params[RUBRIC_FILE])
    tools = agent.get("params", {}).get("tools")
    if agent.get("name", CHAT) == CHAT and isinstance(tools, list):
        key = "agent.params.tools"
        agent["params"]["tools"] = [paths.plain(key, one) if isinstance(one, str) else one for one in tools]


def _take_directory(evolver: dict[str, Any], paths: Paths, *, has_val: bool) -> None:
    """A learner that is a directory with ``evolver.yaml``, or such a file."""
    name = evolver["name"]
    if name.startswith(COMMAND) or name in LEARNERS or ":" in name:
        return
    path = Path(paths.plain("evolver.name", name))
    if path.suffix == ".py":
        raise UsageFault(f"evolver.name: found {name!r}", f"name its class too: {name}:CLASS")
    evolver["name"], evolver["params"] = evolver_of_directory(
        path, evolver.get("params", {}), has_val=has_val
    )


def template_id(template: str) -> str:
    """The id of a template: a built-in's name, or what the directory's ``adapter.yaml`` says.

    Raises:
        UsageFault: there is no such directory, or it says none.
    """
    if not template.startswith("/"):
        return template.partition("@")[0]
    file = Path(template, MANIFEST)
    try:
        manifest = read_yaml(file.read_text("utf-8"), f"template: {file}").value
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UsageFault(
            f"template: {file}: {reason}", "expected prompt-only, or a directory with adapter.yaml"
        ) from error
    section = manifest.get("template") if isinstance(manifest, dict) else None
    name = section.get("id") if isinstance(section, dict) else None
    if not isinstance(name, str) or not name or _NO_NAME.search(name) or name.startswith("."):
        raise UsageFault(
            f"template: {file}: template.id is {name!r}", "expected letters, digits, '-', '_', '.'"
        )
    return name


def _run_name(evolver: str, template: str) -> str:
    name = "command" if evolver.startswith(COMMAND) else evolver.rpartition(":")[2]
    return _NO_NAME.sub("-", f"{name}-{template}")[:_LONGEST_NAME]
