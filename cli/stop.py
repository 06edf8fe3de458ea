"""`evrun stop RUN`: end the process that works on a run, in order or at once."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from evrun.effects import Stopping, stop_holder
from evrun.errors import UsageFault

from . import output
from .errors import FAILED
from .list import entry
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run, log_of

TIMEOUT_S = 60.0

Now = Annotated[bool, typer.Option("--now", help="Make it leave at once; calls in flight are then in doubt.")]
Timeout = Annotated[float, typer.Option(metavar="S", min=0, help="Wait so many seconds for its end.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Ask, and do not wait.")]


def stop_command(
    run: RunArgument,
    *,
    now: Now = False,
    timeout: Timeout = TIMEOUT_S,
    no_wait: NoWait = False,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """End the process that works on a run: calls in flight finish, views are written, everything is kept.

    Waits until it has ended, and says how the run stands. `--now` does not let calls finish (nor does a
    second `evrun stop`, as a second Ctrl-C); a process that does not leave then is killed. The log is safe
    in every case. Exits with 0 also if nothing works on the run, with 1 if it has not ended in time, with 6
    if it works on another host.
    """
    if now and no_wait:
        raise UsageFault("--now and --no-wait contradict each other", "--now looks whether it has left")
    if math.isnan(timeout):
        raise UsageFault("--timeout nan: expected seconds, such as 60")
    directory = find_run(run, output_dir)
    done = stop_holder(log_of(directory), now=now, timeout_s=None if no_wait else timeout)
    stands = entry(directory)
    if json:
        output.as_json(_shape(done, stands))
    else:
        for line in _lines(done, stands, timeout):
            output.line(line)
    return FAILED if done.ended is False else 0


def _shape(done: Stopping, stands: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": stands["run"],
        "dir": stands["dir"],
        "was_running": done.pid is not None,
        "pid": done.pid,
        "signals": done.signals,
        "ended": done.ended,
        "state": stands["state"],
        "reason": stands["reason"],
        "counts": stands["counts"],
    }


def _lines(done: Stopping, stands: dict[str, Any], timeout_s: float) -> list[str]:
    run = stands["run"]
    if done.pid is None:
        return [f"{run} is not running: {_state(stands)}"]
    if done.ended is None:
        return [f"{run}: process {done.pid} was asked to end; `evrun status {run}` shows when it has"]
    if not done.ended:
        asked = f"{run}: process {done.pid} was asked to end, and it works on after {timeout_s:g} s"
        return [
            f"{asked}: {_state(stands)}",
            "it ends when its calls in flight have; stopped again, or with --now, it does not wait for them",
        ]
    how = "was killed" if "SIGKILL" in done.signals else "has ended"
    lines = [f"{run}: process {done.pid} {how}: {_state(stands)}"]
    counts = stands["counts"]
    if counts is not None and "steps" in counts:
        return [*lines, "go on with the same evrun train"] if stands["state"] != "done" else lines
    if counts is not None and counts["open"] + counts["pending"]:
        where = "" if Path(stands["dir"]).parent == DATA else f" --output-dir {Path(stands['dir']).parent}"
        lines.append(f"go on with: evrun run --run-name {run}{where} --resume")
    return lines


def _state(stands: dict[str, Any]) -> str:
    counts = stands["counts"]
    if counts is None:
        return f"{stands['state']}: {stands['reason']}"
    if "steps" in counts:
        return f"{stands['state']}, {counts['steps']} steps committed"
    numbers = [f"{counts[name]} {name}" for name in ("kept", "discarded", "failed") if counts[name]]
    left = counts["open"] + counts["pending"]
    return f"{stands['state']}, {', '.join([*numbers, f'{left} left'])}"
