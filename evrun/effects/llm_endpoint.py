"""Where requests go: a checked address, its headers, and a key that is never shown."""

import ipaddress
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from ..errors import UsageFault
from .secrets import SHORTEST_SECRET

# Set by the client itself, for every request.
_OWN_HEADERS = frozenset(
    {
        "host", "content-length", "transfer-encoding", "content-type", "connection", "idempotency-key",
        "accept", "accept-encoding", "expect",
    }
)  # fmt: skip
ANTHROPIC_VERSION = "2023-06-01"
_PATHS = {"openai": "chat/completions", "anthropic": "messages"}
_EXAMPLE = "for example http://127.0.0.1:8080/v1"


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint of one of two dialects, `api`: "openai" (chat completions) or "anthropic" (Messages).

    `base_url` is what comes before ``/chat/completions`` or ``/messages``; `api_key` goes into the header
    that the dialect has for it and nowhere else; `headers` are sent with every request.
    """

    base_url: str
    api_key: str | None = None
    headers: dict[str, str] = {}
    api: str = "openai"

    def __repr__(self) -> str:
        """Without the key, and without the values of headers, which may be keys too."""
        key = "None" if self.api_key is None else "<hidden>"
        return f"Endpoint(base_url={self.base_url!r}, api_key={key}, headers={sorted(self.headers)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same for rich's tracebacks, which would show every field."""
        key = None if self.api_key is None else "<hidden>"
        return [("base_url", self.base_url), ("api_key", key), ("headers", sorted(self.headers))]

    @property
    def path(self) -> str:
        """Where answers are asked for, below the address."""
        return _PATHS[self.api]

    def secrets(self) -> dict[str, str]:
        """What no message may repeat, by a name that may be shown: the key, and the values of headers."""
        long = {f"header {n}": value for n, value in self.headers.items() if len(value) >= SHORTEST_SECRET}
        return {**({"API key": self.api_key} if self.api_key else {}), **long}

    def url(self, path: str) -> str:
        """The address of one of the endpoint's paths, such as ``chat/completions``.

        Raises:
            UsageFault: `base_url` is no address that requests can be sent to.
        """
        parts = _checked(self.base_url)
        return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))

    @property
    def is_loopback(self) -> bool:
        """Whether requests stay on this machine, where no proxy may come between."""
        host = _checked(self.base_url).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def checked_headers(self) -> dict[str, str]:
        """The headers of every request, the key among them.

        Raises:
            UsageFault: a header cannot be sent, or is one that evrun sets itself. The message shows no value.
        """
        names = {name.lower() for name in self.headers}
        for name, value in self.headers.items():
            if name.lower() in _OWN_HEADERS or (self.api == "anthropic" and name.lower() == _VERSION_HEADER):
                raise UsageFault(f"--header {name}: evrun sets this header itself", "leave it out")
            if not _sendable(value) or not _is_token(name):
                raise UsageFault(f"--header {name!r}: not a header that HTTP can carry", _PRINTABLE)
        ours = {_VERSION_HEADER: ANTHROPIC_VERSION} if self.api == "anthropic" else {}
        if self.api_key is None:
            return {**self.headers, **ours}
        own = "x-api-key" if self.api == "anthropic" else "authorization"
        if own in names:
            raise UsageFault(f"--header {own}: there is an API key already", "give one of the two")
        if not self.api_key or not _sendable(self.api_key) or " " in self.api_key:
            raise UsageFault("the API key holds a space, a line break or no character at all", _PRINTABLE)
        key = self.api_key if self.api == "anthropic" else f"Bearer {self.api_key}"
        return {**self.headers, **ours, own: key}


_VERSION_HEADER = "anthropic-version"
_PRINTABLE = "only printable ASCII can be sent; look for a line break at its end"


def _checked(base_url: str) -> SplitResult:
    """The address, taken apart; or plain words for why nothing can be sent there."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError as error:
        raise UsageFault(f"--base-url {base_url!r} is no address: {error}", _EXAMPLE) from error
    if parts.username is not None or parts.password is not None:
        # Not shown: what stands before the @ is a secret.
        raise UsageFault(
            f"--base-url holds a user name or password for {parts.hostname}",
            "an address is recorded in the log; give the key in the variable that --api-key-env names",
        )
    if parts.scheme not in {"http", "https"}:
        found = f"found {parts.scheme}://" if "://" in base_url else "found none"
        raise UsageFault(f"--base-url {base_url!r} must begin with http:// or https://, {found}", _EXAMPLE)
    if not parts.hostname or port == 0 or parts.fragment or any(c.isspace() for c in base_url):
        raise UsageFault(f"--base-url {base_url!r} is no address of an endpoint", _EXAMPLE)
    for path in _PATHS.values():
        shorter = parts.path.rstrip("/").removesuffix(f"/{path}")
        if shorter != parts.path.rstrip("/"):
            wanted = urlunsplit(parts._replace(path=shorter))
            raise UsageFault(f"--base-url {base_url!r} ends in /{path}", f"give {wanted}")
    return parts


def _sendable(value: str) -> bool:
    return value.isascii() and all(c.isprintable() for c in value)


def _is_token(name: str) -> bool:
    return bool(name) and name.isascii() and all(c.isalnum() or c in "!#$%&'*+-.^_`|~" for c in name)
