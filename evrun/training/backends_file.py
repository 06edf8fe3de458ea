"""Backends of a person's own, from the file that Hermit has for them; what is used becomes the run's."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UsageFault
from .yaml_text import read_yaml

VARIABLE = "HA_BACKENDS"
PLACE = Path(".config", "hermit", "backends.yaml")


def borrow_backends(values: dict[str, Any]) -> None:
    """Put the backends that are asked for, and that the configuration does not have, into it.

    Raises:
        UsageFault: the file is there and cannot be read.
    """
    backends = values.setdefault("backends", {})
    asked = [ref.partition("/")[0] for ref in _references(values) if "/" in ref]
    asked += [
        one["from"] for one in backends.values() if isinstance(one, dict) and isinstance(one.get("from"), str)
    ]
    missing = [name for name in asked if name not in backends]
    if not missing:
        return
    own = _read()
    while missing:
        name = missing.pop()
        if name in own and name not in backends:
            backends[name] = own[name]
            source = own[name].get("from") if isinstance(own[name], dict) else None
            missing += [source] if isinstance(source, str) else []


def _references(values: dict[str, Any]) -> Iterator[str]:
    llm = values.get("llm")
    found = [values.get("model"), llm.get("model") if isinstance(llm, dict) else llm]
    found += [values.get(part, {}).get("params", {}).get("model") for part in ("agent", "judge", "evolver")]
    return (ref for ref in found if isinstance(ref, str))


def _read() -> dict[str, Any]:
    given = os.environ.get(VARIABLE)
    path = Path(given).expanduser() if given else Path.home() / PLACE
    where = f"{VARIABLE}={given}" if given else str(path)
    try:
        found = read_yaml(path.read_text("utf-8"), where).value
    except (OSError, UnicodeDecodeError) as error:
        if given:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise UsageFault(f"{where}: {reason}", "name a YAML file with backends, or unset it") from error
        return {}
    if found is not None and not isinstance(found, dict):
        raise UsageFault(f"{where}: expected backends by name")
    return found or {}
