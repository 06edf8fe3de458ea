"""The configuration as the log records it: flat keys, and what differs between two of them. Pure."""

from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

import msgspec

from .config import TrainingConfig

OPERATIONAL = frozenset(
    {
        "data.tasks", "data.train", "data.val", "data.test", "task_info", "judge.path",
        "agent.concurrency", "agent.timeout_min", "agent.bound.usd", "agent.bound.tokens",
        "judge.timeout_min", "evolver.bound.usd", "evolver.bound.tokens",
        "trainer.output_dir", "trainer.tree_dir", "trainer.allow_early_stop", "trainer.resume_mode",
        "trainer.save_freq.steps", "trainer.save_freq.epochs", "trainer.budget.usd", "trainer.budget.tokens",
        "trainer.budget.calls", "trainer.budget.hours", "trainer.budget.step_usd", "trainer.budget.role_usd",
        "trainer.budget.finalize_reserve_usd", "trainer.call_timeout_min", "trainer.retries",
        "eval.repeats", "prices", "unknown_price",
    }
)  # fmt: skip
"""Keys that may change on a resume: where things are, how much at once, how patiently, and what it may cost.

What stands in the files that the paths name is compared by digest (`inputs`).
"""

UNRECORDED = frozenset({"trainer.executor", "trainer.ray_address"})
"""Keys that say where one session has its work done: they are in no log, and so in no file made from it."""

_OPERATIONAL_OF_BACKENDS = frozenset(
    {
        "base_url", "api_key_env", "key_required", "prices", "description", "context_window", "messages_url",
        "litellm", "developer_role", "apis",
    }
)  # fmt: skip


def config_record(config: TrainingConfig) -> dict[str, Any]:
    """The configuration with flat keys: ``{"data.step_size": 8, …}``. Maps of the user's own stay whole."""
    return {key: value for key, value in _flat(config, "") if key not in UNRECORDED}


def config_from_record(record: Mapping[str, Any]) -> TrainingConfig:
    """The configuration that a log recorded, perhaps by an older evrun with fewer keys."""
    nested: dict[str, Any] = {}
    for key, value in record.items():
        *sections, name = key.split(".")
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    for section in ("agent", "evolver"):
        bound = nested.get(section, {}).get("bound")
        if bound is not None and all(value is None for value in bound.values()):
            nested[section]["bound"] = None
    return msgspec.convert(nested, TrainingConfig)


def changes_between(before: TrainingConfig, now: TrainingConfig) -> dict[str, tuple[Any, Any]]:
    """What differs, as ``{key: (before, now)}``."""
    old, new = config_record(before), config_record(now)
    return {key: (old.get(key), value) for key, value in new.items() if old.get(key) != value}


def shaping_changes(changes: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Those changes that a resume refuses, unless it is told to accept them.

    A file that was moved and a backend that is reached elsewhere are none.
    """
    return {key: pair for key, pair in changes.items() if key not in OPERATIONAL and not _moved(key, *pair)}


def section_of(annotation: Any) -> type[msgspec.Struct] | None:
    """The section that a field's type stands for; null where it is a value."""
    kinds = get_args(annotation) if _is_union(annotation) else (annotation,)
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return kind
    return None


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) is Union or type(annotation).__name__ == "UnionType"


def _flat(section: msgspec.Struct, prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for field in msgspec.structs.fields(section):
        key, value, kind = f"{prefix}{field.name}", getattr(section, field.name), section_of(field.type)
        if kind is None:
            found.append((key, msgspec.to_builtins(value)))
        elif value is None:
            found += [(f"{key}.{inner.name}", None) for inner in msgspec.structs.fields(kind)]
        else:
            found += _flat(value, f"{key}.")
    return found


def _moved(key: str, before: Any, now: Any) -> bool:
    """Whether a change only says where the same thing is now."""
    if key == "backends":
        return _shaping_backends(before) == _shaping_backends(now)
    if key in {"agent.name", "evolver.name", "template", "start_from"}:
        return bool(_last_name(before) == _last_name(now))
    if key in {"agent.params", "judge.params"}:
        return _files_moved(before) == _files_moved(now)
    return False


def _shaping_backends(backends: Any) -> dict[str, dict[str, Any]]:
    return {
        name: {key: value for key, value in backend.items() if key not in _OPERATIONAL_OF_BACKENDS}
        for name, backend in (backends or {}).items()
    }


def _files_moved(params: Any) -> dict[str, Any]:
    """Parameters with the files that built-in parts take by their names alone."""
    found = dict(params or {})
    if isinstance(found.get("tools"), list):
        found["tools"] = [_last_name(one) for one in found["tools"]]
    return found | {"rubric_file": _last_name(found.get("rubric_file"))}


def _last_name(value: Any) -> Any:
    """A path without its directory; anything else as it is."""
    return value.rpartition("/")[2] if isinstance(value, str) and value.startswith("/") else value
