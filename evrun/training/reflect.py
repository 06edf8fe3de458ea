"""The built-in learner `reflect`: a model rewrites the adapter from the feedback; kept is what does better.

One rewriting a step. The candidate does the tasks of the step, and is compared with its parent task by task;
a task that one of them could not do, or that could not be judged, counts for neither. All that is remembered
from step to step is in ``state/reflect.json``.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec

from .authoring import Evolver, StepContext, StepResult
from .learnable import candidate_directory, learnable_texts, put_texts
from .learner_material import Trial, rolled_out, trials_of
from .pairing import Pairing, paired
from .reflect_prompt import answered, complaint, question

STATE = "reflect.json"
GIST = 300


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """``evolver.params`` of `reflect`.

    `files`: patterns of the files to rewrite, all learnable ones where empty. `perfect_score`: a step all of
    whose tasks have it asks no model. `examples`: how many tasks the model is shown, the worst first.
    `trace_chars`: how much of each text of a task. `tries`: how often it is asked for files that pass the
    check. `remember`: how many rewritings that did no better it is told of. `again`: whether the parent does
    the tasks again for the comparison, instead of its rollouts being taken; for agents that vary much.
    `model`, `max_tokens` and `temperature` are of its calls; the run looks at `model` before it starts.
    """

    files: list[str] = []
    perfect_score: float = 1.0
    examples: int = 8
    trace_chars: int = 2000
    tries: int = 2
    remember: int = 5
    again: bool = False
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A rewriting: how it did in one sentence, and how its texts begin."""

    step: int
    said: str
    gist: str = ""


class Memory(msgspec.Struct, kw_only=True):
    """What is remembered: how many rewritings there were, those that were kept, the newest of the others."""

    rewritings: int = 0
    kept: list[Tried] = []
    others: list[Tried] = []


class Outcome(NamedTuple):
    """A step's rewriting: its texts, and how they did; `problem` says why they could not be tried."""

    texts: dict[str, str]
    pairing: Pairing
    problem: str = ""

    @property
    def kept(self) -> bool:
        """Whether it did better than its parent."""
        return not self.problem and self.pairing.gain > 0

    @property
    def said(self) -> str:
        """How it did, in one sentence."""
        if self.problem:
            return f"not kept: {self.problem}"
        dropped, pairs = self.pairing.dropped, self.pairing.pairs
        left_out = f"; {len(dropped)} without a score on one side left out" if dropped else ""
        if not pairs:
            return f"not kept: no task has a score on both sides{left_out}"
        word = "kept" if self.kept else "not kept"
        means = f"{self.pairing.before:.4g} → {self.pairing.after:.4g}"
        return f"{word}: {means} on {len(pairs)} tasks{left_out}"


class Reflect(Evolver):
    """Rewrites learnable files through a model, and keeps a rewriting only if it does better."""

    def setup(self, ctx: StepContext) -> None:
        """Look at the parameters, and at what there is to rewrite and to ask."""
        params = _params(ctx)
        learnable_texts(ctx.workspace.adapter, params.files)
        if "llm" not in ctx.tools:
            raise ValueError(
                "the evolver `reflect` asks a model, and no model is configured for it; "
                "set `model`, `llm` or `evolver.params.model` in run.yaml"
            )

    def step(self, ctx: StepContext) -> StepResult:
        """One rewriting, compared with its parent on the tasks of the step."""
        params, memory = _params(ctx), _recall(ctx)
        trials = rolled_out(ctx.workspace.learning_material)
        scores = [trial.score for trial in trials if trial.score is not None]
        if not scores:
            return _report(ctx, StepResult("done", "no task has a score: nothing to learn from"))
        if min(scores) >= params.perfect_score:
            return _report(ctx, StepResult("done", f"every task scored {params.perfect_score} or more"))
        files = learnable_texts(ctx.workspace.adapter, params.files)
        outcome = _outcome(ctx, params, memory, files, trials)
        if outcome.kept:
            put_texts(ctx.workspace.adapter, outcome.texts)
        _remember(ctx, params, memory, outcome)
        return _report(ctx, StepResult("done", outcome.said, _rationale(files, outcome)), outcome)

    def finalize(self, ctx: StepContext) -> str:
        """How many rewritings there were, and what those that were kept were worth."""
        memory = _recall(ctx)
        first = f"{len(memory.kept)} of {memory.rewritings} rewritings did better on the tasks of their step."
        return "\n".join([first, *(f"- step {one.step}: {one.said}" for one in memory.kept)])


