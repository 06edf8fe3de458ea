"""Who scores an output: a built-in judge, a function of the user's in processes of its own, or a model."""

from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from .config import TrainingConfig


class Verdict(NamedTuple):
    """What a judge said; `score` is null where it failed, and `error` why."""

    score: float | None
    feedback: str | None = None
    extra: Any = None
    error: str | None = None


class TrainingJudge(Protocol):
    """Judges outputs while its context is open.

    `is_quick`: it judges at once, so that its word can share a commit with the end of what it judges.
    `asks_model`: it makes durable calls.
    """

    is_quick: bool
    asks_model: bool

    async def __aenter__(self) -> Self:
        """Ready to judge."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Its processes are gone."""

    async def judge(self, task: dict[str, Any], output: Any) -> Verdict:
        """What it says of an output (JSON); its own failure is a verdict too."""


def load_judge(config: TrainingConfig) -> TrainingJudge:
    """The judge that the configuration names.

    Raises:
        UsageFault: no such judge, file or function; or it cannot be loaded; with what to do.
    """
    raise NotImplementedError
