"""Looking at everything that a training run needs, before it is begun. Nothing of it is made or changed."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from eventlog.errors import EventLogError
from eventlog.storage import LogReader, lock_holder, log_exists
from projections import cap_amount, fold_log

from ..batch.control import Control
from ..batch.request import endpoint_host
from ..effects.secrets import Redactor, find_secrets
from ..errors import EvrunError, UsageFault
from .adapter_check import check_candidate
from .agents import load_agent
from .bindings import Binding, Bindings, agent_binding, judge_binding, learner_binding
from .caps import CAP_KEYS, caps_of, check_caps_hold, steps_afforded
from .config import TrainingConfig
from .config_file import config_from_record
from .inputs import input_digests
from .judges import load_judge
from .learner import Place, load_learner
from .opening import Prepared, changed, check_name_is_free, run_directory
from .probing import Probe, probe
from .starting import starting_point
from .tasks import Tasks, load_tasks
from .template import Template, load_template

State = Literal["ok", "warning", "PROBLEM"]
Found = TypeVar("Found")
README = "README.md"
MARKER = "check"
_FROM_HERMIT = "it was written for Hermit: change the line to 'from evrun import …'; the names are the same"


class Finding(NamedTuple):
    """What was looked at, what was found, and what to do."""

    state: State
    item: str
    detail: str
    hint: str | None = None


class Checkup(NamedTuple):
    """Everything that was looked at, and how the probe went; null: there was none."""

    findings: list[Finding]
    probe: Probe | None

    @property
    def passed(self) -> bool:
        """Whether the run can begin, or go on."""
        return all(one.state != "PROBLEM" for one in self.findings)


async def check_training(
    config: TrainingConfig, environment: Mapping[str, str], *, with_probe: bool
) -> Checkup:
    """Look at all that `evrun train` would refuse; if all is well, let the agent do one training task."""
    look = _Look(config, environment)
    await to_thread.run_sync(look.around)
    await look.at_learner()
    look.at_reach()
    await to_thread.run_sync(look.at_run)
    done = None
    if with_probe and look.tasks is not None and all(one.state != "PROBLEM" for one in look.findings):
        done = await probe(config, look.tasks, environment)
        look.found(done.state, "probe", done.detail, done.hint)
    return Checkup(look.findings, done)


def check_training_sync(
    config: TrainingConfig, environment: Mapping[str, str], *, with_probe: bool
) -> Checkup:
    """`check_training` for a process that does nothing else."""
    return anyio.run(partial(check_training, with_probe=with_probe), config, environment)


class _Look:
    """One look, part by part; a part that rests on another which failed is left out."""

    def __init__(self, config: TrainingConfig, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self.findings: list[Finding] = []
        self.tasks: Tasks | None = None
        self._template: Template | None = None
        self._bindings: Bindings | None = None
        self._parts: dict[str, Any] = {}
        self._calls: int | None = None

    def found(self, state: State, item: str, detail: str, hint: str | None = None) -> None:
        """Put something on the list."""
        self.findings.append(Finding(state, item, " ".join(detail.split()), hint))

    def _refused(self, item: str, error: EvrunError) -> None:
        hint = _FROM_HERMIT if "No module named 'hermit" in str(error) else error.hint
        self.found("PROBLEM", item, str(error), hint)

    def around(self) -> None:
        """Everything but the learner and the run."""
        config = self._config
        self.tasks = self._tried("tasks", lambda: load_tasks(config), _in_words)
        self._tried("task_info", lambda: _check_readme(config), lambda _: config.task_info or "none")
        self._template = self._tried("template", lambda: load_template(config.template), lambda one: one.name)
        if self._template is not None:
            template = self._template
            self._tried("start", lambda: _start(config, template), lambda head: f"commit {head[:12]}")
            self._parts["inputs"] = self._tried(
                "inputs", lambda: input_digests(config, template.files), lambda all_: f"{len(all_)} digests"
            )
        self._parts["agent"] = self._tried("agent", lambda: load_agent(config), lambda _: config.agent.name)
        judge = config.judge.path or "built in"
        self._parts["judge"] = self._tried(
            "judge", lambda: load_judge(config), lambda _: f"{config.judge.name} ({judge})"
        )
        self._at_models()
        self._tried("directories", lambda: _check_places(config), lambda _: "can be written")

    def _at_models(self) -> None:
        config, environment = self._config, self._environment
        before = len(self.findings)
        agent = self._tried("model of the agent", lambda: agent_binding(config, environment), _asked)
        judge = self._tried("model of the judge", lambda: judge_binding(config, environment), _asked)
        learner = self._tried("model of the learner", lambda: learner_binding(config, environment), _asked)
        if any(one.state == "PROBLEM" for one in self.findings[before:]):
            return
        bindings = self._bindings = Bindings(agent, judge, learner)
        caps = self._tried("budget", lambda: _caps(config, bindings), _capped)
        self._parts["caps"] = caps
        if caps == {} and not all(one is None or _is_free(one) for one in bindings):
            self.found(
                "warning", "budget", "no cap is set, and models that cost money may be asked",
                f"set {CAP_KEYS['usd']}",
            )  # fmt: skip

    async def at_learner(self) -> None:
        """Find the learner, in a process as in a run."""
        config = self._config
        try:
            place = Place(
                f"{MARKER}-{os.getpid()}",
                Redactor(find_secrets(self._environment)),
                Control(),
                [],
                Path(config.data.tasks).parent,
            )
            async with load_learner(config, place) as learner:
                await learner.start()
                methods = sorted(learner.methods)
            self.found("ok", "learner", f"{config.evolver.name} ({', '.join(methods)})")
            self._calls = len(set(methods) - {"step"})
        except EvrunError as error:
            self._refused("learner", error)

    def at_reach(self) -> None:
        """How far the cap on USD reaches."""
        caps, template = self._parts.get("caps"), self._template
        if not caps or self.tasks is None or template is None or self._bindings is None:
            return
        size = sum(len(content.data) for content in template.files.values())
        reach = steps_afforded(
            self._config, caps, self._bindings, self.tasks, adapter_bytes=size, calls=self._calls
        )
        if reach is not None:
            self.found("ok" if reach.steps >= reach.total else "warning", "steps", reach.words(caps["usd"]))

    def at_run(self) -> None:
        """What the run's name stands for now."""
        config, directory = self._config, run_directory(self._config)
        if not log_exists(directory / "log"):
            self._tried("run", lambda: check_name_is_free(config), lambda _: f"new: {directory}")
        elif config.trainer.resume_mode == "disable":
            self.found("ok", "run", f"{directory} will be put aside (trainer.resume_mode: disable)")
        else:
            self._tried("run", lambda: self._resumed(directory), lambda text: text)

    def _resumed(self, directory: Path) -> str:
        """How a run goes on.

        Raises:
            UsageFault: it is finished, or something changed that shapes it.
        """
        try:
            holder = lock_holder(directory / "log")
            with closing(LogReader.open(directory / "log")) as reader:
                state = fold_log(reader)
        except EventLogError as error:
            raise UsageFault(f"{directory}: {error}", "evrun verify tells more") from error
        if holder is not None:
            who = f"process {holder.get('pid', '?')} on {holder.get('host', 'this host')}"
            raise UsageFault(f"{directory} is in use by {who}", "wait for it to end, or end it: evrun stop")
        if state.sequence and not state.is_training:
            raise UsageFault(f"{directory} holds a run of prompts", "choose another trainer.run_name")
        if state.batch.finished_ns is not None:
            hint = "choose another trainer.run_name; or trainer.resume_mode=disable, which puts it aside"
            raise UsageFault(f"{directory} holds a run that is finished", hint)
        parts = (self.tasks, self._template, self._bindings, *self._parts.values())
        if state.sequence and all(part is not None for part in parts):
            assert self.tasks is not None
            assert self._template is not None
            assert self._bindings is not None
            prepared = Prepared(
                self._config, self.tasks, self._template, self._bindings, self._parts["agent"],
                self._parts["judge"], self._parts["caps"], self._parts["inputs"],
            )  # fmt: skip
            changed(prepared, config_from_record(state.batch.settings), state.training, accept=False)
        return f"goes on after step {state.training.next_step - 1}: {directory}"

    def _tried(self, item: str, look: Callable[[], Found], words: Callable[[Found], str]) -> Found | None:
        try:
            result = look()
        except EvrunError as error:
            self._refused(item, error)
            return None
        text = words(result)
        if text:
            self.found("ok", item, text)
        return result


