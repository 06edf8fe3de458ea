"""`evrun check`: look at everything that a training run needs, and let its agent do one task."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evrun.errors import UsageFault
from evrun.training import Checkup, Finding, TrainingConfig, check_training_sync, load_config

from . import output
from .config import environment
from .errors import USAGE
from .output import JsonFlag
from .training import ConfigPath, Overrides

NoProbe = Annotated[bool, typer.Option("--no-probe", help="Do not let the agent do a task.")]


def check_command(
    config: ConfigPath, overrides: Overrides = None, *, no_probe: NoProbe = False, json: JsonFlag = False
) -> int:
    """Look at everything that a training run needs, and let its agent do one task without an adapter.

    Nothing of the run is made or changed. What the one task costs is told; it is in no run's account.

    Exit codes: 0 the run can begin or go on, 2 it cannot.
    """
    told = _read(config, overrides or [])
    if isinstance(told, Finding):
        return _report(Checkup([told], None), json=json)
    before = Finding("ok", "configuration", str(config))
    found = check_training_sync(told, environment(), with_probe=not no_probe)
    return _report(found._replace(findings=[before, *found.findings]), json=json)


def _read(config: Path, overrides: list[str]) -> TrainingConfig | Finding:
    try:
        return load_config(config, overrides)
    except UsageFault as error:
        return Finding("PROBLEM", "configuration", str(error), error.hint)


def _report(found: Checkup, *, json: bool) -> int:
    code = 0 if found.passed else USAGE
    if json:
        output.as_json(_as_object(found, code))
        return code
    for one in found.findings:
        output.line(output.printable(f"[{one.state}] {one.item}: {one.detail}"))
        if one.hint is not None:
            output.line(output.printable(f"    {one.hint}"))
    problems = sum(one.state == "PROBLEM" for one in found.findings)
    output.line("the run can begin" if not problems else f"problems: {problems}")
    return code


def _as_object(found: Checkup, code: int) -> dict[str, Any]:
    probe = found.probe
    return {
        "ok": found.passed,
        "exit_code": code,
        "findings": [one._asdict() | {"state": one.state.lower()} for one in found.findings],
        "probe": None
        if probe is None
        else {
            "task": probe.task,
            "score": probe.score,
            "cost_usd": probe.cost_usd,
            "ok": probe.state == "ok",
        },
    }
