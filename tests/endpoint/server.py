"""The endpoint: requests to answers, by the script; every one of them into the account."""

import asyncio
import socket
import struct
from typing import Any, NamedTuple

import msgspec

from .account import Account, entry_of
from .answers import Answered, Request, answer, read_request
from .anthropic import error_of, message_of
from .counting import CountingAccount
from .responses import as_chat, embeddings_of, response_of
from .rules import Script
from .streams import message_stream_of, stream_of
from .wire import Connection, Head, response_bytes

JSON_TYPE = {"content-type": "application/json"}
RECORDS_TYPE = {"content-type": "application/octet-stream"}
HTML_PAGE = b"<!DOCTYPE html><html><head><title>Gateway</title></head><body><h1>Try later</h1></body></html>"
NEVER = 1 << 40


class Options(msgspec.Struct):
    """How the endpoint behaves; the package's docstring says what each means."""

    latency_ms: float = 0
    latency_spread_ms: float = 0
    api_key: str | None = None
    models: tuple[str, ...] = ("test-model",)
    strict_models: bool = False
    text: str = "Answer to {prompt}"
    reasoning: str = "I thought about {prompt}"
    reasoning_field: str = "reasoning"
    honour_idempotency: bool = False
    bill_aborted: bool = True
    keep_bodies: bool = False


ASKING = ("/chat/completions", "/messages", "/responses", "/embeddings")
AS_CHAT = ("/responses", "/embeddings")
"""Read as a chat, for rules to look at; answered whole, never in a stream."""


class Exchange(NamedTuple):
    """One request on its way to an answer."""

    head: Head
    request: Request
    place: tuple[int, int]
    then: dict[str, Any]
    auth_ok: bool

    @property
    def anthropic(self) -> bool:
        """Whether it is in Anthropic's dialect: the path says so."""
        return self.head.path.partition("?")[0].endswith("/messages")


def _as_asked(exchange: Exchange, made: Answered) -> tuple[bytes, str, int]:
    """An answer in the shape of the Responses dialect, or of embeddings."""
    if exchange.head.path.endswith("/responses"):
        return response_of(made.body), "application/json", made.output_tokens
    return embeddings_of(exchange.request.body, exchange.request.input_tokens), "application/json", 0


