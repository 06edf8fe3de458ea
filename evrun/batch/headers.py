"""Headers of one's own: what `--header` takes, and what is sent for it. A secret is named, never written.

The log records the headers as they were given, so a value that is a secret must stand in the environment.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import UsageFault
from .settings import Settings

# Where case does not matter, a set of characters takes very long to compile: so there is none.
_REFERENCE = re.compile(r"(?:((?i:Bearer|Basic|Token|ApiKey)) )?\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_SECRET_NAME = re.compile(r"auth(?!or(?!iz))|key|token|secret|cookie|passw|credential", re.IGNORECASE)
_SCHEME = re.compile(r"(?:bearer|basic)\s+\S", re.IGNORECASE)
_LOOKS_LIKE_A_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|ghp|gho|xox[abp]|hf)[-_][\w-]{12,}|eyJ[\w-]{10,}\."
)


class Reference(NamedTuple):
    """A value that stands in the environment: the variable, and what comes before it."""

    variable: str
    scheme: str


def reference_of(value: str) -> Reference | None:
    """The variable that a header's value names (`$NAME`, `${NAME}`, `Bearer $NAME`); null: it names none."""
    found = _REFERENCE.fullmatch(value.strip())
    return Reference(found[2] or found[3], f"{found[1]} " if found[1] else "") if found else None


def looks_like_a_key(value: str, *, in_text: bool = False) -> bool:
    """Whether a value holds what providers' keys look like; in a text of words only what has a digit."""
    return any(not in_text or re.search(r"\d", found[0]) for found in _LOOKS_LIKE_A_KEY.finditer(value))


def check_headers(settings: Settings) -> None:
    """Refuse values that belong into the environment, and names of variables that are none.

    Raises:
        UsageFault: the message shows no value.
    """
    for name, value in (settings.headers or {}).items():
        if reference_of(value) is not None:
            continue
        if value.startswith("$"):
            raise UsageFault(
                f"--header {name}: a value that begins with $ names a variable of the environment",
                hint=f"for example --header '{name}=$NAME'",
            )
        if _SECRET_NAME.search(name) or _SCHEME.match(value) or looks_like_a_key(value):
            raise UsageFault(
                f"--header {name}: refused, because this looks like a secret: it would be in the log and in "
                "the process list",
                hint=f"put it into an environment variable and give --header '{name}=$THAT_VARIABLE'",
            )


def secret_variables(settings: Settings) -> list[str]:
    """The variables of the environment that are secret whatever they are called: the key, and headers."""
    found = [reference_of(value) for value in (settings.headers or {}).values()]
    return [settings.api_key_env, *(reference.variable for reference in found if reference is not None)]


def resolved_headers(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The headers as they are sent.

    Raises:
        UsageFault: a variable is not set.
    """
    headers = {}
    for name, value in (settings.headers or {}).items():
        reference = reference_of(value)
        if reference is None:
            headers[name] = value
            continue
        secret = environment.get(reference.variable, "").strip()
        if not secret:
            raise UsageFault(
                f"--header {name}: the environment variable {reference.variable} is not set",
                hint=f"export {reference.variable}=…",
            )
        headers[name] = reference.scheme + secret
    return headers


def brings_a_key(settings: Settings) -> bool:
    """Whether a header is the key of the endpoint, so that no other is needed."""
    given = (settings.headers or {}).items()
    return any(reference_of(value) and _SECRET_NAME.search(name) for name, value in given)
