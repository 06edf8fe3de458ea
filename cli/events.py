"""`evrun events RUN`: what happened, one event a line."""

import difflib
import json as json_text
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from eventlog.events import EVENT_TYPES
from eventlog.storage import LogReader
from evrun.errors import UsageFault
from projections import EventLister, WantedEvents, as_listed, sifted, tells_of_calls

from . import output
from .archives import find_readable
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run, log_of

LOOK_AGAIN_S = 0.2
"""How often a follower looks for what has become durable."""

DATA_SHOWN = 120
"""So many characters of an event's data are shown to people; `--json` shows all."""

From = Annotated[int, typer.Option("--from", min=1, metavar="N", help="Begin with this event.")]
To = Annotated[int | None, typer.Option("--to", min=1, metavar="N", help="End with this event.")]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="T", help="Only events of this type; may be given several times."),
]
UnitName = Annotated[str | None, typer.Option("--unit", metavar="U", help="Only events about this unit.")]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what becomes durable, until it is interrupted.")
]


def events_command(
    run: RunArgument,
    *,
    first: From = 1,
    last: To = None,
    kinds: Types = None,
    unit: UnitName = None,
    follow: Follow = False,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """List the events of a run's log, one a line, or follow them.

    Works while the run is going on and after a crash, and changes nothing. Shows only what is durable.
    """
    wanted = WantedEvents(known_types(kinds or []), unit)
    find = find_run if follow else find_readable  # an archive does not grow while it is read
    reader = LogReader.open(log_of(find(run, output_dir)))
    try:
        for event in listed(reader, wanted, first, last, follow=follow):
            if event is None:
                output.flush()
                time.sleep(LOOK_AGAIN_S)
            else:
                output.line(json_text.dumps(event) if json else event_line(event))
    finally:
        reader.close()
    return 0


def known_types(names: list[str]) -> frozenset[str]:
    """The names, checked: a misspelled type would list nothing, for ever.

    Raises:
        UsageFault: one is not the name of an event type.
    """
    known = [kind.__name__ for kind in EVENT_TYPES]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the types: {', '.join(sorted(known))}"
            raise UsageFault(f"--type {name}: there is no such event type", hint)
    return frozenset(names)


def listed(
    reader: LogReader, wanted: WantedEvents, first: int, last: int | None, *, follow: bool
) -> Iterator[dict[str, Any] | None]:
    """The wanted events from `first` to `last` as scripts read them.

    Null, when following: there is nothing more yet. What the bytes of an event rule out is not decoded.
    """
    lister, sieve = EventLister(), wanted.sieve()
    for record in sifted(reader, tells_of_calls, 1, min(first - 1, reader.end.sequence)):
        lister.unit_of(record.event)
    following = first
    while True:
        end = reader.end.sequence if last is None else min(last, reader.end.sequence)
        if following <= end:
            for record in sifted(reader, sieve, following, end):
                unit = lister.unit_of(record.event)
                if wanted.has(record.event, unit):
                    yield as_listed(record, unit)
            following = end + 1
        if not follow or (last is not None and following > last):
            return
        yield None
        reader.refresh()


def event_line(event: dict[str, Any]) -> str:
    """One event for people: its coordinates, its name, its unit, and how its data begin."""
    data = output.printable(json_text.dumps(event["data"], ensure_ascii=False)).replace("\n", "\\n")
    shown = data if len(data) <= DATA_SHOWN else f"{data[: DATA_SHOWN - 1]}…"
    when = f"{event['seq']:>6}  {event['time']}  {event['session']:>3}"
    return f"{when}  {event['type']:<19}  {event['unit'] or '-'}  {shown}"
