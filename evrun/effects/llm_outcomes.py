"""What can come of one request, as data: answered, certainly not sent, or lost.

The difference between `NotSent` and `Lost` is money: the first certainly cost nothing, the second may have
been worked on and billed though nobody saw the answer.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

NotSentReason = Literal["dns", "connect", "connect_timeout", "tls", "proxy", "address"]
LostReason = Literal["timeout", "connection", "protocol", "decoding", "too_large", "unexpected"]

_REQUEST_IDS = (
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-generation-id",
    "cf-ray",
)


class Answered(msgspec.Struct, frozen=True, gc=False):
    """A whole HTTP response, of any status.

    `headers` holds only those that say something about waiting, limits and identity, names in lower case.
    `body` is decoded from its content encoding, else as received.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    elapsed_ms: int

    @property
    def request_id(self) -> str | None:
        """The provider's name for this request, if it sent one."""
        return next((self.headers[name] for name in _REQUEST_IDS if name in self.headers), None)


class NotSent(msgspec.Struct, frozen=True, gc=False):
    """No byte of the request left: there was no connection to send it on."""

    reason: NotSentReason
    message: str


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The request left, or may have left, and no whole answer came back."""

    reason: LostReason
    message: str
    elapsed_ms: int


Sent = Answered | NotSent | Lost
