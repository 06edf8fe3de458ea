"""The built-in learner `gepa`: the search of the package `gepa`, one iteration a step.

All of the search is in files of the learner's state, so an interrupted one goes on as if it had not been.
The adapter is the best candidate by validation.
"""

import msgspec

from .authoring import Evolver, StepContext, StepResult, ToolError
from .gepa_params import Params
from .gepa_search import Iterating, Pool
from .gepa_state import Book
from .learnable import learnable_texts, put_texts
from .learner_material import rolled_out

PLACES = ("<curr_param>", "<side_info>")
"""What a template of one's own has to have: where the text to rewrite goes, and how the tasks went."""


class Gepa(Evolver):
    """Rewrites learnable files by GEPA: reflective mutation, and a Pareto front over validation tasks."""

    def setup(self, ctx: StepContext) -> None:
        """Look at the parameters, and at what there is to rewrite, to validate with and to ask."""
        params = _params(ctx)
        learnable_texts(ctx.workspace.adapter, params.files)
        template = params.reflection_prompt_template
        absent = [] if template is None else [one for one in PLACES if one not in template]
        if absent:
            raise ValueError(f"evolver.params.reflection_prompt_template: without {' and '.join(absent)}")
        if ctx.access.validation is None:
            raise ValueError(
                "the evolver `gepa` chooses among candidates by their validation scores, and there are no "
                "validation tasks; set `data.val` in run.yaml"
            )
        if "llm" not in ctx.tools:
            raise ValueError(
                "the evolver `gepa` asks a model, and no model is configured for it; "
                "set `model`, `llm` or `evolver.params.model` in run.yaml"
            )

    def step(self, ctx: StepContext) -> StepResult:
        """One iteration on the tasks of the step."""
        params = _params(ctx)
        book = Book(ctx.workspace.state, params.trace_chars)
        try:
            return _step(ctx, params, book)
        except ToolError as error:
            return StepResult("failed", f"the iteration was not finished: {error}")
        finally:
            book.save()

    def finalize(self, ctx: StepContext) -> str:
        """How many candidates there were, and how the accepted ones did."""
        iterations = Book(ctx.workspace.state, _params(ctx).trace_chars).search.iterations
        found = [one for one in iterations if one.accepted]
        first = f"{len(found)} of {len(iterations)} iterations found a candidate better than its parent."
        return "\n".join([first, *(f"- step {one.step}: {one.said}" for one in found)])


def _step(ctx: StepContext, params: Params, book: Book) -> StepResult:
    here = rolled_out(ctx.workspace.learning_material)
    now = learnable_texts(ctx.workspace.adapter, params.files)
    book.measure(book.enter(now), here)
    iterating = Iterating(ctx, params, book, here)
    if not book.search.val:
        problem = _begin(ctx, book, now, iterating)
        if problem:
            return StepResult("done", problem)
    pool = iterating.run()
    put_texts(ctx.workspace.adapter, book.texts(pool.candidates[pool.best][0]))
    lines = [f"# Step {ctx.progress.step}: {iterating.said}", ""]
    lines += [f"- no score: {task} of candidate {digest}" for digest, task in sorted(iterating.missing)]
    (ctx.workspace.output / "report.md").write_text("\n".join([*lines, *_table(pool), ""]), "utf-8")
    return StepResult("done", iterating.said)


def _begin(ctx: StepContext, book: Book, now: dict[str, str], iterating: Iterating) -> str:
    """Measure the starting adapter on the validation tasks; what is wrong where that does not work.

    A task without a score is tried again in the next step, and left out of the search when it has none then.
    """
    assert ctx.access.validation is not None
    lines = ctx.access.validation.read_bytes().splitlines()
    tasks = [str(msgspec.json.decode(line)["id"]) for line in lines if line.strip()]
    search = book.search
    search.seed = search.seed or book.enter(now)
    search.begun += 1
    trials = iterating.evaluated(book.texts(search.seed), tasks)
    scored = [trial.task for trial in trials if trial.score is not None]
    if not scored or (len(scored) < len(tasks) and search.begun == 1):
        return f"not begun: {len(tasks) - len(scored)} of {len(tasks)} validation tasks have no score"
    search.val = scored
    return ""


def _table(pool: Pool) -> list[str]:
    rows = [
        f"| {number}{' (best)' if number == pool.best else ''} | {digest} "
        f"| {', '.join(map(str, parents)) or '-'} | {score:.4g} |"
        for number, (digest, parents, score) in enumerate(pool.candidates)
    ]
    return [
        "",
        "| candidate | file in state/candidates | parent | validation |",
        "| --- | --- | --- | --- |",
        *rows,
    ]


def _params(ctx: StepContext) -> Params:
    try:
        return msgspec.convert(ctx.params, Params)
    except msgspec.ValidationError as error:
        raise ValueError(f"evolver.params of `gepa`: {error}") from None
