"""A trajectory before the user's own judge: what its function is given, and what becomes of what it says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from projections import Attempt, conversation_messages, prompt_text, render_conversation

from ..effects.judge import FunctionJudge, JudgeFault
from ..effects.secrets import Redactor
from . import judging
from .brief import Brief
from .decide import Ended, Finish, scored
from .judge_setting import function_of
from .settings import Settings


class JudgeFailed(Exception):
    """The trajectory could not be judged; says why."""


class Judging:
    """Lets a function judge ended conversations."""

    def __init__(self, judge: FunctionJudge, redactor: Redactor) -> None:
        self._judge = judge
        self._redactor = redactor

    async def finish(self, attempt: Attempt, brief: Brief, ended: Ended, timeout_s: float) -> Finish:
        """The end of the attempt, with its score.

        Raises:
            JudgeFailed: the function raised an error, or what it gave is no number.
        """
        prompt, trajectory = prompt_text(brief.row), as_given(attempt, brief, ended)
        try:
            said = await self._judge.score(prompt, trajectory, timeout_s=timeout_s)
        except JudgeFault as fault:
            raise JudgeFailed(self._redactor.clean_text(str(fault))) from fault
        value = judging.as_score(said.score)
        if value is None:
            raise JudgeFailed(f"the judge gave {said.score!r}; expected a finite number")
        feedback = None if said.feedback is None else self._redactor.clean_text(said.feedback)
        return scored(attempt, brief, ended, judging.Score(value, feedback), None)


@asynccontextmanager
async def open_judging(settings: Settings, redactor: Redactor) -> AsyncIterator[Judging | None]:
    """The function that judges, with its processes; null where no function does."""
    if settings.judge is None or judging.asks_model(settings):
        yield None
        return
    async with FunctionJudge(*function_of(settings.judge)) as judge:
        yield Judging(judge, redactor)


def as_given(attempt: Attempt, brief: Brief, ended: Ended) -> dict[str, Any]:
    """What the function sees: the conversation as the files show it and as messages, and how it ended."""
    messages = conversation_messages(brief.row, brief.record, attempt)
    conversations, _ = render_conversation(messages, brief.tools, None)
    return {
        "conversations": conversations,
        "messages": judging.shown(messages),
        "row": brief.row,
        "completed": ended.completed,
        "partial": not ended.completed,
        "finish_reason": ended.finish_reason,
        "api_calls": ended.counts.api_calls,
        "tool_calls": {name: list(numbers) for name, numbers in ended.counts.tools.items()},
    }
