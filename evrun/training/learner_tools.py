"""The tools of a learner: each call recorded when it begins and ends, and later fed from the record."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from eventlog.events import Issue

from ..agents import AgentCalls
from ..effects.secrets import Redactor
from ..journal import Journal


class RunEnding(Exception):
    """To be raised by a hook when the run is ending: the learner's call stays open."""


class Hooks(NamedTuple):
    """What the trainer does for a learner's tools.

    `check` looks at a candidate's directory. `budget` says what is left of the caps and what was spent, as
    JSON values. `trials` runs tasks with an adapter's directory and gives back one object a task; `ids` are
    those that may be run. `adapter` is the working copy, `roots` where other candidates may lie.
    """

    check: Callable[[Path], Awaitable[list[Issue]]]
    budget: Callable[[], dict[str, Any]]
    trials: Callable[[list[str], Path], Awaitable[list[dict[str, Any]]]]
    ids: frozenset[str]
    adapter: Path
    roots: tuple[Path, ...]


class RunTools:
    """The tools check_spec, budget, run_agent and, with a model, llm, for one call of the learner."""

    def __init__(
        self,
        hooks: Hooks,
        *,
        journal: Journal,
        redactor: Redactor,
        unit: str,
        attempt: int,
        ask: AgentCalls | None,
    ) -> None:
        self._journal = journal
        self._redactor = redactor
        self._unit = unit
        self._attempt = attempt
        self._hooks = hooks
        self._ask = ask

    def describe(self) -> list[dict[str, Any]]:
        """The tools that there are: name, description, source, input_schema, output_schema."""
        raise NotImplementedError

    async def invoke(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool, or give back what it gave before."""
        raise NotImplementedError
