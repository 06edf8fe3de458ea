"""Refusals in the shape of OpenAI's errors, so that a program's own client explains them. Pure."""

import msgspec

from .endpoint_asked import Reply

_KINDS = {401: "authentication_error", 500: "server_error", 502: "server_error"}
# What the official clients look at before they try again: none of these gets better by it.
_FINAL = {"x-should-retry": "false"}


class Refused(Exception):
    """A request that gets `reply` and goes no further."""

    def __init__(self, status: int, message: str, code: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.reply = error_reply(status, message, code, headers)


def error_reply(status: int, message: str, code: str, headers: dict[str, str] | None = None) -> Reply:
    """An error as OpenAI's endpoints give it."""
    kind = _KINDS.get(status, "invalid_request_error")
    body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})
    return Reply(status, body, {**_FINAL, **(headers or {})})
