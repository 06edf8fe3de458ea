"""Rollouts on a real log without a trainer: one step is open, its jobs are run, in one session or several."""

import json
import os
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from eventlog.events import (
    BudgetChanged,
    FileEntry,
    HistoryStored,
    RolloutJudged,
    RunStarted,
    SessionOpened,
    SpendInDoubt,
    StepStarted,
    decode_event,
)
from eventlog.storage import LogReader, LogWriter
from evrun.batch.control import Control
from evrun.batch.endpoint import prices_of
from evrun.batch.sending import Services
from evrun.batch.settings import Settings
from evrun.batch.tool_calls import ToolPlace, ToolRunner, attempt_directory
from evrun.budget import Budget
from evrun.caps import CAP_OPTIONS
from evrun.effects.clock import CallIds, now_ns, random_bytes
from evrun.effects.containers import Containers
from evrun.effects.limiter import Limiter
from evrun.effects.llm import Endpoint, LlmClient
from evrun.effects.secrets import Redactor
from evrun.executors.rollouts import Given, open_node_hands
from evrun.journal import Journal
from evrun.loop import Caller
from evrun.tools import BUILT_IN, Toolbox
from evrun.training.agents import load_agent
from evrun.training.blobs import Blobs
from evrun.training.config import (
    AgentConfig,
    BoundConfig,
    DataConfig,
    EvolverConfig,
    JudgeConfig,
    TrainerConfig,
    TrainingConfig,
)
from evrun.training.judge_llm import JudgeModel
from evrun.training.judges import load_judge
from evrun.training.rollouts import RolloutRunner
from evrun.training.working import AgentHands, Job
from projections import RunState, recorded, rollout_unit
from tests import warm
from tests.runs import ROOT, environment

PRICE = "m=1000,1000"
"""A thousandth of a dollar for each token."""


class Folds:
    """What a journal folds into, without files."""

    def __init__(self):
        self.state = RunState()

    def apply(self, record):
        """Fold one more."""
        self.state.apply(record)


def configuration(directory, *, agent="chat", judge="exact", retries=2, timeout_s=None, bound=None, **more):
    """A configuration; `more` are further keys of the agent and the judge."""
    path, _, name = judge.rpartition(":")
    minutes = None if timeout_s is None else timeout_s / 60
    return TrainingConfig(
        data=DataConfig(tasks="t", train="t"),
        agent=AgentConfig(
            name=agent,
            timeout_min=minutes,
            params=more.get("params", {}),
            bound=None if bound is None else BoundConfig(usd=bound),
        ),
        judge=JudgeConfig(
            path=path or None,
            name=name,
            params=more.get("judge_params", {}),
            timeout_min=more.get("judge_timeout_s", 60) / 60,
        ),
        template="prompt-only",
        evolver=EvolverConfig(name="reflect"),
        trainer=TrainerConfig(run_name="r", output_dir=str(directory), tree_dir="t", retries=retries),
    )


