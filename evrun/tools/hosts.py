"""Which hosts and addresses `web_fetch` may ask. Pure."""

import ipaddress
import re
from collections.abc import Sequence

from ..errors import UsageFault

_NAME = r"(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_ENTRY = re.compile(rf"(?P<host>{_NAME}|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{{1,5}}))?")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class HostRules:
    """An allow-list of hosts: `example.org`, `*.example.org` (what is below it), `127.0.0.1:8000`.

    Without a list every public host may be asked. Addresses that are not public may be asked only under a
    host that the list names in full.

    Raises:
        UsageFault: an entry that is no host.
    """

    def __init__(self, allow: Sequence[str] | None) -> None:
        self._entries = None if allow is None else [_parsed(entry) for entry in allow]

    def refusal(self, host: str, port: int) -> str | None:
        """Why a host may not be asked, or null: it may, at a public address."""
        if self._entries is None or any(_covers(entry, host, port) for entry in self._entries):
            return None
        return f"{host}:{port} is not among the hosts that may be fetched from (--web-allow)"

    def refusal_of_address(self, host: str, port: int, address: str) -> str | None:
        """Why an address that a host's name stands for may not be asked, or null."""
        if is_public(ipaddress.ip_address(address.partition("%")[0])):
            return None
        named = [entry for entry in self._entries or [] if not entry[0].startswith("*.")]
        if any(_covers(entry, host, port) for entry in named):
            return None
        return f"{host} is at {address}, which is no public address; --web-allow can name it in full"


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, also when an IPv4 address is wrapped in it."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def plain_host(host: str) -> str:
    """A host's name as rules write it: small letters, no last dot, no brackets."""
    return host.lower().rstrip(".").strip("[]")


def _parsed(entry: str) -> tuple[str, int | None]:
    found = _ENTRY.fullmatch(entry.strip().lower())
    port = None if found is None or found["port"] is None else int(found["port"])
    if found is None or not (port is None or 0 < port < 1 << 16):
        raise UsageFault(
            f"--web-allow {entry}: expected a host, *.host, or host:port",
            hint="for example --web-allow example.org,*.example.org,127.0.0.1:8000",
        )
    return plain_host(found["host"]), port


def _covers(entry: tuple[str, int | None], host: str, port: int) -> bool:
    name, only = entry
    host = plain_host(host)
    right = host.endswith(name[1:]) if name.startswith("*.") else host == name
    return right and only in (None, port)
