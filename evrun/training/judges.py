"""Who scores an output: a built-in judge, a function of the user's in processes of its own, or a model."""

import difflib
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from ..batch.judging import as_score
from ..effects.judge import FunctionJudge, JudgeFault, check_function
from ..errors import UsageFault
from . import judge_functions
from .config import JudgeConfig, TrainingConfig

TIMEOUT_MIN = 5.0
"""So long a judge may take for one output, where `judge.timeout_min` is not given."""
LLM = "llm"
IN_A_PROCESS = frozenset({"regex"})
_HINT = "def score(task, output): return 1.0    # or {'score': 1.0, 'feedback': 'why'}"


class Verdict(NamedTuple):
    """What a judge said; `score` is null where it failed, and `error` why."""

    score: float | None
    feedback: str | None = None
    extra: Any = None
    error: str | None = None


class TrainingJudge(Protocol):
    """Judges outputs while its context is open.

    `is_quick`: it judges at once, so that its word can share a commit with the end of what it judges.
    `asks_model`: it makes durable calls, and `rubric` is what they ask by.
    """

    is_quick: bool
    asks_model: bool
    rubric: str

    async def __aenter__(self) -> Self:
        """Ready to judge."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Its processes are gone."""

    async def judge(self, task: dict[str, Any], output: Any, /) -> Verdict:
        """What it says of an output (JSON); its own failure is a verdict too."""


class _Judge:
    """What all of them have in common."""

    is_quick = False
    asks_model = False
    rubric = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class BuiltInJudge(_Judge):
    """One of `judge_functions`, in this process."""

    is_quick = True

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        self._function = judge_functions.BUILT_IN[name]
        self._params = params

    async def judge(self, task: dict[str, Any], output: Any) -> Verdict:
        """At once."""
        try:
            return Verdict(*self._function(task, output, self._params))
        except judge_functions.CannotJudge as error:
            return Verdict(None, error=str(error))


class OwnJudge(_Judge):
    """A function in processes of its own, as many as judge at once, each call with a deadline."""

    def __init__(self, path: Path, name: str, params: dict[str, Any], timeout_s: float) -> None:
        self._functions = FunctionJudge(path, name)
        self._params = params
        self._timeout_s = timeout_s

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End its processes."""
        await self._functions.__aexit__(kind, error, trace)

    async def judge(self, task: dict[str, Any], output: Any) -> Verdict:
        """Ask a process."""
        try:
            said = await self._functions.score(task, output, self._params, timeout_s=self._timeout_s)
        except JudgeFault as fault:
            return Verdict(None, error=str(fault))
        score = as_score(said.score)
        if score is None:
            return Verdict(None, error=f"the judge gave {said.score!r:.100}; expected a finite number")
        return Verdict(score, said.feedback, said.extra)


class ModelJudge(_Judge):
    """A model with a rubric; its calls are made where rollouts are, see `judge_llm`."""

    asks_model = True

    def __init__(self, rubric: str) -> None:
        self.rubric = rubric

    async def judge(self, _task: dict[str, Any], _output: Any) -> Verdict:
        """Not here: a call needs the unit that pays for it."""
        raise AssertionError("a model is asked by whoever runs the rollout")


def load_judge(config: TrainingConfig) -> TrainingJudge:
    """The judge that the configuration names.

    Raises:
        UsageFault: no such judge, file or function; or it cannot be loaded; with what to do.
    """
    judge = config.judge
    timeout_s = 60.0 * (TIMEOUT_MIN if judge.timeout_min is None else judge.timeout_min)
    if judge.path is not None:
        path = Path(judge.path)
        if not path.is_file():
            raise UsageFault(f"judge.path: there is no file {path}", f"name a Python file with {_HINT}")
        check_function(path, judge.name, "judge.path", _HINT)
        return OwnJudge(path, judge.name, judge.params, timeout_s)
    if judge.name == LLM:
        return ModelJudge(_rubric(judge))
    if judge.name in IN_A_PROCESS:
        return OwnJudge(Path(judge_functions.__file__), judge.name, judge.params, timeout_s)
    if judge.name not in judge_functions.BUILT_IN:
        raise _unknown(judge.name)
    return BuiltInJudge(judge.name, judge.params)


def _unknown(name: str) -> UsageFault:
    known = [*judge_functions.BUILT_IN, LLM]
    near = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return UsageFault(
        f"judge.name: there is no built-in judge {name!r}{meant}",
        f"there are {', '.join(known)}; a function of your own is named by judge.path and judge.name",
    )


def _rubric(judge: JudgeConfig) -> str:
    """The rubric of a model: `judge.params.rubric`, or the text of `judge.params.rubric_file`."""
    given, file = judge.params.get("rubric"), judge.params.get("rubric_file")
    if isinstance(given, str) and given.strip():
        return given
    if not isinstance(file, str):
        raise UsageFault(
            "judge.name llm: there is no rubric",
            "say how to score in judge.params.rubric, or name a file in judge.params.rubric_file",
        )
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageFault(f"judge.params.rubric_file: {file}: {what}", "name a text file") from error
    if not text.strip():
        raise UsageFault(f"judge.params.rubric_file: {file} is empty", "say in it how to score")
    return text
