"""Hermit's configuration as one of ours: paths absolute, its own spellings translated, the rest named."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import UsageFault
from ..training.config import TrainingConfig
from ..training.config_checks import check_no_secret

SECTIONS = ("data", "agent", "judge", "evolver", "trainer", "eval")
_PATHS = ("tasks", "train", "val", "test")
_BUILT_IN = "hermit/algorithms/evolvers"
_COMMAND = ":CommandEvolver"


class Places(NamedTuple):
    """Where the new run lives: its name and directories."""

    run_name: str
    output_dir: Path
    tree_dir: Path
    template: Path


class Translated(NamedTuple):
    """The configuration, and what of Hermit's has no equal here."""

    config: TrainingConfig
    notes: list[str]


def run_name_of(recorded: dict[str, Any], directory: Path) -> str:
    """The name that the run has in Hermit: that of its branch, too."""
    return str(recorded.get("branch") or directory.name)


def base_of(recorded: dict[str, Any], directory: Path, given: Path | None) -> Path | None:
    """The directory that Hermit's relative paths rest on, which it does not record; null: not found.

    It is where its tasks are: above the run directory or the tree, or where the learner is.
    """
    if given is not None:
        return given.resolve().parent
    tasks = os.path.expandvars(str(_section(recorded, "data").get("tasks") or ""))
    for place in _bases(recorded, directory.resolve()):
        if (place / Path(tasks).expanduser()).is_file():
            return place
    return None


def translated(recorded: dict[str, Any], base: Path | None, places: Places) -> Translated:
    """The configuration of config.yaml for a run of ours.

    Raises:
        UsageFault: a value is none that can be.
    """
    secret: list[str] = []
    recorded = _without_secrets(recorded, "", secret)
    told = _config(recorded)
    data, agent = _section(recorded, "data"), _section(recorded, "agent")
    evolver, judge, trainer = (_section(recorded, name) for name in ("evolver", "judge", "trainer"))
    rest = base or Path("/")
    wanted: dict[str, Any] = {
        "data": {**_known(data), **{name: _path(rest, data.get(name)) for name in _PATHS}},
        "task_info": _path(rest, told.get("task_info")),
        "agent": {**_known(agent), "name": _code(rest, agent.get("name"))},
        "judge": {"path": _path(rest, judge.get("path")), "name": str(judge.get("name") or "score")},
        "template": str(places.template),
        "start_from": _start(rest, told.get("start_from")),
        "evolver": {
            "name": _evolver(recorded, rest),
            "resume": bool(evolver.get("resume")),
            "params": _section(recorded, "evolver", of=recorded).get("params") or evolver.get("params") or {},
        },
        "model": told.get("model"),
        "backends": told.get("backends") or {},
        "llm": told.get("llm"),
        "trainer": {
            **_known(trainer),
            "run_name": places.run_name,
            "output_dir": str(places.output_dir),
            "tree_dir": str(places.tree_dir),
            "save_freq": trainer.get("save_freq") or {"steps": None, "epochs": None},
        },
        "eval": _known(_section(recorded, "eval")),
    }
    try:
        config = msgspec.convert(wanted, TrainingConfig, strict=False)
    except msgspec.ValidationError as error:
        raise UsageFault(f"config.yaml of Hermit: {error}") from error
    return Translated(config, [*secret, *_notes(recorded, config)])


def as_typed(config: TrainingConfig) -> dict[str, Any]:
    """The keys of run.yaml that say the same, without those that have their default."""
    found = _differing(config)
    found["trainer"] = {**found.get("trainer", {}), "run_name": config.trainer.run_name}
    return found


