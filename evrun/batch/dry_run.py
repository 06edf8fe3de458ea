"""A run that is only thought through: all is checked and estimated, nothing is sent, nothing is written."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from eventlog.events import Event, PlannedRow, PromptsPlanned, Recorded
from eventlog.storage import LogReader, lock_holder
from projections import Attempt, RowSource, RunState, fold_log, loads_lenient, row_messages, unit_name

from ..caps import caps_now
from ..effects.clock import random_bytes
from ..errors import UsageFault
from ..estimate import NOTHING, Estimate, total
from ..prices import Price
from ..tools import Toolbox, open_toolbox
from . import opening
from .briefs import Briefs, image_of
from .cap_outlook import CapOutlook, CapWatch
from .decide import reason_to_supersede
from .endpoint import check_caps_hold, check_endpoint, choose_model, price_of
from .judge_setting import check_judge
from .options import Options, check_run_name, resolve
from .outlook import bounds_of
from .settings import Settings, settings_from_record
from .tool_calls import attempt_directory
from .tool_sources import prepare_tools

MOST_ROWS = 5
"""So many of the rows that may cost most are named."""


class RowEstimate(NamedTuple):
    """A unit that may cost much: its name, where its row is in the dataset (from 0), and its prompt."""

    unit: str
    prompt_index: int
    prompt: str
    bounds: Estimate


class DryRun(NamedTuple):
    """What a run would do, and what it may cost. `refused` counts prompts for which nothing can be sent.

    `going_on` names the event up to which a run that is there was looked at, null for a new one; `held` says
    that a process works on it meanwhile.
    """

    settings: Settings
    price: Price | None
    units: int
    refused: int
    bounds: Estimate
    rows: list[RowEstimate]
    caps: list[CapOutlook]
    going_on: int | None
    held: bool


async def dry_run(options: Options, environment: Mapping[str, str]) -> DryRun:
    """Check what `run_batch` would check, and estimate what it would do.

    Where no model is named the endpoint is asked which it has, as a run does; that costs nothing.

    Raises:
        UsageFault: what a run would refuse.
        LogRefused: the log is not whole.
    """
    check_run_name(options.run_name)
    there = opening.check_name_is_free(options)
    if there:
        with closing(LogReader.open(options.directory / "log")) as reader:
            state = fold_log(reader)
            if state.sequence > 0:
                return await _resumed(options, environment, reader, state)
    return await _new(options, environment)


def dry_run_sync(options: Options, environment: Mapping[str, str]) -> DryRun:
    """`dry_run` for a process that does nothing else."""
    return anyio.run(dry_run, options, environment)


async def _new(options: Options, environment: Mapping[str, str]) -> DryRun:
    if options.dataset is None:
        raise UsageFault(f"{options.directory} holds a run that never began, and no dataset was given")
    settings = resolve(options, None, environment)
    scanned = opening.scan_dataset(options.dataset, settings, skip_bad_rows=settings.skip_bad_rows)
    settings = await choose_model(opening.with_model_of(scanned, settings), environment)
    check_endpoint(settings, environment)
    check_judge(settings)
    toolbox = await _looked_into(settings, environment)
    thinker = _Thinker(options, settings, RunState(), caps_now({}, options.caps), toolbox)
    thinker.suppose([opening.started(options, settings, scanned, toolbox)])
    thinker.plan(opening.first_plan(options.dataset, settings, scanned))
    return thinker.result(None, held=False)


async def _resumed(
    options: Options, environment: Mapping[str, str], reader: LogReader, state: RunState
) -> DryRun:
    end = state.sequence
    recorded = settings_from_record(state.batch.settings)
    settings = await choose_model(resolve(options, recorded, environment), environment)
    opening.check_plan_options(options, recorded, settings, state.batch, RowSource(reader))
    toolbox = await _looked_into(settings, environment)
    change = opening.changed(state.batch, settings, toolbox)
    thinker = _Thinker(options, settings, state, caps_now(state.ledger.caps, options.caps), toolbox)
    first: list[Event] = [change] if change else []
    further: Iterable[Event] = ()
    if options.dataset is not None or not state.batch.plan_complete:
        path = options.dataset or Path(settings.dataset)
        scanned = opening.scan_dataset(path, settings, skip_bad_rows=settings.skip_bad_rows)
        compared = opening.comparison(scanned, state.batch, settings)
        first += opening.replanned(state.batch, compared)
        further = opening.further_plan(path, settings, state.batch, scanned, compared)
    thinker.suppose(first)
    thinker.known(RowSource(reader))
    thinker.plan(further)
    if thinker.units:
        check_endpoint(settings, environment)
        check_judge(settings)
    return thinker.result(end, held=lock_holder(options.directory / "log") is not None)


async def _looked_into(settings: Settings, environment: Mapping[str, str]) -> Toolbox:
    """The tools that a run would have; MCP servers are started to be asked, and ended."""
    prepared = await prepare_tools(settings, environment)
    async with open_toolbox(prepared, environment, marker=f"dry-{random_bytes(8).hex()}") as toolbox:
        return toolbox


class _Thinker:
    """Goes through the units of a run as a session would find them, and adds up their bounds.

    What a session would record first is folded into `state`, and nowhere else.
    """

    def __init__(
        self,
        options: Options,
        settings: Settings,
        state: RunState,
        caps: Mapping[str, int],
        toolbox: Toolbox,
    ) -> None:
        self._options = options
        self._settings = settings
        self._state = state
        self._price = price_of(settings)
        self._briefs = Briefs(settings)
        self._toolbox = toolbox
        self._caps = caps
        self._watch = CapWatch(caps, state.ledger, state.batch)
        self._bounds = NOTHING
        self._dearest: list[tuple[tuple[int, int], int, RowEstimate]] = []
        self._refused = 0
        self.units = 0

    def suppose(self, events: Iterable[Event]) -> None:
        """Fold events that are in no log."""
        for event in events:
            self._state.apply(Recorded(self._state.sequence + 1, self._state.batch.last_ns, 0, event))

    def known(self, rows: RowSource) -> None:
        """Look at the units that are in the log."""
        batch = self._state.batch
        for name in opening.units_to_work_on(batch, self._options):
            unit = batch.units[name]
            self._add(name, unit.index, rows.row_of(unit))

    def plan(self, events: Iterable[Event]) -> None:
        """Look at rows that would be planned, one after the other."""
        for event in events:
            self.suppose([event])
            for name, row in _planned(event):
                unit = self._state.batch.units[name]
                if unit.outcome == "pending":
                    value = loads_lenient(row.row)
                    assert isinstance(value, dict)
                    self._add(name, unit.index, value)

    def result(self, going_on: int | None, *, held: bool) -> DryRun:
        """All that was found.

        Raises:
            UsageFault: a cap that could not be held.
        """
        if self._caps and self.units:
            check_caps_hold(self._caps, self._settings, self._price)
        rows = [row for _, _, row in sorted(self._dearest, reverse=True)]
        caps = self._watch.verdicts(self._bounds)
        return DryRun(
            self._settings, self._price, self.units, self._refused, self._bounds, rows, caps, going_on, held
        )

    def _add(self, name: str, index: int, row: dict[str, Any]) -> None:
        self.units += 1
        bounds = self._estimate(name, row)
        if bounds is None:
            self._refused += 1
            return
        self._bounds = total([self._bounds, bounds])
        self._watch.see(name, bounds)
        place = (_weight(bounds), -self.units, RowEstimate(name, index, self._prompt(row), bounds))
        (heapq.heappush if len(self._dearest) < MOST_ROWS else heapq.heappushpop)(self._dearest, place)

    def _prompt(self, row: dict[str, Any]) -> str:
        return row_messages(row, {"template": self._settings.template})[-1].content

    def _estimate(self, name: str, row: dict[str, Any]) -> Estimate | None:
        """The bounds of a unit; null where a run would send nothing for it."""
        batch = self._state.batch
        attempt = batch.open.get(name)
        if attempt is not None:
            brief = self._briefs.brief(name, row, attempt.toolsets, batch.toolsets)
            place = attempt_directory(self._options.directory / "work", name, attempt.attempt)
            safe = self._toolbox.safe_to_repeat
            goes_on = partial(reason_to_supersede, attempt, brief, self._briefs.digest, safe)
            if goes_on(directory_there=place.is_dir()) is None:
                return bounds_of(attempt, brief, self._price)
        if image_of(row) is None and row.get("cwd") is not None:
            return None
        toolsets = self._briefs.drawn(name, row, batch.toolsets)
        brief = self._briefs.brief(name, row, toolsets, batch.toolsets)
        fresh = Attempt(name, 0, 0, 0, toolsets, self._briefs.digest)
        return bounds_of(fresh, brief, self._price)


def _planned(event: Event) -> Iterator[tuple[str, PlannedRow]]:
    for row in event.rows if isinstance(event, PromptsPlanned) else ():
        for sample in range(row.first_sample, row.first_sample + row.samples):
            yield unit_name(row.content, row.occurrence, sample), row


def _weight(bounds: Estimate) -> tuple[int, int]:
    """What makes one row dearer than another: money, where it is known, then tokens; unknown is most."""
    unknown = 1 << 200
    nano = unknown if bounds.nano_upper is None else bounds.nano_upper
    tokens = bounds.tokens_upper
    if tokens is None:
        return nano, unknown + (bounds.first_tokens or bounds.input_lower)
    return nano, tokens
