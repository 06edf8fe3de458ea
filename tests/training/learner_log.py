"""A learner's call on a real log, with a real endpoint behind its model: one session after another."""

import os
from contextlib import asynccontextmanager
from pathlib import Path

from eventlog.events import EvolverStarted, Recorded, RunStarted, SessionOpened, decode_event
from eventlog.storage import LogWriter
from evrun.agents import AgentCalls
from evrun.batch.brief import Brief
from evrun.batch.control import Control
from evrun.batch.endpoint import client_for, prices_of
from evrun.batch.sending import Services
from evrun.batch.settings import Settings, settings_record
from evrun.batch.tool_calls import ToolPlace, ToolRunner
from evrun.batch.tool_sources import remembered_toolbox
from evrun.budget import Budget
from evrun.effects.clock import CallIds, now_ns, random_bytes
from evrun.effects.containers import Containers
from evrun.effects.limiter import Limiter
from evrun.effects.secrets import Redactor
from evrun.journal import Journal
from evrun.loop import Caller
from evrun.training.learner_tools import Hooks, RunTools
from projections import RunState
from tests.training.learners import SECRET, workspace

UNIT = "setup/learner"


class Folds:
    """The state of a run, and nothing beside it."""

    def __init__(self):
        self.state = RunState()

    def apply(self, record):
        """Fold one more."""
        self.state.apply(record)


class Asking:
    """An open call of a learner in one session: its tools, its model, and what the trainer did for it."""

    def __init__(self, directory, journal, control):
        self.journal = journal
        self.control = control
        self.workspace = workspace(directory / f"s{journal.session}")
        self.done = []
        self.issues = []
        self.fails = None
        self.ask = None

    def tools(self):
        """The tools of the call."""
        hooks = Hooks(
            self._check,
            lambda: {"settled_usd": "0.5", "left_usd": None},
            self._trials,
            frozenset({"a", "b"}),
            self.workspace.adapter,
            (self.workspace.root,),
        )
        return RunTools(
            hooks,
            journal=self.journal,
            redactor=Redactor({"KEY": SECRET}),
            unit=UNIT,
            attempt=1,
            ask=self.ask,
        )

    async def _check(self, directory):
        self.done.append(("check", (directory / "ADAPTER.md").read_text()))
        return self.issues

    async def _trials(self, ids, adapter, number):
        self.done.append(("run", ids, number))
        if self.fails is not None:
            raise self.fails
        return [{"id": task, "status": "ok", "score": 0.5, "feedback": f"see {SECRET}"} for task in ids]

    @property
    def settled(self):
        """What the ledger has settled, in nano-USD."""
        return self.journal.state.ledger.total.settled_nano_usd


@asynccontextmanager
async def session(directory: Path, base_url: str | None = None):
    """A session on the log in this directory; the first one begins the run and the learner's call."""
    writer = LogWriter.open(directory / "log", clock_ns=now_ns, random_bytes=random_bytes)
    try:
        folds = Folds()
        for record in writer.reader().read():
            event = decode_event(record.payload)
            folds.apply(Recorded(record.sequence, record.time_ns, record.epoch, event))
        journal = Journal(writer, folds)
        carried = folds.state.sequence > 0
        opened = SessionOpened(journal.session, os.getpid(), "h", "0")
        first = [] if carried else [RunStarted("training", "r", {}, {}, {}, [])]
        await journal.record(*first, opened, EvolverStarted(UNIT, 1, "setup", 0, carried))
        asking = Asking(directory, journal, Control())
        if base_url is None:
            yield asking
            return
        async with _model(asking, base_url, directory) as ask:
            asking.ask = ask
            yield asking
    finally:
        writer.close()


@asynccontextmanager
async def _model(asking, base_url, directory):
    settings = Settings(dataset="", model="m", base_url=base_url, prices=["m=1000,2000"], max_turns=100)
    journal, redactor = asking.journal, Redactor({})
    price = prices_of(settings)("m")
    budget = Budget(journal.state.ledger, lambda: 0, lambda _: None)
    journal.watch(budget.see)
    place = ToolPlace(directory / "work", "test", redactor, Containers("test"))
    async with client_for(settings, {"OPENAI_API_KEY": "none-needed"}) as client:
        caller = Caller(journal, client, price, redactor, budget, ids=CallIds(journal.session))
        tools = ToolRunner(journal, remembered_toolbox({}), place)
        services = Services(journal, caller, Limiter(), asking.control, tools, price, budget)
        brief = Brief({}, settings, settings_record(settings), [], None)
        yield AgentCalls(
            services, UNIT, brief, number=1, started=None, price_of=prices_of(settings), role="learner"
        )
