"""A streamed answer as the answer that was streamed: whoever looks at it sees no difference. Pure.

All bytes are here already: nobody watches the pieces, and so nothing is decided before the whole is known.
"""

import json
from typing import Any

import msgspec

from .llm_outcomes import Answered, Lost
from .llm_stream_anthropic import KINDS, Message
from .llm_stream_events import NotAnEvent, is_stream, values_of
from .llm_stream_openai import Completion


def from_stream(answered: Answered, failure: Lost | None) -> Answered | Lost:
    """The outcome of a request that asked for a stream, from what came: all of it, or what `failure` left.

    An answer that is whole counts, also when the connection broke after it. One that is not is lost: it may
    have cost something, and what it said about that stands in the message. An endpoint that took no notice
    and answered in one piece has answered.
    """
    if not is_stream(answered.body):
        return failure or answered
    made: Completion | Message | None = None
    problem = "the stream ended before the answer was whole"
    try:
        for value in values_of(answered.body):
            made = made or _kind_of(value)
            if value is None:
                made.ended = True
                break
            made.add(value)
    except NotAnEvent as error:
        problem, failure = f"an event of the stream is no JSON object: {error}", None
        whole = False
    else:
        whole = made is not None and (made.whole or made.error is not None)
    if whole and made is not None:
        return msgspec.structs.replace(answered, body=_encoded(made.body()))
    reason, said = (failure.reason, failure.message) if failure else ("connection", problem)
    usage = made.usage if made is not None else None
    so_far = "" if usage is None else f"; usage reported so far: {json.dumps(usage)[:200]}"
    return Lost(reason, f"{said}{so_far}", answered.elapsed_ms)


def _kind_of(value: dict[str, Any] | None) -> Completion | Message:
    """The dialect of a stream, by its first event."""
    return Message() if value is not None and value.get("type") in KINDS else Completion()


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, OverflowError):
        # Half a character, or a number of more than 64 bits: only the standard library writes them.
        return json.dumps(body).encode()
