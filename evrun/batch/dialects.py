"""What an endpoint's dialect decides where nobody says otherwise: the variables to look into. Pure."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit


class Dialect(NamedTuple):
    """The variables of the environment in which programs look for an endpoint of this dialect."""

    base_url: str
    api_key: str


DIALECTS = {
    "openai": Dialect("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "anthropic": Dialect("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
}
_VERSION = re.compile(r"v\d+\w*")


def endpoint_values(
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    recorded_api: str | None,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """`base_url` and `api_key_env`, from what was `given`, then the record, then the environment.

    A record of another dialect says nothing about them.
    """
    api = values.get("api", "openai")
    dialect = DIALECTS.get(api, DIALECTS["openai"])
    elsewhere = recorded_api not in {None, api}
    key = values.get("api_key_env")
    if "api_key_env" not in given and (key is None or elsewhere):
        key = dialect.api_key
    url = given.get("base_url") if elsewhere else values.get("base_url")
    url = url or environment.get(dialect.base_url) or None
    return {"base_url": versioned(url) if url and api == "anthropic" else url, "api_key_env": key}


def versioned(base_url: str) -> str:
    """An address of Anthropic's dialect with its version, which other programs leave to their client."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return base_url
    path = parts.path.rstrip("/")
    last = path.rpartition("/")[2]
    if not parts.netloc or parts.query or last == "messages" or _VERSION.fullmatch(last):
        return base_url
    return urlunsplit(parts._replace(path=f"{path}/v1"))
