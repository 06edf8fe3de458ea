"""The package `gepa`, driven by what is recorded of a search; used here and nowhere else.

The package's engine runs from the beginning in every step: what it measured and what the model wrote in
earlier steps is given back from the learner's state (`gepa_state`), so it comes to where it was without a
call, with its random choices and all, and makes one more iteration.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .authoring import StepContext, ToolError
from .gepa_params import Params
from .gepa_state import Book, Iteration
from .learnable import candidate_directory
from .learner_material import Trial, trials_of
from .pairing import Pairing, paired

try:
    from gepa.api import optimize
    from gepa.core.adapter import EvaluationBatch
    from gepa.proposer.reflective_mutation.reflection_lm import StatelessReflectionLM
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the evolver `gepa` needs the package gepa: pip install 'evrun[gepa]'"
    ) from error

Texts = dict[str, str]


class Pool(NamedTuple):
    """A search's candidates (digest, numbers of the parents, mean score in validation), and the best one."""

    candidates: list[tuple[str, list[int], float]]
    best: int


class Iterating:
    """The search so far again, and one iteration more, on the tasks that were rolled out (`here`).

    `said` is what became of the new iteration, `missing` the (candidate, task) that had no score in it.
    """

    def __init__(self, ctx: StepContext, params: Params, book: Book, here: list[Trial]) -> None:
        self._ctx = ctx
        self._params = params
        self._book = book
        self._here = here
        self._at = -1
        self._child = ""
        self._accepted = False
        self._broken: ToolError | None = None
        self.said = "nothing to improve: every task has the perfect score"
        self.missing: set[tuple[str, str]] = set()

    def run(self) -> Pool:
        """Make the iteration, and enter it into the book.

        Raises:
            ToolError: a tool could not do what it was asked; the iteration has not been.
        """
        found = self._optimized()
        if self._broken is not None:
            raise self._broken
        self._book.search.iterations.append(
            Iteration(
                step=self._ctx.progress.step,
                tasks=[trial.task for trial in self._here],
                child=self._child,
                accepted=self._accepted,
                said=self.said,
                missing=sorted(self.missing),
            )
        )
        candidates = [
            (self._book.enter(texts), [one for one in parents if one is not None], score)
            for texts, parents, score in zip(
                found.candidates, found.parents, found.val_aggregate_scores, strict=True
            )
        ]
        return Pool(candidates, found.best_idx)

    def _optimized(self) -> Any:
        search = self._book.search
        done = len(search.iterations)
        params = self._params
        adapter: Any = _Adapter(self.evaluated, {trial.task: trial.given for trial in self._here}, params)
        proposed: Any = self._proposed
        return optimize(
            seed_candidate=self._book.texts(search.seed),
            trainset=_Tasks([]),
            valset=_Tasks(search.val),
            adapter=adapter,
            candidate_selection_strategy=params.candidate_selection_strategy,
            skip_perfect_score=params.skip_perfect_score,
            perfect_score=params.perfect_score,
            batch_sampler=_Minibatches(self._minibatch),
            custom_candidate_proposer=proposed,
            acceptance_criterion=_Acceptance(self._accept),
            stop_callbacks=lambda state: state.i >= done,
            logger=_Silent(),
            track_best_outputs=False,
            seed=params.seed,
        )

    def _minibatch(self, number: int) -> list[str]:
        """The tasks of an iteration (from 0); it has begun now."""
        self._at = number
        known = self._replayed
        return known.tasks if known is not None else [trial.task for trial in self._here]

    @property
    def _replayed(self) -> Iteration | None:
        """The iteration that is being made again; null in the new one."""
        iterations = self._book.search.iterations
        return iterations[self._at] if 0 <= self._at < len(iterations) else None

    def evaluated(self, texts: Texts, tasks: Sequence[str]) -> list[Trial]:
        """How a candidate does tasks: as it is known, or by doing them."""
        digest = self._book.enter(texts)
        replayed = self._replayed
        if replayed is None:
            return self._measured(digest, texts, tasks)
        gone = set(replayed.missing)
        return [
            _trial(task, None if (digest, task) in gone else self._book.measured(digest, task))
            for task in tasks
        ]

    def _measured(self, digest: str, texts: Texts, tasks: Sequence[str]) -> list[Trial]:
        new = [
            task
            for task in dict.fromkeys(tasks)
            if self._book.measured(digest, task) is None and (digest, task) not in self.missing
        ]
        if new:
            place = candidate_directory(self._ctx.workspace, digest, texts)
            self._book.measure(
                digest, trials_of(self._ctx.tools["run_agent"](task_ids=new, adapter=str(place)))
            )
        self.missing |= {(digest, task) for task in new if self._book.measured(digest, task) is None}
        return [_trial(task, self._book.measured(digest, task)) for task in tasks]

    def _proposed(
        self, parent: Texts, dataset: Mapping[str, Sequence[Mapping[str, Any]]], components: list[str]
    ) -> Texts:
        """New texts for some of a candidate's components; none where nothing usable came."""
        replayed = self._replayed
        if replayed is not None:
            texts = self._book.texts(replayed.child) if replayed.child else parent
            return {path: text for path, text in texts.items() if text != parent[path]}
        try:
            return self._asked(parent, dataset, components)
        except ToolError as error:  # the engine would swallow it
            self._broken = error
            return {}

    def _asked(
        self, parent: Texts, dataset: Mapping[str, Sequence[Mapping[str, Any]]], components: list[str]
    ) -> Texts:
        asker = StatelessReflectionLM(self._ask, self._params.reflection_prompt_template)
        proposal, _ = asker.reflect(parent, dataset, components)
        new = {path: f"{text.strip()}\n" for path, text in proposal.new_texts.items() if text.strip()}
        changed = {path: text for path, text in new.items() if text != parent[path]}
        if not changed:
            self.said = "the model wrote nothing new"
            return {}
        child = {**parent, **changed}
        digest = self._book.enter(child)
        place = candidate_directory(self._ctx.workspace, digest, child)
        issues = self._ctx.tools["check_spec"](path=str(place))["issues"]
        if issues:
            said = "; ".join(f"{issue['path']}: {issue['problem']}" for issue in issues)
            self.said = f"the candidate fails the check: {said}"
            return {}
        self._child = digest
        return changed

    def _ask(self, prompt: str | list[dict[str, Any]]) -> str:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        chosen = {"max_tokens": self._params.max_tokens, "temperature": self._params.temperature}
        given = {name: value for name, value in chosen.items() if value is not None}
        return str(self._ctx.tools["llm"](messages=messages, **given)["content"] or "")

    def _accept(self, proposal: Any) -> bool:
        """Whether a candidate enters the pool: better on pairs, and with a score on each task of `val`."""
        replayed = self._replayed
        if replayed is not None:
            return replayed.accepted
        before, after = (
            {trial.task: trial.score for trial in one.trajectories}
            for one in (proposal.eval_before, proposal.eval_after)
        )
        pairing = paired(before, after)
        said = _said(pairing)
        or_equal = self._params.acceptance_criterion == "improvement_or_equal" and bool(pairing.pairs)
        if not (pairing.gain > 0 or (or_equal and pairing.gain == 0)):
            self.said = f"not accepted: {said}"
            return False
        trials = self.evaluated(proposal.candidate, self._book.search.val)
        unknown = [trial.task for trial in trials if trial.score is None]
        if unknown:
            self.said = f"not accepted: {said}, but no validation score for {', '.join(unknown)}"
            return False
        mean = sum(trial.score or 0.0 for trial in trials) / len(trials)
        self._accepted, self.said = True, f"accepted: {said}; {mean:.4g} in validation"
        return True


