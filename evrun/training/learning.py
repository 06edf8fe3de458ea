"""The learner's calls: recorded before and after, in a private directory, fed with what is recorded."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from eventlog.events import (
    Event,
    EvolverReturned,
    EvolverStarted,
    FileEntry,
    Issue,
    LearnerUsage,
    Usage,
)
from projections import RunState, cap_amount, learner_unit, usd

from ..agents import AgentCalls
from ..batch.brief import Brief
from ..batch.sending import Services
from ..batch.settings import settings_record
from ..effects.clock import monotonic
from ..effects.secrets import Redactor
from ..journal import Journal
from .adapter_check import check_candidate
from .authoring import Access
from .bindings import Binding
from .blobs import Blobs, Content, Refused, entries_of, fitting, read_files
from .config import TrainingConfig
from .history import History
from .learner import Learner, LearnerCall, Returned
from .learner_tools import Hooks, RunTools
from .own_spending import OwnSpending, Reported
from .places import Places
from .template import Template

Trials = Callable[[list[str], Path, int], Awaitable[list[dict[str, Any]]]]


class Desk(NamedTuple):
    """What the calls of a session's learner work with."""

    config: TrainingConfig
    template: Template
    journal: Journal
    learner: Learner
    services: Services | None
    binding: Binding | None
    spending: OwnSpending
    redactor: Redactor
    blobs: Blobs
    places: Places
    history: History
    access: Access
    ids: frozenset[str]


class LearnerCalls:
    """Calls the learner, and makes its answer durable."""

    def __init__(self, desk: Desk, trials: Callable[[str], Trials]) -> None:
        self._d = desk
        self._trials = trials

    @property
    def methods(self) -> frozenset[str]:
        """What the learner has: "setup", "bootstrap", "step", "finalize"."""
        return self._d.learner.methods

    async def call(self, call: str, step: int, epoch: int, *, is_epoch_end: bool) -> Returned | None:
        """Call it until it has answered and the answer is durable; null where the run is stopping."""
        unit = learner_unit(call, step)
        attempt, carried = self._attempt(unit)
        while True:
            began = EvolverStarted(unit, attempt, call, step, carried)
            held = await self._d.spending.begin(unit, attempt, "learner", began)
            if held is None:
                return None
            at = monotonic()
            prepared, tools, ask = self._prepared(call, unit, step, epoch, attempt, is_epoch_end=is_epoch_end)
            returned = await self._d.learner.call(prepared, tools, ask)
            if ask is not None and ask.broken is not None:
                raise ask.broken
            if returned.paused:
                await self._d.spending.abandon(held, "the run stopped while the learner was at work")
                return None
            if returned.diverged:
                await self._d.spending.abandon(held, "the learner asked something else than before")
                attempt, carried = attempt + 1, False
                continue
            spent = self._d.spending.end(held, [_reported(one) for one in returned.usage])
            took_ms = round((monotonic() - at) * 1000)
            await self._record(prepared, returned, spent, took_ms)
            return returned

    def _attempt(self, unit: str) -> tuple[int, bool]:
        """The attempt's number, and whether an earlier session left it open."""
        open_one = self._d.journal.state.training.open.get(unit)
        if open_one is not None:
            return open_one.attempt, True
        return self._d.journal.state.training.call_attempts.get(unit, 0) + 1, False

    def _prepared(
        self, call: str, unit: str, step: int, epoch: int, attempt: int, *, is_epoch_end: bool
    ) -> tuple[LearnerCall, RunTools, AgentCalls | None]:
        state = self._d.journal.state
        workspace = self._d.places.workspace(
            unit, attempt, self._d.blobs.files(state.training.files),
            self._d.blobs.files(state.training.state_files), self._d.history.write,
        )  # fmt: skip
        ask = self._ask(unit, attempt)
        timeout_s = self._d.config.trainer.call_timeout_min * 60
        prepared = LearnerCall(
            call, unit, step, epoch, is_epoch_end, attempt, workspace, self._d.access,
            message_of(call, step, epoch, state),
            state.training.session if self._d.config.evolver.resume else None,
            self._d.config.evolver.params, timeout_s,
        )  # fmt: skip
        hooks = Hooks(
            self._check, lambda: budget_left(self._d.journal.state), self._trials(unit), self._d.ids,
            workspace.adapter, (workspace.root,),
        )  # fmt: skip
        tools = RunTools(
            hooks, journal=self._d.journal, redactor=self._d.redactor, unit=unit, attempt=attempt, ask=ask
        )
        return prepared, tools, ask

    def _ask(self, unit: str, attempt: int) -> AgentCalls | None:
        binding, services = self._d.binding, self._d.services
        if binding is None or services is None:
            return None
        settings = msgspec.structs.replace(
            binding.settings, prompt_timeout=self._d.config.trainer.call_timeout_min * 60
        )
        brief = Brief({}, settings, settings_record(settings), [], settings.seed)
        return AgentCalls(
            services, unit, brief, number=attempt, started=None, price_of=binding.price_of, role="learner"
        )

    async def _check(self, directory: Path) -> list[Issue]:
        state, blobs = self._d.journal.state.training, self._d.blobs
        try:
            candidate = read_files(directory)
        except Refused as error:
            return [Issue(error.path, 2, error.problem)]
        root, parent = blobs.files(state.root_files), blobs.files(state.files)
        return await anyio.to_thread.run_sync(check_candidate, self._d.template, root, parent, candidate)

    async def _record(
        self, call: LearnerCall, returned: Returned, spent: tuple[Event, ...], took_ms: int
    ) -> None:
        """The answer and all the files that count, durable in one commit (or the files before it)."""
        clean = self._d.redactor.clean_text
        found, problem = self._files(call, returned)
        if problem is not None:
            returned = returned._replace(status="failed", error=problem, in_order=False)
        entries: list[list[FileEntry] | None] = [None if one is None else entries_of(one) for one in found]
        event = EvolverReturned(
            call.unit, call.attempt, call.call, call.step, returned.status, clean(returned.summary),
            clean(returned.rationale), returned.session, returned.usage,
            None if returned.extra is None else self._d.redactor.clean(_json(returned.extra)),
            None if returned.error is None else clean(returned.error), took_ms, *entries,
        )  # fmt: skip
        contents = self._d.blobs.missing(*(one for one in found if one is not None))
        for part in fitting([*contents, *spent, event]):
            await self._d.journal.record(*part)

    def _files(
        self, call: LearnerCall, returned: Returned
    ) -> tuple[list[dict[str, Content] | None], str | None]:
        """Its candidate, state and output; none of what does not count; and what is wrong with them."""
        workspace = call.workspace
        try:
            output: dict[str, Content] | None = self._read(workspace.output)
        except Refused:
            output = None
        if not returned.in_order:
            return [None, None, output], None
        try:
            candidate, state = self._read(workspace.adapter), self._read(workspace.state)
        except Refused as error:
            return [None, None, output], f"the learner left what cannot be kept: {error}"
        if output is None:
            return [None, None, None], "the learner left what cannot be kept in its output"
        return [candidate, state, output], None

    def _read(self, directory: Path) -> dict[str, Content]:
        """The files of a directory, without secrets: they go into the log."""
        found = read_files(directory)
        return {path: one._replace(data=self._d.redactor.clean(one.data)) for path, one in found.items()}


