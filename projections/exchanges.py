"""What an own agent asked and was answered, and what its tools gave back: folded from an attempt's events.

An own agent may ask several things at once, and asks all of it again from its beginning in the next session.
So there are no turns here, only exchanges in the order in which they were recorded.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from eventlog.events import (
    BudgetReserved,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
)

LISTS = ("messages", "input")
"""The fields of a request that grow with a chat."""
BASES_LOOKED_AT = 16
"""An agent that leads several chats at once comes back to one of these."""

Request = dict[str, Any]


class Exchange(msgspec.Struct, gc=False):
    """One request of an own agent: the event that tells it, its body's SHA-256, and its answer if any.

    `refused` is a failure that no repeat would have helped.
    """

    asked: ModelAsked
    request: bytes = b""
    body: bytes | None = None
    refused: ModelCallFailed | None = None
    elapsed_ms: int = 0
    in_doubt: bool = False

    @property
    def call(self) -> str:
        """The call that carried it."""
        return self.asked.call


class ToolUse(msgspec.Struct, gc=False):
    """One durable tool call of an agent's code; `content` is null until it has ended."""

    tool: str
    arguments: bytes
    content: bytes | None = None
    success: bool = False


class Exchanges(msgspec.Struct, gc=False):
    """All of an attempt: `made` in the order in which they were recorded, `tools` by their number."""

    made: list[Exchange] = []
    tools: dict[int, ToolUse] = {}

    def asked(self, event: ModelAsked) -> None:
        """A request is about to be sent."""
        self.made.append(Exchange(event))

    def reserved(self, event: BudgetReserved) -> bool:
        """The reservation of a request that was told of; false where it is none of these."""
        exchange = self.of(event.call)
        if exchange is None:
            return False
        exchange.request = event.request
        return True

    def answered(self, event: ModelAnswered) -> bool:
        """An answer; false where it answers none of these."""
        exchange = self.of(event.call)
        if exchange is None:
            return False
        exchange.body, exchange.elapsed_ms = event.body, event.elapsed_ms
        return True

    def failed(self, event: ModelCallFailed) -> bool:
        """No usable answer came; false where it is about none of these."""
        exchange = self.of(event.call)
        if exchange is None:
            return False
        exchange.refused = None if event.retryable else event
        return True

    def went_in_doubt(self, event: SpendInDoubt) -> None:
        """What a call cost cannot be known."""
        exchange = self.of(event.call)
        if exchange is not None:
            exchange.in_doubt = True

    def tool_started(self, event: ToolStarted) -> None:
        """A tool is about to run."""
        self.tools[event.position] = ToolUse(event.tool, event.arguments)

    def tool_finished(self, event: ToolFinished) -> None:
        """A tool has ended. One that never began changes nothing."""
        use = self.tools.get(event.position)
        if use is not None:
            use.content, use.success = event.content, event.success

    def of(self, call: str) -> Exchange | None:
        """The exchange of a call: mostly one of the newest."""
        return next((one for one in reversed(self.made) if one.call == call), None)

    @property
    def open_calls(self) -> list[str]:
        """The calls that wait for an answer, or never got one."""
        return [one.call for one in self.made if one.body is None]

    def requests(self) -> dict[str, Request]:
        """Every request whole, by its call. Lists share their items."""
        whole: dict[str, Request] = {}
        for exchange in self.made:
            whole[exchange.call] = whole_request(exchange.asked, whole)
        return whole


class Told(NamedTuple):
    """A request as `ModelAsked` tells it: what differs from the request of the call `base`."""

    base: str
    kept: int
    dropped: list[str]
    request: bytes


def tell(request: Request, earlier: Mapping[str, Request]) -> Told:
    """A request as what it differs in from one of the `earlier` ones (by call, oldest first)."""
    name = _list_of(request)
    base, kept = "", 0
    for call in list(earlier)[: -BASES_LOOKED_AT - 1 : -1]:
        common = _common(_items(request, name), _items(earlier[call], name))
        if not base or common > kept:
            base, kept = call, common
    before = earlier.get(base, {})
    differing = {
        key: value for key, value in request.items() if key not in before or not _same(value, before[key])
    }
    if name is not None:
        differing[name] = request[name][kept:]
    return Told(base, kept, sorted(before.keys() - request.keys()), _json(differing))


def whole_request(asked: ModelAsked, earlier: Mapping[str, Request]) -> Request:
    """The request that an event tells of, given those that were told before it."""
    before = earlier.get(asked.base, {})
    told: Request = json.loads(asked.request)
    name = _list_of(told)
    request = {key: value for key, value in before.items() if key not in asked.dropped} | told
    if name is not None and asked.kept:
        request[name] = [*before[name][: asked.kept], *told[name]]
    return request


def _list_of(request: Request) -> str | None:
    return next((name for name in LISTS if isinstance(request.get(name), list)), None)


def _items(request: Request, name: str | None) -> Sequence[Any]:
    items = request.get(name) if name is not None else None
    return items if isinstance(items, list) else ()


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items at the beginning are the same."""
    same = 0
    for mine, theirs in zip(one, other, strict=False):
        if not _same(mine, theirs):
            break
        same += 1
    return same


def _same(one: Any, other: Any) -> bool:
    """The same on the wire: to Python 1, 1.0 and true are equal too."""
    return one is other or (bool(one == other) and _json(one) == _json(other))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
