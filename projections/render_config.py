"""config.yaml: what a run was told, resolved, with digests of its inputs."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .jsontext import json_text
from .state import RunState

HEAD = "# made by evrun from the run's log, event "
# What YAML 1.1 reads without quotes as it stands, and takes for nothing but text.
_PLAIN_KEY = re.compile(
    r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_][\w.-]*", re.ASCII | re.IGNORECASE
)
_UNPRINTABLE = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff]")


def render_config(state: RunState) -> bytes:
    """config.yaml, as of the newest event that said how the run is set up, which its first line names."""
    batch, training = state.batch, state.training
    settings = batch.settings
    paths = {one.name: one.path for one in batch.inputs}
    value = {
        "config": nested(settings),
        "template": settings.get("template"),
        "tree": settings.get("trainer.tree_dir"),
        "branch": batch.run,
        "start": {"commit": training.start or None, "root": training.root or None},
        "evolver": {"name": settings.get("evolver.name"), "params": settings.get("evolver.params", {})},
        "inputs": {
            name: {"sha256": digest, "path": paths.get(name)} for name, digest in training.inputs.items()
        },
        "versions": dict(batch.versions),
        "python": batch.versions.get("python"),
    }
    lines = [f"{HEAD}{training.told}", *_mapping(value, "")]
    return ("\n".join(lines) + "\n").encode()


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys (``data.step_size``) as sections."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        *sections, key = name.split(".")
        place = found
        for section in sections:
            inner = place.get(section)
            if not isinstance(inner, dict):
                inner = place[section] = {}
            place = inner
        place[key] = value
    return found


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        name = key if _PLAIN_KEY.fullmatch(key) else _scalar(key)
        if isinstance(item, Mapping) and item:
            yield f"{indent}{name}:"
            yield from _mapping(item, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_flow(item)}"


def _flow(value: Any) -> str:
    """A value on one line: JSON, as far as YAML reads it in the same way."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    text = json_text(value)
    if isinstance(value, float) and "e" in text:
        # YAML 1.1 takes 1e-05 for text.
        digits, _, power = text.partition("e")
        text = f"{digits if '.' in digits else f'{digits}.0'}e{power if power[0] in '+-' else f'+{power}'}"
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
