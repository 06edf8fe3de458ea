"""What a unit may still ask for, seen from where it stands. Pure."""

from projections import Attempt, attempt_messages, batch_request, request_messages, row_messages

from ..estimate import REFUSAL_TOKENS, RESULT_TOKENS, Outlook
from .decide import BAD_TURNS_IN_A_ROW, Brief, Finish, RunTools, next_body, next_step


def outlook_of(attempt: Attempt, brief: Brief) -> Outlook:
    """The outlook of an attempt, just begun or half done.

    Without tools a model may still call some: each such turn is refused, several in a row end the attempt.
    """
    step = next_step(attempt, brief)
    most = 1 if batch_request(brief.row) is not None else brief.settings.max_turns
    most = most if brief.tools else min(most, BAD_TURNS_IN_A_ROW)
    turns = 0 if isinstance(step, Finish) else max(most - attempt.api_calls, 0)
    waits = isinstance(step, RunTools)
    results = RESULT_TOKENS if brief.tools else REFUSAL_TOKENS
    return Outlook(
        next_body(attempt, brief),
        _words(attempt, brief),
        certain=turns > 0 and not waits,
        turns=turns,
        tries=brief.settings.retries + 1,
        pending=results if waits else 0,
        results=results,
    )


def _words(attempt: Attempt, brief: Brief) -> int:
    messages = row_messages(brief.row, brief.record) + attempt_messages(attempt)
    sent = request_messages(messages, brief.record)
    return sum(len(message["content"].split()) for message in sent if isinstance(message["content"], str))
