"""The durable calls of an own agent's attempt: asked of the log first, else made, recorded, and paid once."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import anyio
import msgspec

from eventlog.errors import AppendError
from eventlog.events import Event, ModelAsked, PromptStarted
from projections import Attempt, Exchange, Exchanges, Request, tell

from ..batch.brief import Brief
from ..batch.request import endpoint_host
from ..batch.sending import Next, Prepared, Services, Unsendable
from ..batch.tool_calls import OwnCall
from ..bounds import request_bound
from ..errors import EvrunError
from ..ledger import Order, request_digest
from ..loop import Told
from ..prices import Price
from ..providers import Verdict
from .endpoint_asked import Asked, Reply
from .endpoint_errors import error_reply
from .matching import Matcher, ToolMatcher

GRACE_S = 2.0
"""An agent that asks several things at once may ask them in another order than before: so long something new
waits for what is recorded to be asked for again."""
_NO_OUTPUT = {"embeddings": 0}


class Stop(NamedTuple):
    """Why the agent has to be ended: `diverged` (another request than before), or the end of its prompt."""

    reason: str
    diverged: bool = False
    unsendable: Unsendable | None = None


class AgentCalls:
    """What one attempt of an own agent may do. `stopped` is set when nothing more will be answered.

    `started`, where given, is not yet recorded: it goes into the log with the first call. `role` is what its
    calls are for. Without `strict`, what is recorded need not be asked for again: what is asked again is fed,
    all else is new.
    """

    def __init__(
        self,
        services: Services,
        unit: str,
        brief: Brief,
        *,
        number: int,
        started: PromptStarted | None,
        price_of: Callable[[str], Price | None],
        role: str = "rollout",
        strict: bool = True,
    ) -> None:
        self._s = services
        self._strict = strict
        self.unit = unit
        self.number = number
        self.brief = brief
        self.directory = services.tools.directory(unit, number)
        self._started = started
        self._price_of = price_of
        self._role = role
        recorded = self._recorded()
        self._matcher = Matcher(recorded)
        self._tools = ToolMatcher(recorded)
        self._earlier: dict[str, Request] = {} if recorded is None else recorded.requests()
        self._made = 0
        self._sender = services.sender(unit, brief.settings, role)
        self.in_flight = 0
        self.refused = False
        self.stop: Stop | None = None
        self.stopped = anyio.Event()
        self._claimed = anyio.Event()
        self.broken: Exception | None = None

    @property
    def left_s(self) -> float:
        """Seconds that the prompt has left."""
        return self._sender.left_s

    @property
    def stopping(self) -> bool:
        """Whether the run is ending: what is in flight may finish, nothing new is sent."""
        return self._s.control.stopping

    @property
    def unclaimed(self) -> int:
        """How much of what is recorded the agent has not asked for again."""
        return self._matcher.unclaimed + self._tools.unclaimed

    @property
    def unclaimed_answers(self) -> int:
        """The same of models' answers alone."""
        return self._matcher.unclaimed

    def take_started(self) -> tuple[Event, ...]:
        """The attempt's first event, for whoever records first."""
        started, self._started = self._started, None
        return () if started is None else (started,)

    def attempt(self) -> Attempt:
        """The attempt as it is recorded."""
        if self._started is not None:
            return Attempt.start(self._started, 0, self._s.journal.session)
        return self._s.journal.state.open_attempt(self.unit)

    async def ask(self, asked: Asked) -> Reply:
        """Answer a request: from the log, or by the endpoint, or with why not. Never twice for one payment.

        What the run has to know of (a log that cannot be written) is kept in `broken`.
        """
        self.in_flight += 1
        try:
            return await self._ask(asked)
        except (AppendError, EvrunError) as error:
            self._break(error)
            return error_reply(500, "evrun cannot go on; it says why.", "evrun")
        finally:
            self.in_flight -= 1

    async def tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Run a tool of the run, or give back what it gave before: the JSON text that a model would see."""
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
        recorded = self._tools.claim(name, digest)
        if recorded is not None:
            assert recorded.content is not None
            return recorded.content.decode("utf-8", "surrogatepass")
        if self._tools.unclaimed and not self._matcher.unclaimed and not self.in_flight:
            await self._diverge(f"a call of the tool {name}")
        number = self._tools.take_number()
        try:
            call = OwnCall(number, name, arguments, digest)
            return await self._s.tools.call(
                self.attempt(), call, self.brief, self.left_s, self.take_started()
            )
        except (AppendError, EvrunError) as error:
            self._break(error)
            raise

    async def _ask(self, asked: Asked) -> Reply:
        digest = request_digest(asked.body)
        with anyio.move_on_after(GRACE_S):
            while self._is_early(digest):
                await self._claimed.wait()
        exchange = self._matcher.claim(digest)
        if exchange is not None:
            self._made += exchange.body is not None
            self._claimed.set()
            self._claimed = anyio.Event()
            return self._reply(exchange)
        if self._is_early(digest):
            await self._diverge(asked.path)
        if self.stop is not None:
            return error_reply(400, f"evrun has ended this attempt: {self.stop.reason}", "ended")
        return await self._make(asked, digest)

    def _is_early(self, digest: bytes) -> bool:
        """Whether a request is none of those that were recorded, and some of these are still to come."""
        return self._strict and self._matcher.unclaimed > 0 and not self._matcher.knows(digest)

    async def _diverge(self, what: str) -> None:
        left = self.unclaimed
        self._end(
            Stop(f"the agent asked something else than before: {what}, with {left} recorded", diverged=True)
        )
        await anyio.sleep_forever()

    async def _make(self, asked: Asked, digest: bytes) -> Reply:
        """Send a request until it is answered, or until it is clear that it will not be."""
        limit = self.brief.settings.max_turns
        if self._made >= limit:
            self._end(Stop(f"{limit} model calls were made (--max-turns)"))
            return error_reply(
                400, f"evrun: {limit} model calls were made, which is all (--max-turns)", "max_turns"
            )
        self._made += 1
        body = self._capped(asked)
        request: Request = json.loads(body)
        model = str(request.get("model") or self.brief.settings.model)
        price = self._price_of(model)
        bound = request_bound(body, price, max_tokens=_NO_OUTPUT.get(asked.path))
        order = Order(self.unit, self.number, self._role, model, endpoint_host(self.brief.settings))
        sender = self._sender.another()
        while True:
            done = await sender.ask(
                order, body, bound, price,
                prepare=lambda: self._prepared(asked, digest, request, price), conclude=_nothing,
            )  # fmt: skip
            if done is None:
                return self._refuse("the run is ending")
            if isinstance(done, Unsendable):
                self._end(Stop(done.message, unsendable=done))
                return self._refuse(done.message)
            if done.verdict.kind == "answer":
                exchange = self._of(done.call)
                assert exchange is not None, "an answer is folded before it is given on"
                return self._reply(exchange)
            following = await sender.again(done.verdict)
            if following is not Next.GO_ON:
                return self._refuse(done.verdict.message) if following is Next.STOP else _error(done.verdict)

    def _prepared(self, asked: Asked, digest: bytes, request: Request, price: Price | None) -> Prepared:
        """What goes with a request into the log: its call's name, and what it asks."""
        call = self._s.caller.new_call()
        told = tell(request, self._earlier)
        self._earlier[call] = request
        first = (*self.take_started(), ModelAsked(call, self.unit, self.number, asked.path, *told))
        return Prepared(first, Told(call, digest, _path(asked.path), price))

    def _capped(self, asked: Asked) -> bytes:
        """What is sent: what was asked, with the run's output cap where the program names none."""
        body = asked.as_written or asked.body
        cap = self.brief.settings.max_tokens
        if cap is None or asked.path == "embeddings":
            return body
        request = json.loads(body)
        names = (
            ("max_output_tokens",) if asked.path == "responses" else ("max_tokens", "max_completion_tokens")
        )
        if any(request.get(name) is not None for name in names):
            return body
        return json.dumps({**request, names[0]: cap}, separators=(",", ":")).encode()

    def _of(self, call: str) -> Exchange | None:
        recorded = self._recorded()
        return None if recorded is None else recorded.of(call)

    def _recorded(self) -> Exchanges | None:
        return None if self._started is not None else self._s.journal.state.open_attempt(self.unit).own

    def _reply(self, exchange: Exchange) -> Reply:
        if exchange.body is not None:
            return Reply(200, exchange.body)
        refused = exchange.refused
        assert refused is not None
        return error_reply(refused.status or 400, refused.message, refused.error_class)

    def _refuse(self, why: str) -> Reply:
        """What a provider says whose quota is used up: the program ends, or is ended, and comes again."""
        self.refused = True
        return error_reply(429, f"evrun: {why}", "insufficient_quota")

    def _end(self, stop: Stop) -> None:
        if self.stop is None:
            self.stop = stop
            self.stopped.set()

    def _break(self, error: Exception) -> None:
        self.broken = self.broken or error
        self.stopped.set()


def _nothing(*_: object) -> tuple[Event, ...]:
    """Nothing follows at once from an own agent's answer: what comes next is the agent's to say."""
    return ()


def _path(path: str) -> str | None:
    """Where it is sent, if not to where the dialect's requests go."""
    return None if path == "chat/completions" else path


def _error(verdict: Verdict) -> Reply:
    return error_reply(verdict.status or 502, verdict.message, verdict.error_class)


def canonical(path: str, request: dict[str, Any]) -> Asked:
    """A request of an agent in this process, as a program's would be."""
    body = msgspec.json.encode(request, order="sorted")
    return Asked(path, body, msgspec.json.encode(request))