class Stand:
    """A run directory, in which sessions come and go. `tasks` are rows by id; their step is open."""

    def __init__(self, directory, tasks, *, base_url=None, caps=None, toolsets=(), secrets=None, **config):
        self.directory = directory
        self.tasks = tasks
        self.config = configuration(directory, **config)
        self.base_url = base_url
        self.caps = caps
        self.redactor = Redactor(secrets or {})
        self.adapter = None
        self.control = None
        self.cluster = None
        self.state = None
        self.notes = []
        self.see = lambda record: None
        timeout = self.config.agent.timeout_min
        self.settings = Settings(
            dataset="",
            model="m" if base_url else "",
            base_url=base_url,
            prices=[PRICE],
            max_tokens=100,
            prompt_timeout=3600.0 if timeout is None else timeout * 60,
            retries=1,
            toolsets=list(toolsets),
        )

    @contextmanager
    def journal(self):
        """A session; a run that is new begins its first step."""
        writer = LogWriter.open(self.directory / "log", clock_ns=now_ns, random_bytes=random_bytes)
        try:
            folds = Folds()
            for record in recorded(writer.reader()):
                folds.apply(record)
            yield Journal(writer, folds), Blobs(folds.state.training, writer.reader())
        finally:
            writer.close()

    async def _open(self, journal):
        opened = SessionOpened(journal.session, os.getpid(), "h", "0")
        ledger = journal.state.ledger
        if journal.state.training.current is not None:
            lost = [
                SpendInDoubt(call.name, "lost", call.bound_nano_usd, call.bound_tokens)
                for call in ledger.reserved.values()
            ]
            await journal.record(opened, *lost)
            return
        files: list[FileEntry] = []
        await journal.record(
            RunStarted("training", "r", {}, {}, {}, []),
            opened,
            BudgetChanged({}, self.caps or {}),
            HistoryStored("h", "h", [], complete=True, files=files, root_files=files),
            StepStarted(1, 1, list(self.tasks), "h", [b""] * len(self.tasks)),
        )

    @asynccontextmanager
    async def runner(self):
        """A runner in a session of its own."""
        with self.journal() as (journal, blobs):
            self.state, self.control = journal.state, Control()
            await self._open(journal)
            budget = Budget(journal.state.ledger, lambda: 0, lambda _: None, options=CAP_OPTIONS)
            journal.watch(budget.see)
            journal.watch(self.see)
            ids = CallIds(journal.session)
            agent, judge = load_agent(self.config), load_judge(self.config)
            async with agent, judge, self._services(journal, budget, ids) as services:
                model = (
                    None
                    if services is None
                    else JudgeModel(services, self.settings, prices_of(self.settings))
                )
                async with self._hands(services, agent, f"marker-{journal.session}") as hands:
                    yield RolloutRunner(
                        hands, judge, config=self.config, blobs=blobs, journal=journal, control=self.control,
                        budget=budget, redactor=self.redactor, ids=ids, judge_model=model,
                    )  # fmt: skip

    @asynccontextmanager
    async def _hands(self, services, agent, marker):
        """Here; or, with a cluster, on its workers."""
        if self.cluster is None:
            yield AgentHands(
                services, self.settings, agent, price_of=prices_of(self.settings),
                params=self.config.agent.params, control=self.control,
                redactor=self.redactor, directory=self.place, marker=marker,
            )  # fmt: skip
            return
        given = Given(self.config, self.settings, os.environ, marker, self.notes.append)
        async with open_node_hands(self.cluster, services, agent, given, with_model=True) as hands:
            yield hands

    @asynccontextmanager
    async def _services(self, journal, budget, ids):
        if self.base_url is None:
            yield None
            return
        place = ToolPlace(self.directory / "work", "marker", self.redactor, Containers("marker"))
        tools = ToolRunner(journal, Toolbox(BUILT_IN.values()), place)
        tools.directory = self.place
        price = prices_of(self.settings)("m")
        async with LlmClient(Endpoint(self.base_url), connections=4, timeout_s=30) as client:
            caller = Caller(journal, client, price, self.redactor, budget, ids=ids)
            yield Services(journal, caller, Limiter(None, None), self.control, tools, price, budget)

    def place(self, unit, attempt):
        """Where an attempt works."""
        return attempt_directory(self.directory / "work", unit.replace("/", "-"), attempt)

    def job(self, task, role="rollout"):
        """The job of a task."""
        return Job(rollout_unit(1, task), task, self.tasks[task], self.adapter, "h", role)

    async def run_all(self, *names):
        """A session that runs jobs at once; all of them where none is named."""
        async with self.runner() as runner, anyio.create_task_group() as group:
            for task in names or self.tasks:
                group.start_soon(runner.run, self.job(task), conclude)

    def run(self, *names):
        """The same, from outside a loop."""
        anyio.run(self.run_all, *names)

    def events(self, *types):
        """All durable events, of some types."""
        with LogReader.open(self.directory / "log") as reader:
            found = [decode_event(record.payload) for record in reader.read()]
        return [event for event in found if not types or isinstance(event, types)]

    def commits(self):
        """The names of the events of each commit, but for the first."""
        with LogReader.open(self.directory / "log") as reader:
            frames: dict[int, list[str]] = {}
            for record in reader.read():
                frames.setdefault(record.time_ns, []).append(type(decode_event(record.payload)).__name__)
        return list(frames.values())[1:]

    def rollout(self, task):
        """Where a task stands, from the log alone."""
        state = RunState()
        with LogReader.open(self.directory / "log") as reader:
            for record in recorded(reader):
                state.apply(record)
        self.state = state
        return state.training.rollouts[rollout_unit(1, task)]


def conclude(job, attempt, score, feedback, extra, error, wall_ms):  # noqa: PLR0917 (a `Conclude`)
    """The end of a step's rollout."""
    return RolloutJudged(job.unit, attempt, score, feedback, extra, error, wall_ms)


def written(directory, text, name="agent.py"):
    """A file of the user's; gives back `FILE:`."""
    path = directory / name
    path.write_text(text)
    return f"{path}:"


def output_of(finished):
    """An output as it is recorded."""
    return json.loads(finished.output)


def in_a_process(directory, tasks, names, **given):
    """A session in a process of its own, which runs tasks one after the other; its exit code."""
    arguments = [json.dumps([str(directory), tasks, names, given])]
    with warm.start(
        "tests.training.rolling:main", arguments, cwd=ROOT, environment=environment(), stderr=2
    ) as it:
        return it.wait(60)


def main():
    """Such a process."""
    directory, tasks, names, given = json.loads(sys.argv[1])
    stand = Stand(Path(directory), tasks, **given)

    async def work():
        async with stand.runner() as runner:
            for task in names:
                await runner.run(stand.job(task), conclude)

    anyio.run(work)
