"""`evrun import hermit`: a run whose log says what a run directory of Hermit says, which stays as it is."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from eventlog.events import (
    BudgetChanged,
    Event,
    InputDigest,
    RunFinished,
    RunStarted,
    SessionClosed,
    encode_event,
)
from eventlog.storage import LogReader, LogWriter, log_exists
from projections import TRAINING, RunState, open_training_views, usd

from ..batch.opening import opened
from ..batch.options import check_run_name
from ..effects.clock import now_ns
from ..effects.secrets import Redactor, find_secrets
from ..errors import UsageFault
from ..hermes.reading import Unread
from ..training.blobs import Blobs, write_files
from ..training.caps import caps_of
from ..training.config import TrainingConfig
from ..training.config_file import config_record
from ..training.inputs import input_digests
from ..training.tasks import epoch_order, load_tasks
from ..training.tree import restore_tree
from ..training.yaml_text import write_yaml
from ..versions import versions
from ..whole_log import LOG, commits, write_whole
from .configuring import Places, as_typed, base_of, run_name_of, translated
from .contents import as_contents
from .ends import evaluation_facts, final_facts, is_finished
from .facts import Moment, Told
from .money import Books
from .reading import Source, read_mapping
from .survey import CONFIG, STEPS, Survey, open_tree, survey
from .timing import span_ns

TEMPLATE, RUN_YAML = "template", "run.yaml"
_SHOWN_ID = 8


class HermitImport(msgspec.Struct, kw_only=True):
    """What somebody asked for: which run directory to take in, and as which run.

    `run_name` is Hermit's where it is null. `config` is the run.yaml that Hermit was started with, for
    relative paths that cannot be found otherwise; `tree` the git repository with the run's commits, likewise.
    """

    source: Path
    run_name: str | None = None
    output_dir: Path = Path("data")
    config: Path | None = None
    tree: Path | None = None


class HermitImported(msgspec.Struct):
    """What was made: the run's directory, state and chain, and what is in the source and not in the run.

    `config` is the file to go on with; `reason` says why the run can go on, null where it has finished.
    """

    directory: Path
    config: Path
    state: RunState
    chain: bytes
    reason: str | None
    unread: list[Unread]
    notes: list[str]


class _Plan(msgspec.Struct):
    """What is to be written."""

    found: Survey
    config: TrainingConfig
    directory: Path
    inputs: list[InputDigest]
    caps: dict[str, int]
    told: Told
    books: Books
    notes: list[str]

    @property
    def reason(self) -> str | None:
        """Why the run can go on; null where it has finished."""
        if is_finished(self.found):
            return None
        last = self.found.steps[-1].step if self.found.steps else 0
        where = f"imported from {self.found.source.directory}, after step {last}"
        return where if self.found.summary is None else f"{where}; {self.found.summary.stop_reason}"


def import_hermit(
    asked: HermitImport, environment: Mapping[str, str], warn: Callable[[str], None]
) -> HermitImported:
    """Make a run of a Hermit run directory. Until its log is whole and durable, there is no run.

    Secrets that `environment` holds are replaced in what is taken, but for commits, which stay as they are.

    Raises:
        UsageFault: refused, or nothing in the directory can be used; nothing was made.
        LogLocked: another process makes a run of this name just now.
        OSError: the log could not be written; nothing was made.
    """
    recorded = read_mapping(asked.source / CONFIG)
    source = Source(asked.source, Redactor(find_secrets(environment)))
    with open_tree(recorded, asked.source, asked.tree) as tree:
        plan = _planned(asked, survey(source, recorded, tree))
        # Its clock shows the times of Hermit, so what the writer says about slow disks means nothing.
        clock = _Clock(plan.told.first_ns())
        write_whole(plan.directory, lambda _: None, partial(_fill, plan=plan, clock=clock), clock)
        config = _beside(plan)
    return _shown(plan, config, warn)


def _shown(plan: _Plan, config: Path, warn: Callable[[str], None]) -> HermitImported:
    """The views and the tree of what was made."""
    with closing(LogReader.open(plan.directory / LOG)) as reader:
        views = open_training_views(plan.directory, reader)
        views.finish()
        state, tree = views.state, Path(plan.config.trainer.tree_dir)
        try:
            restore_tree(state.training, Blobs(state.training, reader), tree)
        except OSError as error:
            warn(f"the tree {tree} could not be written: {error}; `evrun replay` makes it")
        notes = [*plan.notes, *plan.told.notes, *_bounds_needed(plan)]
        chain, unread = reader.end.chain, plan.found.source.unread
        return HermitImported(plan.directory, config, state, chain, plan.reason, unread, notes)


class _Clock:
    """Shows the time that it was set to; never one that is still to come."""

    def __init__(self, at_ns: int | None) -> None:
        self._at_ns = at_ns

    def __call__(self) -> int:
        now = now_ns()
        return now if self._at_ns is None else min(self._at_ns, now)

    def show(self, at_ns: int | None) -> None:
        """Set it; null: to what it is."""
        self._at_ns = at_ns


def _planned(asked: HermitImport, found: Survey) -> _Plan:
    name = asked.run_name or run_name_of(found.recorded, asked.source)
    check_run_name(name)
    output_dir = asked.output_dir.resolve()
    directory = output_dir / name
    _check_is_free(asked, directory)
    identity = Path(str(found.recorded["template"]["id"])).name
    tree_dir = output_dir / "trees" / f"{identity}-{found.root[:_SHOWN_ID]}"
    base = base_of(found.recorded, asked.source, asked.config)
    places = Places(name, output_dir, tree_dir, directory / TEMPLATE)
    config, notes = translated(found.recorded, base, places)
    books = Books(1)
    order, inputs = _order_and_inputs(config, found, notes)
    return _Plan(
        found, config, directory, inputs, caps_of(config), Told(found, config, books, order), books, notes
    )


def _check_is_free(asked: HermitImport, directory: Path) -> None:
    source = asked.source.resolve()
    if directory == source or source in directory.parents:
        raise UsageFault(
            f"{directory} is in {asked.source}, which is not to be changed",
            hint="choose another --run-name or --output-dir",
        )
    if log_exists(directory / LOG):
        raise UsageFault(f"{directory} holds a run already", hint="choose another --run-name")
    there = sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []
    foreign = [entry for entry in there if entry != "log.unfinished"]
    if foreign:
        raise UsageFault(f"{directory} holds {', '.join(foreign[:5])}", hint="choose another --run-name")


def _order_and_inputs(
    config: TrainingConfig, found: Survey, notes: list[str]
) -> tuple[Callable[[int], list[str]] | None, list[InputDigest]]:
    """How an epoch takes its tasks, and the digests of the inputs; as far as the files are there."""
    try:
        train = load_tasks(config).train
    except UsageFault as fault:
        notes.append(f"{fault}; to go on, the run needs its tasks (--config names the run.yaml of Hermit)")
        return None, []
    try:
        inputs = input_digests(config, as_contents(found.tree.files(found.root)))
    except UsageFault as fault:
        notes.append(str(fault))
        inputs = []
    return lambda epoch: epoch_order(train, config, epoch), inputs


def _fill(writer: LogWriter, plan: _Plan, clock: _Clock) -> None:
    lines = _size(plan.found)
    run = plan.config.trainer.run_name
    first: list[Event] = [
        RunStarted(TRAINING, run, config_record(plan.config), {}, versions(), plan.inputs),
        opened(writer.epoch, os.getpid()),
    ]
    for events in commits(first, plan.told.beginning()):
        writer.append(events)
    for moment in _moments(plan):
        clock.show(moment.time_ns)
        for events in commits([], moment.events):
            writer.append(events)
    clock.show(None)
    writer.append([encode_event(event) for event in _last(plan, writer.epoch)])
    if _size(plan.found) != lines:
        raise UsageFault(
            f"{plan.found.source.directory / STEPS} changed while it was read",
            hint="wait until nobody works on that run, then import it",
        )


def _moments(plan: _Plan) -> Iterator[Moment]:
    found, told = plan.found, plan.told
    yield from told.steps()
    besides = told.spent_besides()
    if besides:
        yield Moment(told.last_ns(), besides)
    yield from final_facts(found, told.contents, plan.config.trainer.run_name, told.state)
    yield from evaluation_facts(found, told.contents, plan.books)


def _last(plan: _Plan, session: int) -> list[Event]:
    """Caps hold from here on: Hermit's were no promise. Then the end."""
    spent = plan.found.summary.spending if plan.found.summary is not None else None
    if spent is None and plan.found.steps:
        spent = plan.found.steps[-1].budget_after
    active_ns = span_ns(None if spent is None else spent.seconds)
    events: list[Event] = [BudgetChanged({}, dict(plan.caps))] if plan.caps else []
    if plan.reason is None:
        steps = sum(not line.bootstrap for line in plan.found.steps)
        return [*events, RunFinished({"steps": steps}), SessionClosed(session, "finished", None, active_ns)]
    ended = "interrupted" if plan.found.summary is None else "paused"
    return [*events, SessionClosed(session, ended, plan.reason, active_ns)]


def _beside(plan: _Plan) -> Path:
    """The template that the run was trained with, and a run.yaml to go on with."""
    write_files(plan.directory / TEMPLATE, as_contents(plan.found.tree.files(plan.found.root)))
    config = plan.directory / RUN_YAML
    config.write_text(write_yaml(as_typed(plan.config)), "utf-8")
    return config


def _bounds_needed(plan: _Plan) -> Iterator[str]:
    """Caps are held before money is spent, so whoever pays by himself has to say how much at most."""
    caps = [name for name in ("usd", "tokens") if name in plan.caps]
    if plan.reason is None or not caps:
        return
    so_far = " and ".join(f"{usd(plan.books.dearest(role))} USD" for role in ("rollout", "learner"))
    keys = ", ".join(f"{part}.bound.{name}" for name in caps for part in ("agent", "evolver"))
    yield (
        "caps are held before anything is spent: to go on, say what one rollout and one call of the learner "
        f"take at most, in {keys} (so far {so_far})"
    )


def _size(found: Survey) -> int:
    path = found.source.directory / STEPS
    return path.stat().st_size if path.exists() else 0