class _Adapter:
    """What the package asks how candidates do."""

    propose_new_texts = None

    def __init__(
        self,
        evaluated: Callable[[Texts, Sequence[str]], list[Trial]],
        given: Mapping[str, Any],
        params: Params,
    ) -> None:
        self._evaluated = evaluated
        self._given = given
        self._chars = params.trace_chars

    def evaluate(self, batch: list[str], candidate: Texts, capture_traces: bool = False) -> Any:  # noqa: FBT001, FBT002 (the package's face)
        """Scores of tasks. What has none counts as 0.0 here, and is left out where it is compared."""
        trials = self._evaluated(candidate, batch)
        return EvaluationBatch(
            outputs=[trial.output for trial in trials],
            scores=[trial.score or 0.0 for trial in trials],
            trajectories=trials if capture_traces else None,
        )

    def make_reflective_dataset(
        self, _candidate: Texts, evaluated: Any, components: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """What the model is told of tasks that have a score."""
        rows = [
            {
                "Inputs": str(self._given.get(trial.task))[: self._chars],
                "Generated Outputs": trial.output,
                "Feedback": f"{trial.feedback} (score {trial.score})".strip(),
            }
            for trial in evaluated.trajectories
            if trial.score is not None
        ]
        return dict.fromkeys(components, rows)


class _Tasks:
    """A set of tasks, which are their ids."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = list(ids)

    def all_ids(self) -> Sequence[str]:
        """All of them, in order."""
        return self._ids

    def fetch(self, ids: Sequence[str]) -> list[str]:
        """The tasks of these ids."""
        return list(ids)

    def __len__(self) -> int:
        return len(self._ids)


class _Minibatches:
    """Which tasks an iteration looks at: those of its step."""

    def __init__(self, minibatch: Callable[[int], list[str]]) -> None:
        self._minibatch = minibatch

    def next_minibatch_ids(self, _loader: Any, state: Any) -> list[str]:
        """The tasks of the iteration that begins."""
        return self._minibatch(state.i)


class _Acceptance:
    """Whether a candidate is better than its parent."""

    def __init__(self, accepted: Callable[[Any], bool]) -> None:
        self._accepted = accepted

    def should_accept(self, proposal: Any, _state: Any) -> bool:
        """Ask the step."""
        return self._accepted(proposal)


class _Silent:
    """A logger that says nothing: what matters is in the report."""

    def log(self, _message: str) -> None:
        """Say nothing."""


def _trial(task: str, measured: Any) -> Trial:
    if measured is None:
        return Trial(task, None, None, None, "", "no score")
    return Trial(task, None, measured.output, measured.score, measured.feedback, "")


def _said(pairing: Pairing) -> str:
    left_out = f"; {len(pairing.dropped)} without a score on one side left out" if pairing.dropped else ""
    return f"{pairing.before:.4g} → {pairing.after:.4g} on {len(pairing.pairs)} tasks{left_out}"
