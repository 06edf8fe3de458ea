"""`evrun otel RUN`: send a run's spans to an OpenTelemetry collector."""

from typing import Annotated

import typer

from evrun.errors import UsageFault
from evrun.otel import send_run

from . import output
from .config import environment
from .output import JsonFlag
from .reading import read_run
from .runs import DATA, OutputDirectory, RunArgument, prompts_only

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
Collector = Annotated[
    str | None,
    typer.Option(
        "--collector", metavar="URL", help="The collector.  [that of the run; OTEL_EXPORTER_OTLP_ENDPOINT]"
    ),
]


def otel_command(
    run: RunArgument,
    *,
    collector: Collector = None,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Send a run's finished model calls, tool calls and attempts to an OpenTelemetry collector.

    They are read from the log, and only those are sent that this collector does not have yet. Sent twice
    they are the same spans. Works while the run goes on, too. Exits with 1 where the collector does not take
    them: nothing is lost, do it again.
    """
    reading = read_run(run, output_dir)
    prompts_only(reading.directory, "otel", "spans are told of batch runs only, so far")
    recorded = reading.state.batch.settings.get("otel")
    where = collector or recorded or environment().get(ENDPOINT)
    if not where:
        raise UsageFault(
            "no collector: the run names none", f"--collector http://127.0.0.1:4318, or {ENDPOINT}"
        )
    sent = send_run(reading.directory, str(where))
    if json:
        output.as_json({"run": reading.name, "collector": str(where), "spans": sent})
    else:
        output.line(f"{sent} spans sent to {where}")
    return 0
