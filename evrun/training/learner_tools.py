"""The tools of a learner: each call recorded when it begins and ends, and later fed from the record."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio

from eventlog.events import Issue, ToolFinished, ToolStarted
from projections import adapter_digest, loads_lenient, normalise_usage

from ..agents import AgentCalls
from ..agents.calls import GRACE_S, canonical
from ..agents.context import completion
from ..agents.matching import ToolMatcher
from ..batch.request import request_body
from ..effects.clock import monotonic
from ..effects.secrets import Redactor
from ..journal import Journal
from .authoring import ToolError
from .blobs import Refused, entries_of, read_files
from .learner_arguments import LLM, described, problem_of

_ANSWERED = 200


class RunEnding(Exception):
    """The run is ending, so a tool cannot do its work: the learner's call stays open."""


class Diverged(Exception):
    """A learner asked something else than its attempt has recorded."""


class LearnerTools(Protocol):
    """What a learner may ask of the run while it works; `RunTools` is what it asks."""

    def describe(self) -> list[dict[str, Any]]:
        """The tools that there are: name, description, source, input_schema, output_schema."""

    async def invoke(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run one of them.

        Raises:
            ToolError: it cannot do what it was asked.
            RunEnding, Diverged: as these say.
        """


class Hooks(NamedTuple):
    """What the trainer does for a learner's tools.

    `check` looks at a candidate's directory. `budget` says what is left of the caps and what was spent, as
    JSON values. `trials` runs tasks with an adapter's directory and gives back one object a task; its number
    is that of the tool's call, the same again after a crash. `ids` are those that may be run. `adapter` is
    the working copy, `roots` where other candidates may lie: a relative path is below the first of them.
    """

    check: Callable[[Path], Awaitable[list[Issue]]]
    budget: Callable[[], dict[str, Any]]
    trials: Callable[[list[str], Path, int], Awaitable[list[dict[str, Any]]]]
    ids: frozenset[str]
    adapter: Path
    roots: tuple[Path, ...]


class RunTools:
    """The tools check_spec, budget, run_agent and, with a model, llm, for one attempt of the learner.

    The attempt must have begun. A call is known again by the tool, what it was asked, and the candidate's
    files: not by directories, which are others in each session.
    """

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
        self._hooks = hooks
        self._journal = journal
        self._redactor = redactor
        self._unit = unit
        self._attempt = attempt
        self._ask = ask
        self._matcher = ToolMatcher(journal.state.open_attempt(unit).own)
        self._claimed = anyio.Event()
        self._at_work = 0
        self._answers = 0

    def describe(self) -> list[dict[str, Any]]:
        """The tools that there are: name, description, source, input_schema, output_schema."""
        return described(with_model=self._ask is not None)

    async def invoke(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool, or give back what it gave before.

        Raises:
            ToolError: it cannot do what it was asked.
            RunEnding: the run is ending.
            Diverged: another call was recorded.
        """
        problem = problem_of(name, arguments)
        if problem is not None:
            raise ToolError(problem)
        match name:
            case "budget":
                return await self._durable(name, [], lambda _: self._budget())
            case "check_spec":
                place, digest = self._candidate(arguments.get("path"))
                return await self._durable(name, [digest], lambda _: self._check(place))
            case "run_agent":
                ids = self._allowed(arguments["task_ids"])
                place, digest = self._candidate(arguments.get("adapter"))
                return await self._durable(
                    name, [digest, *ids], lambda number: self._trials(ids, place, number)
                )
            case _:
                return await self._llm(**arguments)

    async def _budget(self) -> dict[str, Any]:
        return self._hooks.budget()

    async def _check(self, candidate: Path) -> dict[str, Any]:
        issues = await self._hooks.check(candidate)
        told = [{"path": one.path, "check": one.check, "problem": one.problem} for one in issues]
        return {"passed": not issues, "issues": told}

    async def _trials(self, ids: list[str], candidate: Path, number: int) -> dict[str, Any]:
        return {"results": [_as_judged(one) for one in await self._hooks.trials(ids, candidate, number)]}

    def _allowed(self, ids: list[str]) -> list[str]:
        strangers = [task for task in ids if task not in self._hooks.ids]
        if strangers:
            raise ToolError(
                f"run_agent: {', '.join(strangers[:5])}: only tasks of data.train and data.val may be run"
            )
        return ids

    def _candidate(self, given: str | None) -> tuple[Path, str]:
        """The directory of a candidate, and the digest of its files."""
        place = self._hooks.adapter if given is None else (self._hooks.roots[0] / given)
        whole = place.resolve()
        if not any(whole.is_relative_to(root.resolve()) for root in self._hooks.roots):
            raise ToolError(
                f"{given} is not in the workspace: a candidate lies below it, for example in scratch/"
            )
        if not whole.is_dir():
            raise ToolError(f"{given} is no directory")
        try:
            return whole, adapter_digest(entries_of(read_files(whole)))
        except Refused as error:
            raise ToolError(f"the candidate cannot be used: {error}") from None

    async def _durable(
        self, name: str, identity: list[str], work: Callable[[int], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        digest = hashlib.sha256(json.dumps(identity).encode()).digest()[:16]
        recorded = self._matcher.claim(name, digest)
        if recorded is not None:
            self._claimed.set()
            self._claimed = anyio.Event()
            assert recorded.content is not None, "those that did not end are not matched"
            return _result(recorded.content, success=recorded.success)
        await self._refuse_another(name)
        number = self._matcher.number_for(name, digest)
        self._at_work += 1
        try:
            await self._journal.record(ToolStarted(self._unit, self._attempt, 0, number, name, digest))
            content, success, took_ms = await self._done(lambda: work(number))
            await self._journal.record(
                ToolFinished(self._unit, self._attempt, 0, number, content, success, took_ms)
            )
        finally:
            self._at_work -= 1
        return _result(content, success=success)

    async def _done(self, work: Callable[[], Awaitable[dict[str, Any]]]) -> tuple[bytes, bool, int]:
        began, success = monotonic(), True
        try:
            value = await work()
        except (ToolError, ValueError) as error:
            value, success = {"error": str(error)}, False
        content = self._redactor.clean(json.dumps(value, separators=(",", ":")).encode())
        return content, success, round((monotonic() - began) * 1000)

    async def _refuse_another(self, name: str) -> None:
        """What is new may come while others ask for what is recorded, but not instead of it."""
        with anyio.move_on_after(GRACE_S):
            while self._left():
                await self._claimed.wait()
        left = self._left()
        if left and not self._at_work and (self._ask is None or not self._ask.in_flight):
            raise Diverged(f"the learner asked something else than before: {name}, with {left} recorded")

    def _left(self) -> int:
        answers = 0 if self._ask is None else self._ask.unclaimed_answers
        return self._matcher.unclaimed + answers

    async def _llm(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        ask = self._ask
        if ask is None:
            raise ToolError("llm: no model is configured: set llm or model in run.yaml")
        plain: dict[str, Any] = json.loads(request_body(ask.brief.settings, messages, [], ask.brief.seed))
        request = plain | {name: value for name, value in options.items() if value is not None}
        reply = await ask.ask(canonical("chat/completions", request))
        if reply.status != _ANSWERED:
            why = str(json.loads(reply.body)["error"]["message"])
            if ask.stopping:
                raise RunEnding(why)
            raise ToolError(f"{LLM}: {why}")
        self._answers += 1
        answer = completion(reply.body, self._answers)
        used = normalise_usage(answer.raw.get("usage"))
        return {
            "content": answer.text,
            "reasoning": answer.reasoning or "",
            "finish_reason": answer.finish_reason,
            "tool_calls": answer.message.get("tool_calls", []),
            "usage": {
                "model": str(request.get("model", "")),
                "input_tokens": used.input_tokens,
                "cached_input_tokens": used.cached_input_tokens,
                "output_tokens": used.output_tokens,
                "calls": 1,
                "cost_usd": None,
            },
        }


def _as_judged(result: dict[str, Any]) -> dict[str, Any]:
    """A rollout's result that also has its judgement where Hermit's learners look for it."""
    judge = {"score": result.get("score"), "feedback": result.get("feedback"), "extra": None}
    return {**result, "judge": result.get("judge", None if judge["score"] is None else judge)}


def _result(content: bytes, *, success: bool) -> dict[str, Any]:
    result: dict[str, Any] = loads_lenient(content)
    if not success:
        raise ToolError(str(result["error"]))
    return result
