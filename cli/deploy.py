"""`evrun deploy`: a workspace for a coding agent, made of an adapter."""

from pathlib import Path
from typing import Annotated

import typer

from evrun.training import HOSTS, deploy

from . import output
from .output import JsonFlag

AdapterDirectory = Annotated[
    Path, typer.Option("--adapter", metavar="DIR", help="The adapter, such as a run's checkout/.")
]
Workspace = Annotated[
    Path,
    typer.Option("--workspace", "--output", metavar="DIR", help="Made, or renewed if it was made so."),
]
Host = Annotated[str, typer.Option(metavar="HOST", help=f"Whose workspace: {' or '.join(HOSTS)}.")]
AllowLossy = Annotated[
    bool, typer.Option("--allow-lossy", help="Leave out what the host cannot be given, tools for instance.")
]


def deploy_command(
    *,
    adapter: AdapterDirectory,
    workspace: Workspace,
    host: Host = HOSTS[0],
    allow_lossy: AllowLossy = False,
    json: JsonFlag = False,
) -> int:
    """Make a workspace for a coding agent of an adapter: its text, its skills, its helpers.

    A workspace that was made so is renewed: what the last adapter left there goes. A directory that evrun did
    not make, and files that somebody changed in it, are refused.
    """
    report = deploy(adapter, workspace, host, allow_lossy=allow_lossy)
    if json:
        output.as_json(report)
        return 0
    output.line(f"{workspace} is a workspace for {host} with {report['adapter_id']} {report['version']}")
    for path in report["files"]:
        output.line(f"  {path}")
    if report["omitted"]:
        output.note(f"left out: {', '.join(report['omitted'])}")
    return 0
