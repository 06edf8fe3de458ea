"""Templates: how a row's fields become the text that is asked. Pure.

``{field}`` stands for a field of the row, ``{prompt}`` for its prompt, ``{{`` and ``}}`` for a brace. A name
begins with a letter or an underscore and may hold spaces, dots and dashes, as columns of tables do; any other
brace is text.
"""

import re
from functools import lru_cache
from typing import Any

from .jsontext import clean_text, json_text

PLAIN = "{prompt}"
"""The template of a run that was given none: the prompt as it stands."""
_FIELD = re.compile(r"\{\{|\}\}|\{([^\W\d](?:[\w .-]*\w)?)\}")


@lru_cache(maxsize=16)
def template_fields(template: str) -> frozenset[str]:
    """The names of the fields that a template is filled with."""
    return frozenset(match[1] for match in _FIELD.finditer(template) if match[1] is not None)


def fill(template: str, row: dict[str, Any], prompt: str) -> str:
    """The template with a row's fields in it; what is no text goes in as JSON.

    Raises:
        ValueError: it names a field that the row does not have.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name == "prompt":
            return prompt
        if name not in row:
            raise ValueError(f"the template names {{{name}}}, which the row does not have ({_found(row)})")
        return clean_text(row[name]) if isinstance(row[name], str) else json_text(row[name])

    return _FIELD.sub(value, template)


def _found(row: dict[str, Any], limit: int = 80) -> str:
    names = clean_text(", ".join(sorted(row)))
    return f"found the fields {names[:limit] + '…' if len(names) > limit else names}" if row else "found none"
