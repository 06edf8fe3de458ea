"""One attempt, folded from its events: turns, retries, money."""

import json

from eventlog.events import (
    BudgetReserved,
    BudgetSpent,
    Counts,
    ModelAnswered,
    ModelCallFailed,
    PromptStarted,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    Usage,
)
from projections.conversation import NO_USAGE, Attempt, ToolResult, add_usage
from projections.counts import count_attempt


def new_attempt():
    """An attempt with nothing in it."""
    return Attempt.start(PromptStarted("u", 2, ["web"], b"s"), 5, 1)


def reserve(attempt, call, role="rollout"):
    """Reserve a call."""
    attempt.reserved(BudgetReserved(call, "u", 2, role, "m", "e", call.encode(), 100, 10, 10, "by"))


def answer_body(text="ok", tools=(), reasoning=None, usage=None):
    """A response body."""
    calls = [{"id": str(n), "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(tools)]
    message = {"content": text, "tool_calls": calls, "reasoning": reasoning}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()


def answer(attempt, call, **message):
    """Reserve a call and answer it."""
    reserve(attempt, call)
    attempt.answered(ModelAnswered(call, answer_body(**message), 7, None))


def test_attempts_do_not_share_their_turns():
    """Each has lists of its own."""
    one, other = new_attempt(), new_attempt()
    answer(one, "a")
    assert (len(one.turns), len(other.turns), other.attempt, other.started_ns) == (1, 0, 2, 5)


def test_reservation_opens_a_turn_and_the_answer_closes_it():
    """At most the last turn is open."""
    attempt = new_attempt()
    reserve(attempt, "a")
    assert attempt.open_turn is attempt.turns[0]
    assert attempt.answered_turns == []
    attempt.answered(ModelAnswered("a", answer_body(), 7, None))
    assert attempt.open_turn is None
    assert [turn.call for turn in attempt.answered_turns] == ["a"]
    assert (attempt.turns[0].number, attempt.turns[0].request, attempt.turns[0].elapsed_ms) == (1, b"a", 7)


def test_retry_takes_over_the_open_turn_and_is_counted():
    """Two sends, one failure, one answered call, one turn."""
    attempt = new_attempt()
    reserve(attempt, "a")
    attempt.call_failed(
        ModelCallFailed("a", "timeout", "m", None, retryable=True, wait_ms=None, request_id=None)
    )
    answer(attempt, "b")
    assert (attempt.calls, attempt.failures, attempt.api_calls) == (2, 1, 1)
    assert [(turn.call, turn.number) for turn in attempt.turns] == [("b", 1)]


def test_judge_calls_are_no_turns():
    """They count in the money only, and do not disturb the open turn."""
    attempt = new_attempt()
    reserve(attempt, "a")
    reserve(attempt, "j", role="judge")
    attempt.answered(ModelAnswered("j", b"", 1, None))
    attempt.spent(BudgetSpent("j", NO_USAGE, 3, "p"))
    assert (attempt.open_turn.call, attempt.api_calls, attempt.settled_nano_usd) == ("a", 0, 3)


def test_money_is_summed_exactly():
    """Settled, unpriced and in doubt apart; a correction ends a doubt once, a second one changes its sum."""
    attempt = new_attempt()
    answer(attempt, "a")
    attempt.spent(BudgetSpent("a", Usage(5, None, 1, None), 30, "p"))
    answer(attempt, "b")
    attempt.spent(BudgetSpent("b", Usage(5, 2, None, None), None, None))
    reserve(attempt, "c")
    attempt.went_in_doubt(SpendInDoubt("c", "lost", 100, 20))
    assert attempt.turns[-1].in_doubt
    assert (attempt.settled_nano_usd, attempt.priced, attempt.unpriced) == (30, 1, 1)
    assert (attempt.in_doubt_nano_usd, attempt.usage) == (100, Usage(10, 2, 1, None))
    attempt.corrected(SpendCorrected("c", 90, "invoice"), 90)
    attempt.corrected(SpendCorrected("c", 40, "invoice, read again"), -50)
    assert (attempt.settled_nano_usd, attempt.in_doubt_nano_usd, attempt.turns[-1].in_doubt) == (70, 0, False)
    assert attempt.priced == 2


def test_in_doubt_without_a_bound_adds_nothing():
    """It is still a doubt."""
    attempt = new_attempt()
    attempt.went_in_doubt(SpendInDoubt("c", "lost", None, None))
    assert (attempt.in_doubt_nano_usd, attempt.doubts) == (0, {"c": None})


def test_tool_results_go_to_their_turn_and_position():
    """A result of a turn that is not there changes nothing."""
    attempt = new_attempt()
    answer(attempt, "a", tools=["f", "g"])
    attempt.tool_started(ToolStarted("u", 2, 1, 1, "g", b""))
    attempt.tool_finished(ToolFinished("u", 2, 1, 1, b"r", success=False, duration_ms=9))
    attempt.tool_finished(ToolFinished("u", 2, 2, 0, b"r", success=True, duration_ms=9))
    attempt.tool_started(ToolStarted("u", 2, 0, 0, "g", b""))
    assert attempt.turns[0].results == {1: ToolResult(b"r", success=False, duration_ms=9)}
    assert attempt.turns[0].started == {1}


def test_usage_is_null_only_where_nobody_reports():
    """Null plus a number is the number."""
    assert add_usage(Usage(1, None, 0, None), Usage(2, 3, None, None)) == Usage(3, 3, 0, None)


def test_counts_of_an_attempt():
    """Reasoning by turn, tools by name with their outcomes, tokens where reported."""
    attempt = new_attempt()
    answer(attempt, "a", tools=["f", "f", "ghost"], reasoning="r", usage={"reasoning_tokens": 4})
    for position, success in ((0, True), (1, False)):
        attempt.tool_finished(ToolFinished("u", 2, 1, position, b"", success=success, duration_ms=1))
    answer(attempt, "b", usage={"reasoning_tokens": 3})
    reserve(attempt, "c")
    assert count_attempt(attempt) == Counts(2, 1, 1, 7, {"f": (2, 1, 1), "ghost": (1, 0, 0)})


def test_reasoning_tokens_are_null_where_no_answer_says():
    """Never 0 instead."""
    attempt = new_attempt()
    answer(attempt, "a")
    assert count_attempt(attempt).reasoning_tokens is None
