"""The recording endpoint: an OpenAI-compatible face on loopback for programs that know nothing of evrun.

A run has one, on a port of its own. Each attempt is admitted with a handler and gets a token; what a program
asks with that token goes to that handler, and its whole answer comes back as JSON or, where a stream was
asked for, told as one. Nothing is recorded here: that is what handlers do.

Whoever has no valid token is refused before the body is read. A call that was sent costs money, so it goes
on when its program hangs up, and the answer is kept for the program to ask again (clients do, after a
time-out); only `RecordingEndpoint.dismiss` ends it.
"""

import asyncio
import hmac
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from ..effects import random_bytes
from .endpoint_asked import PATHS, Asked, Handler, Question, Reply, read_question
from .endpoint_attempt import OpenAttempt
from .endpoint_chat import chat_stream
from .endpoint_errors import Refused, error_reply
from .endpoint_json import NotJson
from .endpoint_models import model_reply
from .endpoint_programs import environment_for
from .endpoint_responses import responses_stream

__all__ = ["Asked", "Handler", "RecordingEndpoint", "Reply", "environment_for", "new_token"]

LARGEST_BODY = 64 * 1024 * 1024
_HOST = "127.0.0.1"
_WAITING = 1024  # connections that the system holds until they are looked at
_LAST_WORDS_S = 1.0  # how long the end waits for answers that are being written
_LARGEST_NOTES = 100
_PARTS = "POST chat/completions, responses, embeddings; GET models, models/NAME"
_NOT_OURS = frozenset(
    {
        "content-type",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "date",
        "server",
    }
)
_NO_TOKEN = error_reply(401, "This token is not valid here (any more).", "invalid_api_key")
_DISMISSED = error_reply(401, "The attempt that this token was for has ended.", "invalid_api_key")


def new_token() -> str:
    """A token that nobody can guess."""
    return f"sk-evrun-{random_bytes(24).hex()}"


class RecordingEndpoint:
    """The endpoint, open as long as its context; `models` are what it lists, `note` hears what came."""

    def __init__(self, models: list[str], note: Callable[[str], None]) -> None:
        self.base_url = ""
        self._models = list(models)
        self._note = note
        self._noted: set[str] = set()
        self._admitted: dict[str, OpenAttempt] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Open a port."""
        # A handler works in a task of its own: what becomes of the connection is no matter to it.
        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=False, shutdown_timeout=_LAST_WORDS_S
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, 0, backlog=_WAITING).start()
        self.base_url = f"http://{_HOST}:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Dismiss everybody and close the port."""
        assert self._runner is not None
        try:
            await asyncio.gather(*(self.dismiss(token) for token in list(self._admitted)))
        finally:
            await self._runner.cleanup()

    def admit(self, handler: Handler, token: str | None = None) -> str:
        """A fresh token, or a given one again: what asks with it goes to `handler` until it is dismissed."""
        token = token or new_token()
        self._admitted[token] = OpenAttempt(handler)
        return token

    async def dismiss(self, token: str) -> None:
        """Refuse this token from now on, cancel what it still asks, and wait until that has ended."""
        attempt = self._admitted.pop(token, None)
        if attempt is not None:
            await attempt.end()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        attempt = self._attempt_of(request)
        if attempt is None:
            self._note_once("a request without a valid token was refused, and recorded nowhere")
            return _response(_NO_TOKEN)
        try:
            path, name = _route(request)
            if path == "models":
                return _response(model_reply(self._models, name))
            question = await _read(request, path)
        except Refused as refusal:
            self._note_once(f"a program's request was refused: {refusal}")
            return _response(refusal.reply)
        return await self._answer(attempt, question, request)

    async def _answer(
        self, attempt: OpenAttempt, question: Question, request: web.Request
    ) -> web.StreamResponse:
        if attempt.ended:  # while the body was on its way
            return _response(_DISMISSED)
        call = attempt.ask(question.asked, lambda: _hung_up(request))
        try:
            reply = await call.reply()
        except asyncio.CancelledError:
            if not call.cancelled:
                raise
            return _response(_DISMISSED)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, the program gets an answer
            attempt.forget(call)
            self._note(f"what answers a program failed: {error!r}")
            return _response(error_reply(500, "evrun could not answer this: see what it says.", "evrun"))
        response = _told(question, reply)
        if await _delivered(request, response):
            attempt.forget(call)
        else:
            self._note_once("a program hung up before its answer came; the answer waits for it to ask again")
        return response

    def _attempt_of(self, request: web.Request) -> OpenAttempt | None:
        """The attempt whose token this request carries; comparing takes as long wherever tokens differ."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        given = [bearer.strip()] if scheme.lower() == "bearer" else []
        given += [request.headers[name] for name in ("api-key", "x-api-key") if name in request.headers]
        offered = [token.encode("utf-8", "surrogateescape") for token in given]
        found = None
        for token, attempt in self._admitted.items():
            if any([hmac.compare_digest(token.encode(), one) for one in offered]):  # noqa: C419 - all of them
                found = attempt
        return found

    def _note_once(self, text: str) -> None:
        if text not in self._noted and len(self._noted) < _LARGEST_NOTES:
            self._noted.add(text)
            self._note(text)


def _route(request: web.Request) -> tuple[str, str]:
    """Which of our paths, with or without ``/v1``; for models the name that follows."""
    parts = [part for part in request.path.split("/") if part]
    if parts[:1] == ["v1"]:
        parts = parts[1:]
    path, name = "/".join(parts), ""
    if parts[:1] == ["models"]:
        path, name = "models", "/".join(parts[1:])
    if path not in (*PATHS, "models"):
        raise Refused(404, f"There is no {path[:100]!r} here. There is: {_PARTS}.", "unknown_url")
    method = "GET" if path == "models" else "POST"
    if request.method != method:
        message = f"{path} wants {method}, this is {request.method}."
        raise Refused(405, message, "method_not_allowed", {"allow": method})
    return path, name


async def _read(request: web.Request, path: str) -> Question:
    try:
        return read_question(path, await request.read())
    except web.HTTPRequestEntityTooLarge as error:
        message = f"This body is larger than {LARGEST_BODY} bytes, which is what {path} takes here."
        raise Refused(413, message, "request_too_large") from error
    except NotJson as error:
        raise Refused(400, f"The body of {path} cannot be used: {error}.", "invalid_json") from error
    except (ConnectionError, web.RequestPayloadError) as error:
        raise Refused(400, f"The body of {path} did not come whole.", "incomplete_body") from error


def _told(question: Question, reply: Reply) -> web.Response:
    """The answer in the form that was asked for; an error is always JSON."""
    if not question.stream or not 200 <= reply.status < 300:  # noqa: PLR2004 - a success, in HTTP
        return _response(reply)
    try:
        if question.asked.path == "responses":
            told = responses_stream(reply.body)
        else:
            told = chat_stream(reply.body, include_usage=question.include_usage)
    except NotJson as error:
        message = f"The model's answer cannot be told as a stream: {error}."
        return _response(error_reply(502, message, "unreadable_answer"))
    return _response(Reply(reply.status, told, reply.headers), "text/event-stream")


def _response(reply: Reply, content_type: str = "application/json") -> web.Response:
    kept = {name: value for name, value in reply.headers.items() if name.lower() not in _NOT_OURS}
    safe = {name: value for name, value in kept.items() if (name + value).isprintable()}
    return web.Response(
        status=reply.status, body=reply.body, content_type=content_type, charset="utf-8", headers=safe
    )


def _hung_up(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def _delivered(request: web.Request, response: web.Response) -> bool:
    """Write an answer; whether its program was there to take it."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        return False
    return True
