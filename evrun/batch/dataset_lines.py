"""Lines of OpenAI batch files, checked as requests that can be sent."""

import hashlib
from array import array
from typing import Any

from projections import PackedIndex, row_messages

from .dataset_terms import Terms
from .dataset_words import kind, shown

CHAT = "/v1/chat/completions"


class BatchLines:
    """Complaints about the batch lines of one dataset; remembers the names that were used."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._names = PackedIndex()
        # The line of each name, where the index has it.
        self._lines = array("Q")
        self._model: tuple[str, str] | None = (terms.model, "the run's model is") if terms.model else None

    def complaint(self, line: int, row: dict[str, Any]) -> str | None:
        """What is wrong with such a line; null: nothing, and its name and model are remembered."""
        body = row["body"]
        return (
            self._name(row["custom_id"])
            or _request(row)
            or self._unlike(body)
            or _body(body)
            or self._foreign_model(line, body.get("model"))
            or self._again(line, row["custom_id"])
        )

    def _name(self, custom_id: Any) -> str | None:
        if isinstance(custom_id, str) and custom_id.strip():
            return None
        return f"custom_id is not a name: found {kind(custom_id)}"

    def _again(self, line: int, custom_id: str) -> str | None:
        key = hashlib.sha256(custom_id.encode("utf-8", "surrogatepass")).digest()[:16]
        place = self._names.add(key, 1, 1)
        if place == len(self._lines):
            self._lines.append(line)
            return None
        name = shown(custom_id.encode("utf-8", "replace"))
        return f"custom_id {name} is that of line {self._lines[place]} too"

    def _foreign_model(self, line: int, model: Any) -> str | None:
        if model is None:
            return None
        if not isinstance(model, str) or not model:
            return f"body.model is not a name: found {kind(model)}"
        if self._model is None:
            self._model = (model, f"line {line} has")
        known, whose = self._model
        return None if model == known else f"body.model {model!r}: {whose} {known!r}, and a run has one model"

    def _unlike(self, body: dict[str, Any]) -> str | None:
        """What the options of the run ask and such a line cannot follow."""
        terms = self._terms
        if not terms.plain:
            return "a batch line is sent as it is, which no --template can honour"
        if terms.api != "openai":
            return f"a batch line is a request of OpenAI's API, and --api is {terms.api}"
        if terms.agent != "chat":
            return f"a batch line is one request, which leaves nothing to --agent {terms.agent}"
        if terms.tools:
            return f"a batch line offers the tools of its body alone, whatever {terms.tools[0]} says"
        tier = body.get("service_tier")
        if tier not in {None, terms.service_tier}:
            return (
                f"body.service_tier {tier!r} has prices of its own; "
                """give it for all lines: --extra-body '{"service_tier": …}'"""
            )
        return None


def _request(row: dict[str, Any]) -> str | None:
    if row.get("method", "POST") != "POST":
        return f"method is not POST: found {kind(row['method'])}"
    if row["url"] != CHAT:
        return f"url is not {CHAT}: found {kind(row['url'])}"
    return None if isinstance(row["body"], dict) else f"body is not an object: found {kind(row['body'])}"


def _body(body: dict[str, Any]) -> str | None:
    if body.get("stream"):
        return "body.stream: an answer of a batch is whole; leave it out"
    if body.get("stream_options") is not None:
        return "body.stream_options: an answer of a batch is whole; leave it out"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return f"body.messages is not a list of messages: found {kind(messages)}"
    try:
        row_messages({"custom_id": "", "url": "", "body": body}, {})
    except ValueError as error:
        return f"body: {error}"
    return None
