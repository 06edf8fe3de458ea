"""What an agent of the user's own is given: durable model calls, durable tool calls, and what it works on."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from projections import Answer, ToolCall, read_answer

from ..batch.request import request_body
from .calls import AgentCalls, canonical


class CallRefused(Exception):
    """A model call was not answered: `status` as a provider would have given it, and why.

    With `paused` the run is ending (a cap, a signal): the agent will be run again from its beginning when the
    run goes on, so it may simply let this through.
    """

    def __init__(self, status: int, message: str, *, paused: bool) -> None:
        super().__init__(message)
        self.status = status
        self.paused = paused


class Completion(msgspec.Struct, frozen=True):
    """A model's answer: its text, its reasoning, its tool calls, and the whole response as it came.

    `finish_reason` is in OpenAI's spelling. `arguments` of a tool call are the text that the model wrote.
    """

    text: str
    reasoning: str | None
    tool_calls: list[ToolCall]
    finish_reason: str | None
    raw: dict[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """The answer as the next request's message."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        return message


class Context:
    """An attempt of an own agent, as its code sees it.

    `row` is the dataset row, `directory` the attempt's private directory (it exists), `unit` and `attempt`
    name it, `tools` are the definitions of the tools that it was given (`--toolsets`, `--tools`,
    `--mcp-config`), as requests carry them.
    """

    def __init__(self, calls: AgentCalls) -> None:
        self._calls = calls
        self._asked = 0
        self.unit = calls.unit
        self.attempt = calls.number
        self.row: dict[str, Any] = calls.brief.row
        self.directory: Path = calls.directory
        self.tools: list[dict[str, Any]] = [
            {"type": "function", "function": tool} for tool in calls.brief.tools
        ]

    async def complete(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        model: str | None = None,
        **options: Any,
    ) -> Completion:
        """Ask a model: recorded, under the run's caps, paid once; in a later session answered from the log.

        `messages` and `tools` are in OpenAI's shape; `options` are further fields of the request and count
        more than the run's settings.

        Raises:
            CallRefused: there is no answer, and why.
        """
        settings = self._calls.brief.settings
        plain: dict[str, Any] = json.loads(request_body(settings, list(messages), [], self._calls.brief.seed))
        request = (
            plain | ({"model": model} if model else {}) | ({"tools": list(tools)} if tools else {}) | options
        )
        reply = await self._calls.ask(canonical("chat/completions", request))
        if reply.status != 200:  # noqa: PLR2004 (an answer)
            error = json.loads(reply.body)["error"]
            raise CallRefused(reply.status, str(error["message"]), paused=self._calls.stopping)
        self._asked += 1
        return completion(reply.body, self._asked)

    async def tool(self, name: str, /, **arguments: Any) -> Any:
        """Run one of the run's tools: recorded when it begins and ends; later its recorded result is given.

        The result is what a model would be given, as JSON: mostly an object with `error` (null or a text).
        """
        return json.loads(await self._calls.tool(name, arguments))


def completion(body: bytes, number: int) -> Completion:
    """A recorded answer as the agent is given it; a tool call without an id gets ``call_<number>_<n>``."""
    answer: Answer = read_answer(body)
    calls = [
        call if call.id else ToolCall(f"call_{number}_{place}", call.name, call.arguments)
        for place, call in enumerate(answer.tool_calls)
    ]
    return Completion(answer.text, answer.reasoning, calls, answer.finish_reason, json.loads(body))
