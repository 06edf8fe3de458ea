"""What a unit may still ask for, seen from where it stands. Pure."""

from projections import Attempt, attempt_messages, batch_request, request_messages, row_messages

from ..bounds import request_bound
from ..estimate import PER_TURN, REFUSAL_TOKENS, RESULT_TOKENS, Estimate, Outlook, estimate, total
from ..prices import Price
from .brief import Brief
from .decide import BAD_TURNS_IN_A_ROW, Finish, Judge, RunTools, Score, next_body, next_step
from .judging import JUDGE_TRIES, asks_model, heard_from_judge, judge_body

WRITTEN_AGAIN = 2
"""A judge is shown the conversation as JSON, in which a text has at most about so many times its tokens."""


def bounds_of(attempt: Attempt, brief: Brief, price: Price | None) -> Estimate:
    """What an attempt may still cost: its own calls, and those of the model that judges it, if one does."""
    own = outlook_of(attempt, brief)
    judge = judge_outlook(attempt, brief, own)
    return total([estimate(own, price), *([estimate(judge, price)] if judge is not None else [])])


def outlook_of(attempt: Attempt, brief: Brief) -> Outlook:
    """The outlook of an attempt, just begun or half done.

    Without tools a model may still call some: each such turn is refused, several in a row end the attempt.
    """
    step = next_step(attempt, brief)
    most = 1 if batch_request(brief.row) is not None else brief.settings.max_turns
    most = most if brief.tools else min(most, BAD_TURNS_IN_A_ROW)
    ended = isinstance(step, Finish | Judge | Score)
    turns = 0 if ended else max(most - attempt.api_calls, 0)
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


def judge_outlook(attempt: Attempt, brief: Brief, own: Outlook) -> Outlook | None:
    """The outlook on the judge's calls, on a conversation as long as it may get; null: there are none."""
    if not asks_model(brief.settings) or isinstance(next_step(attempt, brief), Finish):
        return None
    heard = heard_from_judge(attempt, brief)
    body = judge_body(attempt, brief, heard)
    a_turn = (request_bound(own.body, None).output_tokens or 0) + own.results + PER_TURN
    return Outlook(
        body,
        len(body.split()),
        certain=False,
        turns=JUDGE_TRIES - len(heard),
        tries=own.tries,
        pending=WRITTEN_AGAIN * (own.turns * a_turn + own.pending),
        results=REFUSAL_TOKENS,
    )


def _words(attempt: Attempt, brief: Brief) -> int:
    messages = row_messages(brief.row, brief.record) + attempt_messages(attempt)
    sent = request_messages(messages, brief.record)
    return sum(len(message["content"].split()) for message in sent if isinstance(message["content"], str))