def _in_words(tasks: Tasks) -> str:
    return f"{len(tasks.rows)}: train {len(tasks.train)}, val {len(tasks.val)}, test {len(tasks.test)}"


def _check_readme(config: TrainingConfig) -> None:
    if config.task_info is not None and not Path(config.task_info, README).is_file():
        raise UsageFault(
            f"task_info {config.task_info}: there is no {README} in it",
            "write down there what the learner has to know of the tasks",
        )


def _start(config: TrainingConfig, template: Template) -> str:
    """The commit that the run starts at, whose files pass the checks."""
    start = starting_point(Path(config.trainer.tree_dir), template, config.start_from)
    issues = check_candidate(template, template.files, start.files, start.files)
    if issues:
        first = issues[0]
        raise UsageFault(
            f"the starting adapter does not pass: {first.path}: {first.problem} (check {first.check})",
            "mend the template, or its check",
        )
    return start.head


def _check_places(config: TrainingConfig) -> None:
    for key, path in (
        ("trainer.output_dir", config.trainer.output_dir), ("trainer.tree_dir", config.trainer.tree_dir),
    ):  # fmt: skip
        there = next(place for place in (Path(path), *Path(path).parents) if place.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise UsageFault(f"{key} {path}: {there} is no directory that can be written", "choose another")


def _caps(config: TrainingConfig, bindings: Bindings) -> dict[str, int]:
    caps = caps_of(config)
    check_caps_hold(config, caps, bindings)
    return caps


def _capped(caps: Mapping[str, int]) -> str:
    def words(name: str, cap: int) -> str:
        unit = name if name in {"tokens", "calls", "hours"} else "usd"
        return f"{cap_amount(unit, cap)} ({CAP_KEYS[name]})"

    return ", ".join(words(name, cap) for name, cap in caps.items()) or "no cap"


def _asked(binding: Binding | None) -> str:
    if binding is None:
        return ""
    settings = binding.settings
    price = binding.price_of(settings.model)
    source = "not known" if price is None else price.source
    return f"{settings.model} at {endpoint_host(settings)}; price: {source}"


def _is_free(binding: Binding) -> bool:
    price = binding.price_of(binding.settings.model)
    return price is not None and not price.dearest_input and not price.dearest_output