def message_of(call: str, step: int, epoch: int, state: RunState) -> str:
    """What a learner is told in words: what it is called for, and what it may still spend."""
    tasks = {
        "setup": "Prepare what you need in state/. No step has been made yet.",
        "bootstrap": "Make the first version of the adapter, before any task has been tried.",
        "step": f"Improve the adapter: step {step} of epoch {epoch}. What the tasks gave is in "
        "learning_material/current.",
        "finalize": "Training is over. Say in a few sentences what was learned.",
    }
    left = [
        f"{cap_amount(cap, max(state.ledger.left(cap) or 0, 0))} left"
        for cap in ("usd", "tokens", "calls")
        if cap in state.ledger.caps
    ]
    rules = "Only files that the template calls learnable may change; check_spec says whether they pass."
    return " ".join([tasks[call], rules, *([f"Budget: {', '.join(left)}."] if left else [])])


def budget_left(state: RunState) -> dict[str, Any]:
    """What was spent and what is left, for a learner."""
    ledger = state.ledger
    left = {cap: ledger.left(cap) for cap in ("usd", "tokens", "calls")}
    return {
        "settled_usd": usd(ledger.total.settled_nano_usd),
        "in_doubt_usd": ledger.total.in_doubt_usd(live=True),
        "left_usd": None if left["usd"] is None else usd(left["usd"]),
        "left_tokens": left["tokens"],
        "left_calls": left["calls"],
    }


def _reported(one: LearnerUsage) -> Reported:
    usage = Usage(one.input_tokens, one.cached_input_tokens, one.output_tokens, None)
    return Reported(one.cost_nano_usd, usage, one.model)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