def _differing(section: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(section):
        value = getattr(section, field.name)
        if field.default is not msgspec.NODEFAULT and value == field.default:
            continue
        if field.default_factory is not msgspec.NODEFAULT and value == field.default_factory():
            continue
        inner = _differing(value) if isinstance(value, msgspec.Struct) else msgspec.to_builtins(value)
        if inner != {}:
            found[field.name] = inner
    return found


def _without_secrets(value: Any, key: str, notes: list[str]) -> Any:
    """The same without what looks like a key to something: the configuration is recorded in the log."""
    if isinstance(value, list):
        return [_without_secrets(one, f"{key}[{number}]", notes) for number, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, one in value.items():
        inner = f"{key}.{name}".removeprefix(".")
        try:
            if not isinstance(one, dict | list):
                check_no_secret(key, {str(name): one})
            found[name] = _without_secrets(one, inner, notes)
        except UsageFault:
            notes.append(f"{inner.removeprefix('config.')} looks like a secret, and is left out")
            found[name] = None
    return found


def _config(recorded: dict[str, Any]) -> dict[str, Any]:
    told = recorded.get("config")
    if not isinstance(told, dict):
        raise UsageFault(
            "config.yaml: expected the key `config`, as Hermit writes it into its run directories",
            hint="give the directory of a run, for example runs/my_first_run",
        )
    return told


def _section(recorded: dict[str, Any], name: str, of: dict[str, Any] | None = None) -> dict[str, Any]:
    found = (_config(recorded) if of is None else of).get(name)
    return found if isinstance(found, dict) else {}


def _known(section: dict[str, Any]) -> dict[str, Any]:
    """What is said in a section; null is the default here too."""
    return {key: value for key, value in section.items() if value is not None}


def _path(base: Path, value: object) -> str | None:
    if value in (None, ""):
        return None
    return os.path.normpath(base / Path(os.path.expandvars(str(value))).expanduser())


def _code(base: Path, value: object) -> str:
    """``FILE.py:NAME`` with its whole path; a module's or a built-in name as it is."""
    text = str(value or "")
    file, _, name = text.rpartition(":")
    return f"{_path(base, file)}:{name}" if file.endswith(".py") else text


def _start(base: Path, value: object) -> str | None:
    path = _path(base, value)
    return None if path is None else path if Path(path).is_dir() else str(value)


def _evolver(recorded: dict[str, Any], base: Path) -> str:
    """The learner, which Hermit has in a directory with a manifest, as its file and class."""
    known = _section(recorded, "evolver", of=recorded)
    directory, code = str(known.get("directory") or ""), str(known.get("class") or "")
    told = _path(base, _section(recorded, "evolver").get("name"))
    if told is not None and Path(told).is_dir():
        directory = told
    command = (known.get("params") or {}).get("command")
    if code.endswith(_COMMAND) and command:
        return f"command:{command if isinstance(command, str) else ' '.join(map(str, command))}"
    if _BUILT_IN in directory or not code:
        return str(known.get("name") or _section(recorded, "evolver").get("name") or "")
    return _code(Path(directory), code)


def _bases(recorded: dict[str, Any], directory: Path) -> Iterator[Path]:
    output = str(_section(recorded, "trainer").get("output_dir") or "")
    steps_up = len(Path(output).parts) + 1
    if not Path(output).is_absolute() and steps_up <= len(directory.parents):
        yield directory.parents[steps_up - 1]
    yield from directory.parents
    yield from Path(str(recorded.get("tree") or "/")).parents
    yield from Path(str(_section(recorded, "evolver", of=recorded).get("directory") or "/")).parents


def _notes(recorded: dict[str, Any], config: TrainingConfig) -> Iterator[str]:
    if _section(recorded, "sandbox").get("enabled"):
        yield "sandbox: Hermit confined the learner and the agent; evrun does not"
    access = _section(recorded, "evolver_access")
    if access.get("environment") or access.get("tools"):
        yield "evolver_access: its environment and tools have no equal, and are left out"
    code = {
        "agent.name": config.agent.name.rpartition(":")[0],
        "judge.path": config.judge.path,
        "evolver.name": config.evolver.name.rpartition(":")[0],
    }
    theirs = [key for key, file in code.items() if file and file.endswith(".py") and _imports_hermit(file)]
    if theirs:
        yield f"{', '.join(theirs)}: the code imports hermit; change its import lines (docs/from-hermit.md)"


def _imports_hermit(name: str) -> bool:
    file = Path(name)
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return False
    return any(line.split()[:1] in (["from"], ["import"]) and "hermit" in line for line in text.splitlines())
