"""Putting a session's means together, and giving them up again."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread

from eventlog.storage import LogWriter
from projections import TrainingViews

from ..batch.control import Control
from ..batch.headers import secret_variables
from ..batch.tool_calls import ToolPlace
from ..batch.tool_sources import prepare_tools, remembered_toolbox
from ..batch.work import Ui
from ..budget import Budget
from ..effects.clock import CallIds
from ..effects.containers import Containers
from ..effects.git import Tree
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor, find_secrets
from ..journal import Journal
from ..tools import open_toolbox
from .authoring import Access
from .bindings import Binding
from .blobs import Blobs
from .caps import CAP_KEYS
from .committing import Committer
from .config import TrainingConfig
from .hands import open_hands
from .history import History
from .judge_llm import JudgeModel
from .learner import Learner, Place, load_learner
from .learning import Desk, LearnerCalls
from .means import Means
from .opening import Prepared, run_directory
from .own_spending import OwnSpending
from .places import Places
from .purses import training_parts
from .rollouts import RolloutRunner
from .services import Roles, Shared, open_roles
from .trials import TrialRunner
from .working import AttemptTools, Hands


class Opened(NamedTuple):
    """An opened run, and how this session of it is ended."""

    writer: LogWriter
    views: TrainingViews
    journal: Journal
    marker: str
    control: Control
    active_ns: Callable[[], int]


@asynccontextmanager
async def assembled(
    prepared: Prepared, environment: Mapping[str, str], opened: Opened, ui: Ui
) -> AsyncIterator[Means]:
    """All that a session works with, as long as the context; what it started is gone afterwards.

    Raises:
        UsageFault: the learner, a tool or the tree cannot be used.
    """
    config, state, journal = prepared.config, opened.views.state, opened.journal
    names = {name for one in prepared.bindings if one is not None for name in secret_variables(one.settings)}
    redactor = Redactor(find_secrets(environment, *sorted(names)))
    places = Places(run_directory(config), journal.session)
    places.keep(state.training)
    await to_thread.run_sync(places.clear_old)
    blobs = Blobs(state.training, opened.writer.reader())
    budget = Budget(state.ledger, opened.active_ns, ui.note, parts=training_parts(state), options=CAP_KEYS)
    journal.watch(budget.see)
    binding = prepared.bindings.learner
    models = [] if binding is None else [binding.settings.model]
    place = Place(opened.marker, redactor, opened.control, models, Path(config.data.tasks).parent)
    learner = load_learner(config, place)
    try:
        async with (
            learner,
            prepared.agent,
            prepared.judge,
            _tools(prepared, environment, opened, redactor, places) as tools,
        ):
            await learner.start()
            shared = Shared(journal, opened.control, budget, redactor, tools, CallIds(journal.session))
            known = state.ledger.total.settled_calls > 0
            async with (
                open_roles(prepared.bindings, shared, environment, known=known) as roles,
                open_hands(
                    prepared, shared, roles.agent, environment, directory=places.attempt,
                    marker=opened.marker, note=ui.note,
                ) as hands,
            ):  # fmt: skip
                tree = await to_thread.run_sync(Tree.create, Path(config.trainer.tree_dir))
                with tree:
                    parts = _Parts(shared, roles, hands, learner, tree, blobs, places)
                    yield _means(prepared, opened, parts, ui.note)
                await to_thread.run_sync(places.clear)
    finally:
        await to_thread.run_sync(kill_orphans, opened.marker)


class _Parts(NamedTuple):
    shared: Shared
    roles: Roles
    hands: Hands
    learner: Learner
    tree: Tree
    blobs: Blobs
    places: Places


def _means(prepared: Prepared, opened: Opened, parts: _Parts, note: Callable[[str], None]) -> Means:
    shared, roles, hands, learner, tree, blobs, places = parts
    config, state = prepared.config, opened.views.state.training
    rollouts = RolloutRunner(
        hands, prepared.judge, config=config, blobs=blobs, journal=shared.journal, control=shared.control,
        budget=shared.budget, redactor=shared.redactor, ids=shared.ids,
        judge_model=_judge_model(prepared.bindings.judge, roles),
    )  # fmt: skip
    trial_runner = TrialRunner(
        prepared, rollouts, journal=shared.journal, control=shared.control, blobs=blobs, places=places
    )
    spending = OwnSpending(
        config.evolver.bound, journal=shared.journal, budget=shared.budget, control=shared.control,
        ids=shared.ids, where="evolver.bound",
    )  # fmt: skip
    history = History(state, opened.writer.reader(), blobs, shared=places.work / "history")
    tasks = prepared.tasks
    desk = Desk(
        config, prepared.template, shared.journal, learner, roles.learner, prepared.bindings.learner,
        spending, shared.redactor, blobs, places, history, _access(config, prepared, places),
        frozenset({*tasks.train, *tasks.val}),
    )  # fmt: skip
    return Means(
        prepared, shared.journal, shared.control, opened.views, tree, blobs, places, rollouts,
        LearnerCalls(desk, trial_runner.for_learner), Committer(config, prepared.template, state, blobs),
        opened.active_ns, note,
    )  # fmt: skip


@asynccontextmanager
async def _tools(
    prepared: Prepared,
    environment: Mapping[str, str],
    opened: Opened,
    redactor: Redactor,
    places: Places,
) -> AsyncIterator[AttemptTools]:
    """The tools that the built-in agent may have."""
    containers = Containers(opened.marker)
    place = ToolPlace(places.work, opened.marker, redactor, containers)
    binding = prepared.bindings.agent
    if binding is None:
        yield AttemptTools(opened.journal, remembered_toolbox({}), place, places)
        return
    ready = await prepare_tools(binding.settings, environment)
    try:
        async with open_toolbox(ready, environment, marker=f"{opened.marker}.servers") as toolbox:
            yield AttemptTools(opened.journal, toolbox, place, places)
    finally:
        await containers.end_all()


def _judge_model(binding: Binding | None, roles: Roles) -> JudgeModel | None:
    if binding is None or roles.judge is None:
        return None
    return JudgeModel(roles.judge, binding.settings, binding.price_of)


def _access(config: TrainingConfig, prepared: Prepared, places: Places) -> Access:
    """What else a learner may read: the validation tasks, in a file of their own."""
    info = None if config.task_info is None else Path(config.task_info)
    if not prepared.tasks.val:
        return Access(None, info)
    return Access(places.validation([prepared.tasks.rows[task] for task in prepared.tasks.val]), info)
