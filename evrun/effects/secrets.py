"""Secrets: which values are secret, how they are kept out of what is recorded, and what tools may see.

A redactor works on what goes into the log. It finds a secret exactly, JSON-escaped and URL-quoted. It cannot
find one that was changed in any other way (base64, reversed, cut in two), so the first defence is that tools
do not get secrets at all: see `child_environment`.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote, quote_plus, unquote

SHORTEST_SECRET = 8
"""Shorter values are ordinary words too often: replacing them would spoil the record."""

# What people put where a key is asked for and none is needed.
PLACEHOLDERS = frozenset(
    {"lm-studio", "not-needed", "no-key-needed", "no-key-required", "not-required", "sk-no-key-required"}
)
_SECRET_NAME = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION|(?<![A-Z])PASS)S?(_|$)"
)
_PASSWORD_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")

# All that a tool's process sees of the runner's environment.
ALLOWED_NAMES = ("PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL")
ALLOWED_PREFIX = "LC_"
MARKER_VARIABLE = "EVRUN_ATTEMPT"
TEMPORARY_DIRECTORY = ".tmp"


def find_secrets(environment: Mapping[str, str], *named: str) -> dict[str, str]:
    """Secret values by the name of their variable.

    Secret are the variables `named`, those whose name says so (`GITHUB_TOKEN`, `DB_PASSWORD`), and passwords
    in URLs (`DATABASE_URL=postgres://me:password@host`); always of at least `SHORTEST_SECRET` characters.
    """
    found = {}
    for name, text in environment.items():
        value = text.strip()
        if name in named or _SECRET_NAME.search(name.upper()):
            found[name] = value
        elif inside := _PASSWORD_IN_URL.search(value):
            found[name] = inside.group(1)
    return {
        name: value
        for name, value in found.items()
        if len(value) >= SHORTEST_SECRET and value.lower() not in PLACEHOLDERS
    }


class Redactor:
    """Replaces known secret values by `[redacted:NAME]`. Fast where there is none: one search a form."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        names: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value):
                names.setdefault(form, name)
        # The longest first, so that a secret that holds another one goes as a whole.
        forms = sorted(names, key=lambda form: (-len(form), form))
        self._forms = [form.encode("utf-8", "surrogateescape") for form in forms]
        self._texts = forms
        self._names = names
        self.longest = max((len(form) for form in self._forms), default=0)
        """Bytes of the longest form: who cuts a text must not cut closer than this, see `processes`."""

    def __repr__(self) -> str:
        return f"Redactor({len(self._forms)} forms)"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *named: str) -> Self:
        """The redactor of an environment; `named` are variables that are secret whatever they are called."""
        return cls(find_secrets(environment, *named))

    def clean(self, data: bytes) -> bytes:
        """The bytes with every known secret replaced; the same object where there is none."""
        for form, text in zip(self._forms, self._texts, strict=True):
            if form in data:
                data = data.replace(form, self._mark(text).encode())
        return data

    def clean_text(self, text: str) -> str:
        """The text with every known secret replaced; the same object where there is none."""
        for form in self._texts:
            if form in text:
                text = text.replace(form, self._mark(form))
        return text

    def _mark(self, form: str) -> str:
        return f"[redacted:{re.sub('[^A-Za-z0-9_]', '_', self._names[form])}]"


def _forms(value: str) -> set[str]:
    """A value as it may stand in a text: itself, in JSON (both ways of writing it), in a URL."""
    in_json = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    # Some writers of JSON escape the slash as well; it is the commonest special letter of base64 keys.
    in_json |= {form.replace("/", "\\/") for form in in_json}
    in_url = {quote(value, safe="", errors="replace"), quote_plus(value, errors="replace"), unquote(value)}
    return {form for form in {value} | in_json | in_url if len(form) >= SHORTEST_SECRET}


def child_environment(
    directory: Path, marker: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The whole environment of a tool's process: a short allow-list, and a home of its own.

    `HOME` is the attempt's directory and `TMPDIR` a hidden directory in it, so that what programs leave
    behind goes away with the attempt. `marker` names the attempt, for `orphans.kill_orphans`.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIX)
    }
    own = {
        "HOME": str(directory),
        "TMPDIR": str(directory / TEMPORARY_DIRECTORY),
        "TERM": "dumb",
        MARKER_VARIABLE: marker,
    }
    return {"PATH": os.defpath, **kept, **own}