def _params(ctx: StepContext) -> Params:
    try:
        return msgspec.convert(ctx.params, Params)
    except msgspec.ValidationError as error:
        raise ValueError(f"evolver.params of `reflect`: {error}") from None


def _outcome(
    ctx: StepContext, params: Params, memory: Memory, files: dict[str, str], trials: list[Trial]
) -> Outcome:
    """One rewriting: asked for, checked, and tried on the tasks of the step."""
    messages = _messages(ctx, params, memory, files, trials)
    texts: dict[str, str] = {}
    problems: list[str] = []
    for number in range(1, params.tries + 1):
        answer = _ask(ctx, params, messages)
        texts, problems = answered(answer, files)
        if not problems:
            candidate = candidate_directory(ctx.workspace, f"candidate-{number}", texts)
            checked = ctx.tools["check_spec"](path=str(candidate))
            problems = [f"{issue['path']}: {issue['problem']}" for issue in checked["issues"]]
            if not problems:
                return Outcome(texts, _compared(ctx, params, trials, candidate))
        messages = complaint(messages, answer, problems)
    return Outcome(texts, Pairing([], []), "; ".join(problems))


def _messages(
    ctx: StepContext, params: Params, memory: Memory, files: dict[str, str], trials: list[Trial]
) -> list[dict[str, str]]:
    worst = sorted(trials, key=lambda trial: (trial.score is None, trial.score or 0.0))[: params.examples]
    tried = [f"{one.said}\n  {one.gist}" for one in memory.others]
    return question(files, worst, about=_about(ctx), tried=tried, limit=params.trace_chars)


def _ask(ctx: StepContext, params: Params, messages: list[dict[str, str]]) -> str:
    chosen = {"max_tokens": params.max_tokens, "temperature": params.temperature}
    answer = ctx.tools["llm"](
        messages=messages, **{key: one for key, one in chosen.items() if one is not None}
    )
    return str(answer["content"] or "")


def _compared(ctx: StepContext, params: Params, trials: list[Trial], candidate: Path) -> Pairing:
    """The candidate and its parent on the tasks of the step."""
    ids = [trial.task for trial in trials]
    before = trials_of(ctx.tools["run_agent"](task_ids=ids)) if params.again else trials
    after = trials_of(ctx.tools["run_agent"](task_ids=ids, adapter=str(candidate)))
    return paired({one.task: one.score for one in before}, {one.task: one.score for one in after})


def _about(ctx: StepContext) -> str:
    place = ctx.access.task_info
    readme = None if place is None else Path(place) / "README.md"
    return readme.read_text("utf-8") if readme is not None and readme.is_file() else ""


def _rationale(files: dict[str, str], outcome: Outcome) -> str:
    return "\n".join(
        f"{path}: {len(files[path])} → {len(text)} characters" for path, text in outcome.texts.items()
    )


def _recall(ctx: StepContext) -> Memory:
    file = ctx.workspace.state / STATE
    return msgspec.json.decode(file.read_bytes(), type=Memory) if file.is_file() else Memory()


def _remember(ctx: StepContext, params: Params, memory: Memory, outcome: Outcome) -> None:
    gist = " | ".join(f"{path}: {' '.join(text.split())[:GIST]}" for path, text in outcome.texts.items())
    tried = Tried(step=ctx.progress.step, said=outcome.said, gist=gist)
    memory.rewritings += 1
    if outcome.kept:
        memory.kept.append(tried)
    else:
        memory.others = [*memory.others, tried][-params.remember :] if params.remember else []
    text = msgspec.json.format(msgspec.json.encode(memory), indent=1)
    (ctx.workspace.state / STATE).write_bytes(text + b"\n")


def _report(ctx: StepContext, result: StepResult, outcome: Outcome | None = None) -> StepResult:
    lines = [f"# Step {ctx.progress.step}: {result.summary}"]
    if outcome is not None:
        rows = [f"| {task} | {before:.4g} | {after:.4g} |" for task, before, after in outcome.pairing.pairs]
        lines += ["", "| task | before | with the rewriting |", "| --- | --- | --- |", *rows] if rows else []
        lines += ["", *(f"- left out: {task}" for task in outcome.pairing.dropped)]
        lines += [f"\n## {path}\n\n~~~~text\n{text.rstrip()}\n~~~~" for path, text in outcome.texts.items()]
    (ctx.workspace.output / "report.md").write_text("\n".join(lines) + "\n", "utf-8")
    return result
