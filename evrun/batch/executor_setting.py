"""The settings `executor` and `ray_address`: where the sessions of a run are worked on."""

from collections.abc import Mapping
from typing import Any

from ..errors import UsageFault
from .settings import EXECUTORS, LOCAL, RAY, Settings
from .wire_options import LOCAL_MODEL

_GIVEN = "given:"


def executor_values(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The executor's settings of a session: an address without Ray is forgotten, or, typed now, refused.

    Raises:
        UsageFault: `--ray-address` was given, and the executor is another.
    """
    if values.get("executor", LOCAL) == RAY:
        return {}
    if "ray_address" in given:
        raise UsageFault("--ray-address without --executor ray", hint="give both, or none")
    return {"ray_address": None}


def check_executor(settings: Settings) -> None:
    """Refuse what cannot be worked on where it is asked for.

    Raises:
        UsageFault: with what to do.
    """
    if settings.executor not in EXECUTORS:
        raise UsageFault(f"--executor {settings.executor}: expected one of {', '.join(EXECUTORS)}")
    if settings.executor == LOCAL:
        return
    if settings.model == LOCAL_MODEL:
        raise UsageFault(
            "--executor ray with --model local: the embedded model runs in this process alone",
            hint="name an endpoint that all nodes reach with --base-url",
        )
    if settings.agent.startswith(_GIVEN):
        raise UsageFault(
            "--executor ray with an agent that a program handed over: nodes cannot have it",
            hint="put it into a file that is there on all nodes: --agent FILE.py:FUNCTION",
        )
    from ..executors.ray_cluster import check_ray  # noqa: PLC0415 (only where a run wants it)

    check_ray(settings.ray_address)