class Endpoint:
    """Handler of all connections."""

    def __init__(self, options: Options, script: Script, account: Account) -> None:
        self.options = options
        self.script = script
        self.account = account
        self.defaults = {
            "text": options.text,
            "reasoning": options.reasoning,
            "reasoning_field": options.reasoning_field,
        }
        self.by_key: dict[str, bytes] = {}
        self.waiting: dict[Connection, tuple[Exchange, asyncio.TimerHandle]] = {}
        self.held: set[asyncio.Task[None]] = set()
        self.bodies: list[dict[str, Any]] = []

    def connect(self) -> Connection:
        """A protocol for a new connection."""
        self.account.connections += 1
        return Connection(self, self.account.connections)

    def opened(self, connection: Connection) -> None:
        """Nothing to do: connections are counted when they are made."""

    def closed(self, connection: Connection) -> None:
        """Book the request whose client left before its answer."""
        waiting = self.waiting.pop(connection, None)
        if waiting is not None:
            exchange, timer = waiting
            timer.cancel()
            billed = self.options.bill_aborted and _would_bill(exchange)
            tokens = answer(exchange.request, exchange.then, self.defaults).output_tokens
            self._book(connection, exchange, 0, "aborted", billed=billed, tokens=tokens)

    def request(self, connection: Connection, head: Head, body: bytes) -> None:
        """Answer now, or after the latency."""
        if head.method == "POST" and head.path.partition("?")[0].endswith(ASKING):
            if self.options.keep_bodies:
                self.bodies.append({"path": head.path, "headers": head.headers, "body": _read(body)})
            self._chat(connection, head, body)
        else:
            connection.respond(self._side_door(head, body))

    def _side_door(self, head: Head, body: bytes) -> bytes:
        match head.method, head.path.partition("?")[0]:
            case "GET", "/_account":
                return response_bytes(200, JSON_TYPE, self.account.as_json())
            case "GET", "/_totals":
                return response_bytes(200, JSON_TYPE, msgspec.json.encode(self.account.totals()))
            case "GET", "/_records" if isinstance(self.account, CountingAccount):
                return response_bytes(200, RECORDS_TYPE, bytes(self.account.records))
            case "GET", "/_bodies":
                return response_bytes(200, JSON_TYPE, msgspec.json.encode(self.bodies))
            case "POST", "/_rules":
                self.script = Script(msgspec.json.decode(body))
                return response_bytes(200, JSON_TYPE, b"{}")
            case "GET", path if path.endswith("/models"):
                return self._models(head)
            case _:
                return response_bytes(404, JSON_TYPE, _error("no such path", "not_found", None))

    def _models(self, head: Head) -> bytes:
        if not self._auth_ok(head):
            return response_bytes(401, JSON_TYPE, WRONG_KEY)
        listed = [{"id": name, "object": "model", "owned_by": "tests"} for name in self.options.models]
        return response_bytes(200, JSON_TYPE, msgspec.json.encode({"object": "list", "data": listed}))

    def _auth_ok(self, head: Head) -> bool:
        expected = self.options.api_key
        key = head.headers.get("x-api-key", head.headers.get("authorization", "").removeprefix("Bearer "))
        return expected is None or key == expected

    def _chat(self, connection: Connection, head: Head, body: bytes) -> None:
        request = read_request(body)
        if head.path.endswith(AS_CHAT):
            told = read_request(as_chat(head.path, body))
            request = msgspec.structs.replace(told, body=body, digest=request.digest, stream=False)
        place = self.account.arrive(request.digest)
        auth_ok = self._auth_ok(head)
        then = self.script.decide(request, *place) if auth_ok else WRONG_KEY_RULE
        if self.options.strict_models and request.model not in self.options.models and auth_ok:
            then = _unknown_model(request.model)
        exchange = Exchange(head, request, place, then, auth_ok)
        delay = self._delay_s(exchange)
        if delay <= 0:
            self._finish(connection, exchange)
            return
        timer = asyncio.get_running_loop().call_later(delay, self._after_delay, connection)
        self.waiting[connection] = (exchange, timer)

    def _delay_s(self, exchange: Exchange) -> float:
        delay = exchange.then.get("latency_ms", self.options.latency_ms)
        if self.options.latency_spread_ms:
            delay += self.options.latency_spread_ms * (int(exchange.request.digest[:4], 16) / 65536)
        return float(delay) / 1000

    def _after_delay(self, connection: Connection) -> None:
        exchange, _ = self.waiting.pop(connection)
        self._finish(connection, exchange)

    def _finish(self, connection: Connection, exchange: Exchange) -> None:
        then = exchange.then
        key = exchange.head.headers.get("idempotency-key")
        if self.options.honour_idempotency and key in self.by_key:
            self._book(connection, exchange, 200, "repeated", billed=False, tokens=0)
            connection.respond(self.by_key[key])
            return
        status = then.get("status", 200)
        body, content_type, tokens = self._body(exchange, status)
        headers = {"content-type": content_type, "x-request-id": f"req_{exchange.place[0]}"}
        headers.update(then.get("headers", {}))
        fault = then.get("fault")
        outcome = fault or ("answered" if 200 <= status < 300 else "refused")
        self._book(connection, exchange, status, outcome, billed=_would_bill(exchange), tokens=tokens)
        if fault is not None:
            self._break(connection, fault, status, headers, body)
            return
        whole = response_bytes(status, headers, body)
        if key is not None and outcome == "answered":
            self.by_key[key] = whole
        connection.respond(whole)

    def _body(self, exchange: Exchange, status: int) -> tuple[bytes, str, int]:
        then = exchange.then
        if "body" in then:
            given = then["body"]
            raw = given.encode() if isinstance(given, str) else msgspec.json.encode(given)
            return raw, then.get("content_type", "application/json"), 1
        if then.get("html"):
            return HTML_PAGE, "text/html; charset=utf-8", 1
        if "error" in then:
            return _told(exchange, status, then["error"]), "application/json", 1
        if not 200 <= status < 300:
            said = {"message": f"the script says {status}"}
            other = {**said, "type": "scripted", "code": None}
            return _told(exchange, status, said if exchange.anthropic else other), "application/json", 0
        made = answer(exchange.request, then, self.defaults)
        whole = message_of(made.body) if exchange.anthropic else made.body
        if exchange.head.path.endswith(AS_CHAT):
            return _as_asked(exchange, made)
        how = then.get("stream", {})
        if not exchange.request.stream or how is False:
            return whole, "application/json", made.output_tokens
        asked = exchange.request.usage
        streamed = message_stream_of(whole, how) if exchange.anthropic else stream_of(whole, how, usage=asked)
        return streamed, "text/event-stream", made.output_tokens

    def _break(
        self, connection: Connection, fault: str, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        match fault:
            case "close":
                connection.cut(b"")
            case "reset":
                linger = struct.pack("ii", 1, 0)
                connection.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
                connection.reset()
            case "cut":
                connection.cut(response_bytes(status, headers, body[: len(body) // 2], length=len(body)))
            case "half_json":
                connection.respond(response_bytes(status, headers, body[: len(body) // 2]))
            case "garbage":
                connection.cut(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
            case "endless" | "trickle":
                self._hold(_pour(connection, fault, response_bytes(status, headers, b"", length=NEVER)))
            case _:
                pass  # hang: never a byte

    def _hold(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.held.add(task)
        task.add_done_callback(self.held.discard)

    def _book(
        self,
        connection: Connection,
        exchange: Exchange,
        status: int,
        outcome: str,
        *,
        billed: bool,
        tokens: int,
    ) -> None:
        self.account.settle(
            entry_of(
                exchange.request,
                exchange.place,
                method=exchange.head.method,
                path=exchange.head.path,
                status=status,
                outcome=outcome,
                auth_ok=exchange.auth_ok,
                idempotency_key=exchange.head.headers.get("idempotency-key"),
                billed=billed,
                output_tokens=tokens,
                client=connection.number,
            )
        )


async def _pour(connection: Connection, fault: str, head: bytes) -> None:
    """A body that does not end: as fast as it goes, or a byte each 50 ms."""
    connection.transport.write(head)
    while not connection.transport.is_closing():
        if fault == "trickle":
            connection.transport.write(b" ")
            await asyncio.sleep(0.05)
        else:
            if connection.transport.get_write_buffer_size() < 1 << 20:
                connection.transport.write(b" " * 65536)
            await asyncio.sleep(0)


def _told(exchange: Exchange, status: int, error: dict[str, Any]) -> bytes:
    return error_of(status, error) if exchange.anthropic else msgspec.json.encode({"error": error})


def _read(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")


def _would_bill(exchange: Exchange) -> bool:
    then = exchange.then
    default = 200 <= then.get("status", 200) < 300 or "fault" in then
    return bool(then.get("bill", default))


def _error(message: str, kind: str, code: str | None) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": kind, "code": code}})


def _unknown_model(model: str) -> dict[str, Any]:
    error = {"message": f"The model `{model}` does not exist", "code": "model_not_found"}
    return {"status": 404, "error": error}


WRONG_KEY_RULE: dict[str, Any] = {
    "status": 401,
    "error": {"message": "Incorrect API key provided", "code": "invalid_api_key"},
}
WRONG_KEY = msgspec.json.encode({"error": WRONG_KEY_RULE["error"]})
